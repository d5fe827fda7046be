package sqlitestore

import (
	"cmp"
	"database/sql"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	_ "modernc.org/sqlite"
)

// planned is a migrated store for looking at plans.
func planned(t *testing.T) *Store {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "plan.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	s, err := New(db, Config{Table: "ob"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// plan is the query plan of a statement on tables that were never analysed.
func (s *Store) plan(t *testing.T, statement string) string {
	t.Helper()
	var lines []string
	err := each(t.Context(), s.db, func(rows *sql.Rows) error {
		var id, parent, unused int
		var detail string
		err := rows.Scan(&id, &parent, &unused, &detail)
		lines = append(lines, detail)
		return err
	}, "EXPLAIN QUERY PLAN "+statement, make([]any, parameters(statement))...)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return strings.Join(lines, "\n")
}

var numbered = regexp.MustCompile(`\?([0-9]+)`)

// parameters counts those of a statement, which are all numbered or none is.
func parameters(statement string) int {
	highest := 0
	for _, m := range numbered.FindAllStringSubmatch(statement, -1) {
		n, _ := strconv.Atoi(m[1])
		highest = max(highest, n)
	}
	return cmp.Or(highest, strings.Count(statement, "?"))
}

func TestEveryStatementFitsTheSchema(t *testing.T) {
	s := planned(t)
	for _, stmts := range []any{s.sql, s.list[true], s.list[false]} {
		v := reflect.ValueOf(stmts)
		for i := range v.NumField() {
			t.Run(v.Type().Field(i).Name, func(t *testing.T) { s.plan(t, v.Field(i).String()) })
		}
	}
}

func TestHotStatementsUseTheirIndexes(t *testing.T) {
	const byKey = "INTEGER PRIMARY KEY"
	s := planned(t)
	newest := s.list[false]
	for _, c := range []struct {
		name      string
		statement string
		want      string
		sorts     bool
	}{
		{"read_fresh", s.sql.ReadFresh, byKey, false},
		{"read_seen", s.sql.ReadSeen, byKey, false},
		{"read_ids", s.sql.ReadIDs, byKey, false},
		{"read_due", s.sql.ReadDue, "ob_due", false},
		{"read_rewind", s.sql.ReadRewind, byKey, false},
		{"read_strays", s.sql.ReadStrays, byKey, false},
		{"heads", s.sql.Heads, "ob_held", true}, // of two sorted lists of at most a page
		{"publish_run", s.sql.PublishRun, byKey, false},
		{"publish_ids", s.sql.PublishIDs, byKey, false},
		{"delete_run", s.sql.DeleteRun, byKey, false},
		{"delete_ids", s.sql.DeleteIDs, byKey, false},
		{"settle_failed", s.sql.SettleFailed, byKey, false},
		{"members", s.sql.Members, byKey, true},
		{"purge_published", s.sql.PurgePublished, "ob_published", false},
		{"purge_dead", s.sql.PurgeDead, "ob_dead", false},
		{"expired_published", s.sql.ExpiredPublished, "ob_published", false},
		{"count_held", s.sql.CountHeld, "ob_due", false},
		{"count_dead", s.sql.CountDead, "ob_dead", false},
		{"count_fresh", s.sql.CountFresh, byKey, false},
		{"tenants_fresh", s.sql.TenantsFresh, byKey, true}, // to group, at most countCap
		{"tenants_held", s.sql.TenantsHeld, "ob_due", true},
		{"tenants_dead", s.sql.TenantsDead, "ob_dead", true},
		{"ahead", s.sql.Ahead, "ob_held", true}, // of two rows
		{"dead_of_key", s.sql.DeadOfKey, "ob_dead", false},
		{"backoff", s.sql.Backoff, "ob_held", false},
		{"waiting", s.sql.Waiting, "ob_held", false},
		{"delivered", s.sql.Delivered, byKey, true}, // of a bounded part
		{"slim dead", newest.SlimDead, "ob_dead", false},
		{"slim all", newest.SlimAll, byKey, false},
		{"list all", newest.All, byKey, false},
		{"list held", newest.Held, "ob_held", false},
		{"list dead", newest.Dead, "ob_dead", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan := s.plan(t, c.statement)
			if !strings.Contains(plan, c.want) {
				t.Errorf("does not use %s:\n%s", c.want, plan)
			}
			if strings.Contains(plan, "TEMP B-TREE") && !c.sorts {
				t.Errorf("sorts:\n%s", plan)
			}
			for line := range strings.Lines(plan) {
				line = strings.TrimSpace(line)
				if line == "SCAN m" || line == "SCAN ob" {
					t.Errorf("reads the whole table:\n%s", plan)
				}
			}
		})
	}
}
