package pgstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/store/pgstore"
)

// diagnosis is what Diagnose has reported: lines of name, level, text and fix.
type diagnosis []string

func diagnose(t *testing.T, s *pgstore.Store, long time.Duration) diagnosis {
	t.Helper()
	var d diagnosis
	err := s.DiagnoseWithin(t.Context(), long, func(name, level, text, fix string) {
		d = append(d, fmt.Sprintf("%s %s: %s | %s", name, level, text, fix))
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (d diagnosis) find(prefix string) string {
	for _, line := range d {
		if strings.HasPrefix(line, prefix) {
			return line
		}
	}
	return ""
}

// Each trouble is made for real, found with its fix, and gone after the fix.
func TestDiagnoseFindsWhatIsWrongAndHowToMendIt(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t).Pool(t)
	tests := []struct {
		name  string
		wrong []string
		want  string // the finding
		fix   string // in its fix
		mend  []string
	}{
		{
			"autovacuum off",
			[]string{`ALTER TABLE %s SET (autovacuum_enabled = false)`},
			"autovacuum error: autovacuum is off for the table", `ALTER TABLE %q RESET (autovacuum_enabled)`,
			[]string{`ALTER TABLE %s RESET (autovacuum_enabled)`},
		},
		{
			"default vacuum settings",
			[]string{`ALTER TABLE %s RESET (autovacuum_vacuum_scale_factor)`},
			"autovacuum warning: the table has the server's default settings", `autovacuum_vacuum_scale_factor = 0.05`,
			[]string{`ALTER TABLE %s SET (autovacuum_vacuum_scale_factor = 0.05)`},
		},
		{
			"no room on pages",
			[]string{`ALTER TABLE %s RESET (fillfactor)`},
			"fillfactor warning", "SET (fillfactor = 50)",
			[]string{`ALTER TABLE %s SET (fillfactor = 50)`},
		},
		{
			"an index is missing",
			[]string{`DROP INDEX %s_dead`},
			"indexes error: the index %s_dead is missing", "outbox migrate print",
			[]string{`CREATE INDEX %[1]s_dead ON %[1]s (sequence) WHERE dead_at IS NOT NULL`},
		},
		{
			"an index in the way",
			[]string{`CREATE INDEX %[1]s_slow ON %[1]s (published_at)`},
			"indexes warning: the index %s_slow mentions a column that publishing changes", "DROP INDEX CONCURRENTLY",
			[]string{`DROP INDEX %s_slow`},
		},
		{
			"an index that failed to build",
			[]string{`UPDATE pg_index SET indisvalid = false WHERE indexrelid = '%s_due'::regclass`},
			"indexes error: the index %s_due is not valid", "REINDEX INDEX CONCURRENTLY",
			[]string{`REINDEX INDEX %s_due`},
		},
		{
			"cached sequence numbers",
			[]string{`ALTER SEQUENCE %s_sequence_seq CACHE 50`},
			"sequence error: every session takes 50 numbers at once", "CACHE 1",
			[]string{`ALTER SEQUENCE %s_sequence_seq CACHE 1`},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			store := newStore(t, pool, pgstore.Config{})
			execNamed(t, pool, store.Table(), tt.wrong)

			finding := diagnose(t, store, time.Hour).find(named(tt.want, store.Table()))

			if _, fix, _ := strings.Cut(finding, " | "); finding == "" || !strings.Contains(fix, quoted(tt.fix, store.Table())) {
				t.Fatalf("want %q with the fix %q, got %q", tt.want, tt.fix, finding)
			}
			execNamed(t, pool, store.Table(), tt.mend)
			if finding := diagnose(t, store, time.Hour).find(named(tt.want, store.Table())); finding != "" {
				t.Errorf("still found after it was mended: %s", finding)
			}
		})
	}
}

func named(format, table string) string {
	return strings.ReplaceAll(format, "%s", strings.TrimPrefix(table, "public."))
}

func quoted(format, table string) string {
	return strings.ReplaceAll(format, "%q", `"public"."`+strings.TrimPrefix(table, "public.")+`"`)
}

func execNamed(t *testing.T, pool *pgxpool.Pool, table string, statements []string) {
	t.Helper()
	for _, sql := range statements {
		sql = strings.ReplaceAll(named(sql, table), "%[1]s", table)
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

func TestDiagnoseFindsLongTransactions(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t).Pool(t)
	store := newStore(t, pool, pgstore.Config{})
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	var pid int
	if err := tx.QueryRow(t.Context(), `SELECT pg_backend_pid() FROM pg_sleep(0.01)`).Scan(&pid); err != nil {
		t.Fatal(err)
	}

	finding := diagnose(t, store, time.Millisecond).find("transactions warning")

	if want := fmt.Sprintf("SELECT pg_terminate_backend(%d)", pid); !strings.Contains(finding, want) {
		t.Errorf("want the fix %q, got %q", want, finding)
	}
	if finding := diagnose(t, store, time.Hour).find("transactions ok"); finding == "" {
		t.Error("an ordinary transaction was found")
	}
}

// A superuser is warned; a role with the printed grants is not.
func TestDiagnoseJudgesThePrivilegesOfTheRole(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	pool := db.Pool(t)
	store := newStore(t, pool, pgstore.Config{})
	if finding := diagnose(t, store, time.Hour).find("privileges warning"); !strings.Contains(finding, "is a superuser") {
		t.Errorf("got %q", finding)
	}

	role := "viewer_" + strings.ReplaceAll(store.Table(), ".", "_")
	for _, sql := range []string{
		`CREATE ROLE ` + role, `GRANT SELECT ON ALL TABLES IN SCHEMA public TO ` + role, `GRANT ` + role + ` TO current_user`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_, _ = pool.Exec(ctx, `DROP OWNED BY `+role)
		if _, err := pool.Exec(ctx, `DROP ROLE `+role); err != nil {
			t.Error(err)
		}
	})
	cfg := pool.Config().Copy()
	cfg.ConnConfig.RuntimeParams["role"] = role
	limited, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer limited.Close()
	viewer, err := pgstore.New(limited, pgstore.Config{Table: store.Table()})
	if err != nil {
		t.Fatal(err)
	}

	if finding := diagnose(t, viewer, time.Hour).find("privileges ok"); finding == "" {
		t.Errorf("got %q", diagnose(t, viewer, time.Hour).find("privileges"))
	}
	if _, err := pool.Exec(t.Context(), `GRANT DELETE ON outbox_audit TO `+role); err != nil {
		t.Fatal(err)
	}
	if finding := diagnose(t, viewer, time.Hour).find("privileges warning"); !strings.Contains(finding, "REVOKE") {
		t.Errorf("got %q", finding)
	}
}

func TestDiagnoseTellsAPoolerFromTheServer(t *testing.T) {
	t.Parallel()
	direct := testenv.Postgres(t)
	store := newStore(t, direct.Pool(t), pgstore.Config{})
	if finding := diagnose(t, store, time.Hour).find("pooler ok"); !strings.Contains(finding, "leads to the server itself") {
		t.Errorf("got %q", finding)
	}
	pool, err := pgxpool.New(t.Context(), testenv.PgBouncer(t, direct.DSN()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	pooled, err := pgstore.New(pool, pgstore.Config{Table: store.Table()})
	if err != nil {
		t.Fatal(err)
	}

	if finding := diagnose(t, pooled, time.Hour).find("pooler warning"); !strings.Contains(finding, "transaction mode") {
		t.Errorf("got %q", diagnose(t, pooled, time.Hour).find("pooler"))
	}
}
