package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
)

// planned is a store with a table of 20,000 messages, some of them held.
func planned(t *testing.T) *Store {
	t.Helper()
	s, err := New(testenv.MySQL(t).Open(t), Config{Table: "ob"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		`INSERT INTO ob (topic, msg_key, payload) VALUES ('a.b', 'k', '{}')`,
		`INSERT INTO ob (topic, msg_key, payload) SELECT 'a.b', CONCAT('k', a.n), '{}' FROM ` + digits("a") + `, ` + digits("b") + `, ` +
			digits("c") + `, ` + digits("d") + `, ` + digits("e") + ` WHERE e.n < 2`,
		`UPDATE ob SET available_at = created_at + INTERVAL 1 SECOND WHERE sequence % 20 = 0 AND sequence < 2000`,
		`UPDATE ob SET dead_at = created_at, dead_reason = 'attempts' WHERE sequence % 20 = 1 AND sequence < 2000`,
	} {
		if _, err := s.db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// digits is a table of the numbers from 0 to 9, in the words of both servers.
func digits(name string) string {
	parts := make([]string, 10)
	for i := range parts {
		parts[i] = fmt.Sprintf("SELECT %d AS n", i)
	}
	return "(" + strings.Join(parts, " UNION ALL ") + ") " + name
}

// An access is one table of a plan.
type access struct {
	table, kind, key, extra string
}

// plan is how the server would run a statement.
func (s *Store) plan(t *testing.T, text string) []access {
	t.Helper()
	var list []access
	err := eachText(t.Context(), s.db, func(rows *sql.Rows) error {
		columns, err := rows.Columns()
		if err != nil {
			return err
		}
		values := make([]sql.NullString, len(columns))
		dest := make([]any, len(columns))
		for i := range values {
			dest[i] = &values[i]
		}
		err = rows.Scan(dest...)
		var a access
		for i, column := range columns {
			switch strings.ToLower(column) {
			case "table":
				a.table = values[i].String
			case "type":
				a.kind = values[i].String
			case "key":
				a.key = values[i].String
			case "extra":
				a.extra = values[i].String
			}
		}
		list = append(list, a)
		return err
	}, "EXPLAIN "+text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return list
}

// manyIDs is a list as long as they get, scattered.
func manyIDs() []int64 {
	ids := make([]int64, listSize)
	for i := range ids {
		ids[i] = int64(3 + 2*i)
	}
	return ids
}

func TestHotStatementsUseTheirIndexes(t *testing.T) {
	s := planned(t)
	ids, now := manyIDs(), time.Now()
	var event string
	if err := s.db.QueryRowContext(t.Context(), "SELECT event_id FROM ob LIMIT 1").Scan(&event); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name      string
		statement string
		args      []any
		key       string
	}{
		{"read_fresh", s.sql.ReadFresh, []any{100, 0, 255, 1000}, "PRIMARY"},
		{"read_fresh of a shard", s.sql.ReadFresh, []any{100, 0, 63, 1000}, "PRIMARY"},
		{"read_all", s.sql.ReadAll, []any{100, 0, 255, 1000}, "PRIMARY"},
		{"read_ids", s.sql.ReadIDs, []any{ids, 0, 255}, "PRIMARY"},
		{"read_due", s.sql.ReadDue, []any{now.Add(-time.Hour), 0, 0, 255, 500}, "ob_due"},
		{"read_rewind", s.sql.ReadRewind, []any{0, 10_000, 0, 255, 500, false, []string{"k1", "k2"}, []string(nil)}, "PRIMARY"},
		{"read_strays", s.sql.ReadStrays, []any{0, 10_000, 0, 255, 500}, "PRIMARY"},
		{"heads", s.sql.Heads, []any{0, 0, 255, 500}, "ob_held"},
		{"publish_run", s.sql.PublishRun, []any{1, 500, now, 1, 0}, "PRIMARY"},
		{"publish_ids", s.sql.PublishIDs, []any{ids, now, 1, 0}, "PRIMARY"},
		{"delete_run", s.sql.DeleteRun, []any{1, 500, 0}, "PRIMARY"},
		{"delete_ids", s.sql.DeleteIDs, []any{ids, 0}, "PRIMARY"},
		{"lock_open", s.sql.LockOpen, []any{ids}, "PRIMARY"},
		{"settle", s.sql.Settle, []any{`[{"sequence":1},{"sequence":2}]`}, "PRIMARY"},
		{"unsettled", s.sql.Unsettled, []any{ids}, "PRIMARY"},
		{"crashed", s.sql.Crashed, []any{ids}, "PRIMARY"},
		{"purge_published", s.sql.PurgePublished, []any{ids, 1}, "PRIMARY"},
		{"purge_dead", s.sql.PurgeDead, []any{ids, 1}, "PRIMARY"},
		{"purge_slice", s.sql.PurgeSlice, []any{0, 10_000}, "PRIMARY"},
		{"expired_published", s.sql.ExpiredPublished, []any{0, 10_000, 1, 500}, "PRIMARY"},
		{"expired_dead", s.sql.ExpiredDead, []any{0, 1, 500}, "ob_held"},
		{"count_fresh", s.sql.CountFresh, []any{1000}, "PRIMARY"},
		{"count_held", s.sql.CountHeld, []any{1000}, "ob_due"},
		{"count_dead", s.sql.CountDead, []any{1000}, "ob_held"},
		{"tenants_fresh", s.sql.TenantsFresh, []any{1000}, "PRIMARY"},
		{"tenants_held", s.sql.TenantsHeld, []any{1000}, "ob_due"},
		{"tenants_dead", s.sql.TenantsDead, []any{1000}, "ob_held"},
		{"list", s.sql.ListDesc, []any{0, int64(1) << 60, 50}, "PRIMARY"},
		{"list dead", s.sql.ListHeldDesc, []any{0, int64(1) << 60, 50, 2}, "ob_held"},
		{"get", s.sql.Get, []any{event}, "ob_event_id"},
		{"ahead", s.sql.Ahead, []any{"k1", 10_000, true}, "ob_held"},
		{"dead_of_key", s.sql.DeadOfKey, []any{"k1", 100}, "ob_held"},
		{"backoff", s.sql.Backoff, []any{100}, "ob_held"},
		{"replay", s.sql.Replay, []any{`[[1,0],[2,0]]`, now}, "PRIMARY"},
		{"available", s.sql.Available, []any{ids, now, now}, "PRIMARY"},
		{"discard", s.sql.Discard, []any{ids}, "PRIMARY"},
		{"remove", s.sql.Remove, []any{ids}, "PRIMARY"},
		{"last_routes", s.sql.LastRoutes, []any{ids}, "ob_attempt_by_message"},
		{"waiting", s.sql.Waiting, []any{[]string{"k1"}, 1000}, "PRIMARY"},
		{"delivered", s.sql.Delivered, []any{0, 1000, []string{"k1"}}, "PRIMARY"},
		{"withdraw", s.sql.Withdraw, []any{ids}, "PRIMARY"},
		{"finish_batches", s.sql.FinishBatches, []any{0, 1, []int64{1, 2, 3}}, "PRIMARY"},
		{"beat_batches", s.sql.BeatBatches, []any{0, 1, []int64{1}, now}, "PRIMARY"},
		{"leftovers", s.sql.Leftovers, []any{0, 1}, "PRIMARY"},
		{"fence", s.sql.Fence, []any{0, "x", 1}, "PRIMARY"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text, err := bind(c.statement, c.args...)
			if err != nil {
				t.Fatal(err)
			}
			used := false
			for _, a := range s.plan(t, text) {
				used = used || a.key == c.key
				if ours(a.table) && (a.kind == "ALL" || a.key == "") {
					t.Errorf("reads all of %s: %+v", a.table, a)
				}
				if ours(a.table) && (strings.Contains(a.extra, "filesort") || strings.Contains(a.extra, "temporary")) {
					t.Errorf("sorts %s: %+v", a.table, a)
				}
			}
			if !used {
				t.Errorf("does not use %s: %+v", c.key, s.plan(t, text))
			}
		})
	}
}

// ours are the tables that must not be scanned; others are made by the statement.
func ours(table string) bool {
	return table == "m" || table == "ob" || table == "b" || table == "ob_batch" || table == "ob_attempt"
}

func TestEveryStatementFitsTheSchema(t *testing.T) {
	s := planned(t)
	args := []any{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}
	special := map[string][]any{
		"Settle":        {`[]`},
		"NoteAttempts":  {[]row{{1, time.Now(), 1, "", "retry", "", 1}}},
		"RecordBatches": {[]row{{0, 1, 1, "[]", 0, true, false, time.Now(), time.Now()}}},
		"InsertBatch":   {0, 1, 1, "[]", 0, true, false, false, nil, time.Now(), time.Now()},
		"StartBatch":    {0, 1, 1, time.Now(), time.Now(), "[]"},
		"BeatBatches":   {0, 1, []int64{1}, time.Now()},
		"ReadDue":       {time.Now(), 0, 0, 255, 1},
		"ListHeldAsc":   {0, 1, 1, 1},
		"PublishRun":    {1, 1, time.Now(), 1, 0},
		"PublishIDs":    {[]int64{1}, time.Now(), 1, 0},
		"Replay":        {`[[1,0]]`, time.Now()},
		"Available":     {[]int64{1}, time.Now(), time.Now()},
		"JobInsert":     {"x", "replay", "{}", 1, 1, 1, "a", "r", "running", 1, time.Now()},
		"JobUpdate":     {"x", "done", 1, 1, nil, "", nil, time.Now()},
		"Enqueue":       nil,
		"Existing":      nil,
		"Visible":       nil,
	}
	v := reflect.ValueOf(s.sql)
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		t.Run(name, func(t *testing.T) {
			values, given := special[name]
			if !given {
				values = args
			}
			if given && values == nil {
				s.prepare(t, v.Field(i).String())
				return
			}
			text, err := bind(v.Field(i).String(), values...)
			if err != nil {
				t.Fatal(err)
			}
			s.try(t, text)
		})
	}
}

func (s *Store) prepare(t *testing.T, text string) {
	t.Helper()
	stmt, err := s.db.PrepareContext(t.Context(), text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if err := stmt.Close(); err != nil { //nolint:sqlclosecheck // there is nothing in between
		t.Error(err)
	}
}

// try runs a statement in a transaction that is rolled back.
func (s *Store) try(t *testing.T, text string) {
	t.Helper()
	undo := errors.New("undo")
	err := s.transact(t.Context(), time.Second, func(ctx context.Context, tx *sql.Tx) error {
		if err := eachText(ctx, tx, func(*sql.Rows) error { return nil }, text); err != nil {
			return err
		}
		return undo
	})
	if !errors.Is(err, undo) {
		t.Errorf("%s: %v", text, err)
	}
}

func TestAReadIsOneStatementWithoutATemporaryTable(t *testing.T) {
	s := planned(t)
	l := &lease{store: s, info: outbox.LeaseInfo{SlotHi: 255}}
	text, err := l.query(outbox.ReadRequest{
		After: 100, Limit: 1000, IDs: manyIDs(), Due: 500,
		Rewind: &outbox.Rewind{To: 10_000, Limit: 500, Keys: []string{"k1"}}, Sweep: &outbox.Range{To: 10_000},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range s.plan(t, text) {
		if strings.Contains(a.extra, "temporary") || strings.Contains(a.extra, "filesort") || strings.HasPrefix(a.table, "<union") {
			t.Errorf("%+v", a)
		}
	}
}
