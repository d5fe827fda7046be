package pgstore_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/store/pgstore"
)

var update = flag.Bool("update", false, "rewrite golden files")

// fill adds n messages, of which the first tenth is dead or put back. Autovacuum is
// off, so the planner knows nothing about the table.
func fill(t testing.TB, pool *pgxpool.Pool, table string, n int) {
	t.Helper()
	exec(t, pool, fmt.Sprintf(`ALTER TABLE %q SET (autovacuum_enabled = false)`, table))
	exec(t, pool, fmt.Sprintf(`INSERT INTO %q (topic, msg_key, payload)
		SELECT 'shop.order.placed.v1', 'k' || i %% 100, '{"n":1}' FROM generate_series(1, $1::int) i`, table), n)
	exec(t, pool, fmt.Sprintf(`UPDATE %q SET available_at = created_at + interval '1 second' WHERE sequence %% 20 = 0 AND sequence <= $1`, table), n/10)
	exec(t, pool, fmt.Sprintf(`UPDATE %q SET dead_at = now(), dead_reason = 'attempts' WHERE sequence %% 20 = 1 AND sequence <= $1`, table), n/10)
}

func acquire(t testing.TB, store *pgstore.Store) outbox.Lease {
	t.Helper()
	lease, err := store.Acquire(t.Context(), outbox.LeaseRequest{Instance: "test", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func TestPlansOfATableWithoutStatisticsUseTheirIndexes(t *testing.T) {
	pool := testenv.Postgres(t).Pool(t)
	store := newStore(t, pool, pgstore.Config{Table: "plan_outbox"})
	fill(t, pool, "plan_outbox", 50_000)
	lease := acquire(t, store)

	var b strings.Builder
	for _, shard := range []struct {
		name   string
		lo, hi int
	}{{"one shard", 0, 255}, {"a quarter", 0, 63}} {
		pgstore.WithShard(lease, shard.lo, shard.hi)
		for _, st := range pgstore.HotStatements(lease, 20_001, 1000) {
			plan, err := pgstore.Explain(t.Context(), pool, st)
			if err != nil {
				t.Fatal(err)
			}
			text := outline(plan)
			fmt.Fprintf(&b, "== %s, %s\n%s\n\n", st.Name, shard.name, text)
			if strings.Contains(text, "Seq Scan on plan_outbox\n") || strings.Contains(text, "Seq Scan on plan_outbox m") {
				t.Errorf("%s, %s: scans the whole table:\n%s", st.Name, shard.name, strings.Join(plan, "\n"))
			}
			if strings.HasPrefix(st.Name, "read fresh") && strings.Contains(text, "Sort") {
				t.Errorf("%s, %s: sorts the tail of the table:\n%s", st.Name, shard.name, strings.Join(plan, "\n"))
			}
		}
	}
	// Servers of another version write plans in other words.
	major := count(t, pool, `SELECT current_setting('server_version_num')::int / 10000`)
	file := filepath.Join("testdata", fmt.Sprintf("plans.pg%d.golden", major))
	if _, err := os.Stat(file); err != nil && !*update {
		t.Skipf("no golden plans for PostgreSQL %d; look at them with -update", major)
	}
	golden(t, file, b.String())
}

func TestOperatorsFollowIndexesOnATableWithoutStatistics(t *testing.T) {
	pool := testenv.Postgres(t).Pool(t)
	store := newStore(t, pool, pgstore.Config{Table: "op_outbox"})
	fill(t, pool, "op_outbox", 50_000)
	begin, statements := pgstore.OperatorStatements(acquire(t, store))
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), begin); err != nil {
		t.Fatal(err)
	}
	for _, st := range statements {
		plan, err := pgstore.Explain(t.Context(), tx, st)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Join(plan, "\n")
		if strings.Contains(text, "Seq Scan on op_outbox ") || strings.Contains(text, "Seq Scan on op_outbox\n") {
			t.Errorf("%s scans the whole table:\n%s", st.Name, text)
		}
		if strings.HasPrefix(st.Name, "candidates") && strings.Contains(text, "Sort") {
			t.Errorf("%s sorts:\n%s", st.Name, text)
		}
	}
}

// An index on anything that a settle changes would cost two thirds of the rate.
func TestSettlingIsAHOTUpdate(t *testing.T) {
	pool := testenv.Postgres(t).Pool(t)
	store := newStore(t, pool, pgstore.Config{Table: "hot_outbox"})
	fill(t, pool, "hot_outbox", 2000)
	before := count(t, pool, `SELECT pg_stat_get_tuples_updated('hot_outbox'::regclass)`)
	lease := acquire(t, store)
	var step outbox.Step
	for id := int64(1001); id <= 2000; id++ {
		step.Outcomes = append(step.Outcomes, outbox.Outcome{Sequence: id, Spent: 1})
	}
	if err := lease.Step(t.Context(), step); err != nil {
		t.Fatal(err)
	}
	pool.Reset() // a backend that ends reports what it did

	deadline := time.Now().Add(20 * time.Second)
	for count(t, pool, `SELECT pg_stat_get_tuples_updated('hot_outbox'::regclass)`) < before+1000 {
		if time.Now().After(deadline) {
			t.Fatal("the server reports no updates")
		}
	}
	if hot := count(t, pool, `SELECT pg_stat_get_tuples_hot_updated('hot_outbox'::regclass)`); hot < 950 { // small rows do not all fit twice on a page
		t.Errorf("%d of 1000 settles were HOT", hot)
	}
}

var condition = regexp.MustCompile(`^\s*(Filter|Index Cond|Recheck Cond|Hash Cond|Join Filter|One-Time Filter|Sort Key|Presorted Key|Output|Cache Key|Run Condition|Group Key|Cache Mode|Workers Planned):`)

// outline keeps the nodes of a plan: conditions repeat the statement.
func outline(plan []string) string {
	var nodes []string
	for _, line := range plan {
		if !condition.MatchString(line) {
			nodes = append(nodes, line)
		}
	}
	return strings.Join(nodes, "\n")
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("%s is out of date; look at the difference, then run the test with -update. Got:\n%s", file, got)
	}
}
