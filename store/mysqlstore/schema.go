package mysqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-outbox/outbox"
)

// A column is one column of the table, as the server describes it or as the migration
// defines it.
type column struct {
	name      string
	kind      string // varchar, datetime, …
	length    int64  // of a text, in characters
	precision int64  // of a time
	collation string // of a text
	engine    string // of the table

	definition string // of the migration, for ALTER TABLE
}

func (s *Store) columns(ctx context.Context, q querier) ([]column, error) {
	var list []column
	err := each(ctx, q, func(rows *sql.Rows) error {
		var c column
		err := rows.Scan(&c.name, &c.kind, &c.length, &c.precision, &c.collation, &c.engine)
		list = append(list, c)
		return err
	}, s.sql.Columns, s.database, s.name)
	return list, err
}

// wide are the text types by size. A wider one than ours is fine.
var wide = []string{"text", "mediumtext", "longtext"}

// checkColumns compares the table with the migration and reports all differences.
func (s *Store) checkColumns(have []column) error {
	want := s.defined()
	byName := make(map[string]column, len(have))
	for _, c := range have {
		byName[c.name] = c
	}
	known := 0
	var wrong []string
	for _, w := range want {
		h, ok := byName[w.name]
		if !ok {
			wrong = append(wrong, fmt.Sprintf("column %s is missing: ALTER TABLE %s ADD COLUMN %s", w.name, s.cfg.Table, w.definition))
			continue
		}
		known++
		if flaw := w.flaw(h); flaw != "" {
			wrong = append(wrong, fmt.Sprintf("column %s %s: ALTER TABLE %s MODIFY COLUMN %s", w.name, flaw, s.cfg.Table, w.definition))
		}
	}
	if known < len(want)/2 {
		return outbox.ErrSchema.With("table", fmt.Sprintf(
			"%s exists but is not an outbox: choose another name and run `outbox migrate up --table NAME`", s.cfg.Table))
	}
	if engine := have[0].engine; !strings.EqualFold(engine, "InnoDB") {
		wrong = append(wrong, fmt.Sprintf("the engine is %s, which has no transactions: ALTER TABLE %s ENGINE=InnoDB", engine, s.cfg.Table))
	}
	if len(wrong) > 0 {
		return outbox.ErrSchema.With("table", s.cfg.Table+" is not as migrated: "+strings.Join(wrong, "; "))
	}
	return nil
}

// flaw says what is wrong with h in place of w, or "".
func (w column) flaw(h column) string {
	wider := slices.Index(wide, h.kind) > slices.Index(wide, w.kind) && slices.Contains(wide, w.kind)
	switch {
	case h.kind != w.kind && !wider:
		return fmt.Sprintf("is %s and not %s", h.kind, w.kind)
	case w.kind == "varchar" && h.length < w.length:
		return fmt.Sprintf("holds %d characters and must hold %d", h.length, w.length)
	case w.kind == "datetime" && h.precision < w.precision:
		return fmt.Sprintf("has %d digits of a second and needs %d", h.precision, w.precision)
	case w.collation != h.collation:
		return fmt.Sprintf("has the collation %s, which takes different texts for equal, and needs %s", h.collation, w.collation)
	}
	return ""
}

var definition = regexp.MustCompile(`(?m)^  (([a-z_]+) ([A-Z]+)(?:\(([0-9]+)\))?( .*?)?),?$`)

// defined reads the columns out of the migration that creates the table, so that there is
// one definition.
func (s *Store) defined() []column {
	create := "CREATE TABLE IF NOT EXISTS " + variables(s.database, s.name)["table"] + " ("
	var list []column
	for _, statement := range s.migrations.Migrations[0].Up {
		_, body, found := strings.Cut(statement, create)
		if !found {
			continue
		}
		for _, m := range definition.FindAllStringSubmatch(body, -1) {
			size, _ := strconv.ParseInt(m[4], 10, 64) // "" is 0
			c := column{definition: m[1], name: m[2], kind: strings.ToLower(m[3])}
			switch {
			case strings.Contains(m[5], "ascii_bin"):
				c.collation = "ascii_bin"
			case c.kind == "varchar" || slices.Contains(wide, c.kind):
				c.collation = "utf8mb4_bin"
				// The default of a table that somebody else made may be another.
				c.definition = strings.TrimSuffix(m[1], m[5]) + " CHARACTER SET utf8mb4 COLLATE utf8mb4_bin" + m[5]
			}
			switch c.kind {
			case "varchar":
				c.length = size
			case "datetime":
				c.precision = size
			}
			list = append(list, c)
		}
	}
	return list
}

// The oldest servers that have all of JSON_TABLE, SKIP LOCKED, defaults that are
// expressions and checks.
var (
	oldestMariaDB = []int{10, 6, 0}
	oldestMySQL   = []int{8, 0, 16}
)

var versionNumber = regexp.MustCompile(`([0-9]+)\.([0-9]+)\.([0-9]+)`)

// checkVersion refuses servers that lack what the statements need.
func checkVersion(version string) error {
	name, oldest := "MySQL", oldestMySQL
	if strings.Contains(version, "MariaDB") {
		name, oldest = "MariaDB", oldestMariaDB
		version = strings.TrimPrefix(version, "5.5.5-") // what it tells old replicas
	}
	m := versionNumber.FindStringSubmatch(version)
	if m == nil {
		return outbox.ErrSchema.With("server", fmt.Sprintf("version %q is not one of MariaDB or MySQL", version))
	}
	have := make([]int, 3)
	for i := range have {
		have[i], _ = strconv.Atoi(m[i+1]) // digits
	}
	if slices.Compare(have, oldest) < 0 {
		return outbox.ErrSchema.With("server", fmt.Sprintf("%s %s is too old: upgrade it to %d.%d.%d or later",
			name, strings.Join(m[1:], "."), oldest[0], oldest[1], oldest[2]))
	}
	return nil
}

// checkSession refuses servers and connections that the statements do not work on.
func (s *Store) checkSession(ctx context.Context, q querier) error {
	var version, client, results string
	var autocommit bool
	if err := one(ctx, q, []any{&version, &autocommit, &client, &results}, s.sql.Session); err != nil {
		return err
	}
	if err := checkVersion(version); err != nil {
		return err
	}
	if !autocommit {
		return errNoAutocommit
	}
	// The server converts what it reads and sends; "" and binary leave it alone.
	for _, charset := range []string{client, results} {
		if charset != "utf8mb4" && charset != "binary" && charset != "" {
			return outbox.ErrInvalidConfig.With("charset", fmt.Sprintf(
				"of the connection is %s, which cannot say every text: remove charset and collation from the DSN, or say charset=utf8mb4", charset))
		}
	}
	return nil
}
