package pgstore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/store/pgstore"
	"github.com/go-outbox/outbox/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStore(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t).Pool(t)
	storetest.Run(t, func(t *testing.T) storetest.Harness { return newHarness(t, pool, pgstore.JSON) })
}

func TestStoreOnJSONB(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t).Pool(t)
	storetest.Run(t, func(t *testing.T) storetest.Harness { return newHarness(t, pool, pgstore.JSONB) })
}

func TestStoreOnBytea(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t).Pool(t)
	storetest.Run(t, func(t *testing.T) storetest.Harness { return newHarness(t, pool, pgstore.Bytea) })
}

// pooled leads to env through PgBouncer, as pgx wants it there.
func pooled(t testing.TB, env *testenv.PG) string {
	t.Helper()
	return testenv.PgBouncer(t, env.DSN()) + "&default_query_exec_mode=cache_describe"
}

func TestStoreBehindPgBouncer(t *testing.T) {
	t.Parallel()
	direct := testenv.Postgres(t)
	cfg, err := pgxpool.ParseConfig(pooled(t, direct))
	if err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	storetest.Run(t, func(t *testing.T) storetest.Harness { return newHarness(t, pool, pgstore.JSON) })
}

var tables atomic.Int64

// newStore makes a new, empty outbox in the pool's database.
func newStore(t testing.TB, pool *pgxpool.Pool, cfg pgstore.Config) *pgstore.Store {
	t.Helper()
	if cfg.Table == "" {
		cfg.Table = fmt.Sprintf("t%d_outbox", tables.Add(1))
	}
	store := openStore(t, pool, cfg)
	if _, err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return store
}

func openStore(t testing.TB, pool *pgxpool.Pool, cfg pgstore.Config) *pgstore.Store {
	t.Helper()
	store, err := pgstore.New(pool, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func newHarness(t *testing.T, pool *pgxpool.Pool, kind pgstore.PayloadType) storetest.Harness {
	t.Helper()
	return harness(t, pool, newStore(t, pool, pgstore.Config{Payload: kind}), kind)
}

func harness(t *testing.T, pool *pgxpool.Pool, store *pgstore.Store, kind pgstore.PayloadType) storetest.Harness {
	t.Helper()
	table := store.Table()
	return storetest.Harness{
		Store: store,
		Reopen: func(t *testing.T) outbox.Store {
			return openStore(t, pool, pgstore.Config{Table: table})
		},
		Begin: func(t *testing.T) storetest.Tx {
			tx, err := pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
			return &harnessTx{store, tx}
		},
		Autocommit: store.EnqueueAutocommit,
		Shift:      func(t *testing.T, d time.Duration) { shift(t, pool, table, d) },
		InsertRaw: func(t *testing.T, topic, key, payload string) (sequence int64) {
			query := fmt.Sprintf(`INSERT INTO %q (topic, msg_key, payload) VALUES ($1, $2, $3) RETURNING sequence`, table)
			var value any = payload
			if kind == pgstore.Bytea {
				value = []byte(payload)
			}
			if err := pool.QueryRow(t.Context(), query, pgx.QueryExecModeCacheDescribe, topic, key, value).Scan(&sequence); err != nil {
				t.Fatal(err)
			}
			return sequence
		},
		Features: storetest.Features{
			Savepoints: true, Shards: true, LateCommit: true,
			Binary: kind == pgstore.Bytea, Rewrites: kind == pgstore.JSONB,
		},
	}
}

// shift makes every stored time older, so that time passes without waiting.
func shift(t testing.TB, pool *pgxpool.Pool, table string, d time.Duration) {
	t.Helper()
	messages := []string{"created_at", "available_at", "published_at", "dead_at"}
	if count(t, pool, `SELECT count(*) FROM pg_attribute WHERE attrelid = $1::text::regclass AND attname = 'dead_at'`, table) == 0 {
		messages = messages[:3] // the verbatim layout
	}
	for side, columns := range map[string][]string{
		"":       messages,
		"_lease": {"expires_at"},
		"_batch": {"recorded_at", "beat"},
		"_relay": {"seen_at"},
		"_job":   {"cut", "next_at", "driven_at"},
	} {
		name := table + side
		if side == "_job" {
			name = "outbox_job"
		}
		query := fmt.Sprintf(`UPDATE %q SET `, name)
		for i, c := range columns {
			if i > 0 {
				query += ", "
			}
			query += fmt.Sprintf(`%[1]s = %[1]s - interval '%[2]d microseconds'`, c, d.Microseconds())
		}
		exec(t, pool, query)
	}
}

func exec(t testing.TB, pool *pgxpool.Pool, query string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), query, append([]any{pgx.QueryExecModeCacheDescribe}, args...)...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// harnessTx is a pgx transaction with Enqueue bound to it.
type harnessTx struct {
	store *pgstore.Store
	tx    pgx.Tx
}

func (h *harnessTx) Enqueue(ctx context.Context, msg outbox.Message) (int64, error) {
	return h.store.Enqueue(ctx, h.tx, msg)
}

func (h *harnessTx) EnqueueMany(ctx context.Context, msgs []outbox.Message) ([]int64, error) {
	return h.store.EnqueueMany(ctx, h.tx, msgs)
}

func (h *harnessTx) Commit() error   { return h.tx.Commit(context.Background()) }
func (h *harnessTx) Rollback() error { return h.tx.Rollback(context.Background()) }

func (h *harnessTx) Savepoint(name string) error {
	_, err := h.tx.Exec(context.Background(), "SAVEPOINT "+name)
	return err
}

func (h *harnessTx) RollbackTo(name string) error {
	_, err := h.tx.Exec(context.Background(), "ROLLBACK TO SAVEPOINT "+name)
	return err
}
