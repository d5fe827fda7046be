// Package mark is what the inboxes have in common: the statements, the names they
// accept, and the rule that a mark is never kept without its effect.
package mark

import (
	"bytes"
	"embed"
	"fmt"
	"hash/fnv"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/sqlfile"
)

//go:embed sql
var files embed.FS

// DefaultTable is the name of an inbox that was given none.
const DefaultTable = "inbox"

// Statements are those of one inbox, rendered.
type Statements struct {
	Mark     string `sql:"mark.sql"`
	MarkMany string `sql:"mark_many.sql"`
	Clean    string `sql:"clean.sql"`
	Exists   string `sql:"exists.sql"`
	Applied  string `sql:"applied.sql"`
}

// MySQL has more: for batches, and for migrations.
type MySQL struct {
	Lock    string `sql:"lock.sql"`
	Known   string `sql:"known.sql"`
	Fresh   string `sql:"fresh.sql"`
	Guard   string `sql:"guard.sql"`
	Release string `sql:"release.sql"`
}

// Stripes is how many locks the events of a MySQL inbox share; the migration makes them.
// Enough that strangers seldom meet.
const Stripes = 8 * 8 * 8 * 8

// Stripe is the lock of an event.
func Stripe(consumer string, event uuid.UUID) int {
	h := fnv.New32a()
	h.Write([]byte(consumer))
	h.Write(event[:])
	return int(h.Sum32() % Stripes)
}

// eight are the numbers from 0 to 7 as a table; MySQL bounds recursion to 1000.
const eight = `(SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3` +
	` UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7)`

// clock is SQLite's, in microseconds; see the first migration of the outbox for why it
// is not unixepoch.
const clock = `CAST(round((julianday('now') - 2440587.5) * 86400000) * 1000 AS INTEGER)`

// Load renders the statements of a table in a dialect: postgres, mysql or sqlite. The
// variables are those of its migrations, too.
func Load(dialect, table string) (Statements, map[string]string, error) {
	var s Statements
	vars, err := variables(dialect, table)
	if err != nil {
		return s, nil, err
	}
	err = sqlfile.Render(files, "sql/"+dialect, vars, &s)
	return s, vars, err
}

// LoadMySQL renders what only MySQL has.
func LoadMySQL(vars map[string]string) (s MySQL, err error) {
	err = sqlfile.Render(files, "sql/mysql_only", vars, &s)
	return s, err
}

func variables(dialect, name string) (map[string]string, error) {
	schema, table, ok, reason := sqlfile.ParseTable(name)
	if ok && schema != "" && dialect == "sqlite" {
		ok, reason = false, "SQLite has no schemas: want a plain name"
	}
	if !ok {
		return nil, outbox.ErrInvalidTable.With("table", reason)
	}
	quote, database := sqlfile.DoubleQuote, ""
	switch {
	case dialect == "postgres" && schema == "":
		schema = "public" // whatever the search_path says
	case dialect == "mysql":
		quote, database = sqlfile.Backtick, "DATABASE()"
		if schema != "" {
			database = "'" + schema + "'"
		}
	}
	vars := sqlfile.Vars(schema, table, quote)
	vars["database"], vars["namespace"] = database, schema
	vars["stripe"] = vars["schema"] + quote(table+"_stripe")
	vars["eight"] = eight
	vars["clock"] = clock
	return vars, nil
}

var consumerName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}$`)

// Check refuses names and ids that would make different events look the same, before
// any SQL.
func Check(consumer string, events ...uuid.UUID) error {
	if !consumerName.MatchString(consumer) {
		return outbox.ErrInvalidConfig.With("consumer", fmt.Sprintf("%.120q must match %s", consumer, consumerName))
	}
	if slices.Contains(events, uuid.Nil) {
		return outbox.ErrInvalidMessage.With("event_id", "is missing; without it every event is a duplicate of the first")
	}
	return nil
}

// Sorted returns the events without repetitions in the order of their bytes: two
// transactions that mark several events in one order wait for each other but never in a
// circle.
func Sorted(events []uuid.UUID) []uuid.UUID {
	sorted := slices.Clone(events)
	slices.SortFunc(sorted, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(sorted)
}

// InOrder returns those of events that are in fresh, once each, in the order given.
func InOrder(events, fresh []uuid.UUID) []uuid.UUID {
	left := make(map[uuid.UUID]bool, len(fresh))
	for _, id := range fresh {
		left[id] = true
	}
	list := make([]uuid.UUID, 0, len(fresh))
	for _, id := range events {
		if left[id] {
			list = append(list, id)
			delete(left, id)
		}
	}
	return list
}

// Array is the text of an array of PostgreSQL.
func Array(events []uuid.UUID) string {
	var b strings.Builder
	b.Grow(2 + 37*len(events))
	b.WriteByte('{')
	for i, id := range events {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(id.String())
	}
	b.WriteByte('}')
	return b.String()
}

// Effect calls fn after its event was marked. When fn does not return nil, because it
// fails, panics or ends its goroutine, the transaction is rolled back here and now: a
// caller that went on to commit would keep the mark and lose the event.
func Effect(rollback func() error, fn func() error) error {
	done := false
	defer func() {
		if !done {
			_ = rollback() // an error leaves nothing that could be committed either
		}
	}()
	err := fn()
	done = err == nil
	return err
}
