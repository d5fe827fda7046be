package pgstore_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/store/pgstore"
	"github.com/go-outbox/outbox/store/storetest"
)

func TestStoreInTransactionsOfPgxStdlib(t *testing.T) {
	t.Parallel()
	runOverSQL(t, "pgx", pgstore.Bytea)
}

func TestStoreInTransactionsOfLibPQ(t *testing.T) {
	t.Parallel()
	runOverSQL(t, "postgres", pgstore.JSON)
}

// runOverSQL is the contract of a store whose callers have transactions of database/sql.
func runOverSQL(t *testing.T, driver string, kind pgstore.PayloadType) {
	env := testenv.Postgres(t)
	pool, db := env.Pool(t), openSQL(t, driver, env.DSN())
	storetest.Run(t, func(t *testing.T) storetest.Harness { return sqlHarness(t, pool, db, kind) })
}

func openSQL(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func sqlHarness(t *testing.T, pool *pgxpool.Pool, db *sql.DB, kind pgstore.PayloadType) storetest.Harness {
	t.Helper()
	h := newHarness(t, pool, kind)
	h.Begin = func(t *testing.T) storetest.Tx {
		tx, err := db.BeginTx(context.WithoutCancel(t.Context()), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback() })
		return &sqlTx{Tx: tx, store: h.Store.(*pgstore.Store)}
	}
	return h
}

// sqlTx is a transaction of database/sql with Enqueue bound to it.
type sqlTx struct {
	*sql.Tx
	store *pgstore.Store
}

func (h *sqlTx) Enqueue(ctx context.Context, msg outbox.Message) (int64, error) {
	return h.store.EnqueueSQL(ctx, h.Tx, msg)
}

func (h *sqlTx) EnqueueMany(ctx context.Context, msgs []outbox.Message) ([]int64, error) {
	return h.store.EnqueueManySQL(ctx, h.Tx, msgs)
}

func (h *sqlTx) Savepoint(name string) error {
	_, err := h.ExecContext(context.Background(), "SAVEPOINT "+name)
	return err
}

func (h *sqlTx) RollbackTo(name string) error {
	_, err := h.ExecContext(context.Background(), "ROLLBACK TO SAVEPOINT "+name)
	return err
}

func TestEnqueueManySQLOnOtherTables(t *testing.T) {
	env := testenv.Postgres(t)
	pool := env.Pool(t)
	verbatim(t, pool, "org_outbox", ", traceparent TEXT, tracestate TEXT")
	for name, store := range map[string]*pgstore.Store{
		"verbatim": newStore(t, pool, pgstore.Config{Table: "org_outbox"}),
		"jsonb":    newStore(t, pool, pgstore.Config{Payload: pgstore.JSONB}),
	} {
		for _, driver := range []string{"pgx", "postgres"} {
			t.Run(name+"/"+driver, func(t *testing.T) { testManySQL(t, store, openSQL(t, driver, env.DSN())) })
		}
	}
}

func testManySQL(t *testing.T, store *pgstore.Store, db *sql.DB) {
	inTx := func(end func(*sql.Tx) error, msgs ...outbox.Message) ([]int64, error) {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		sequences, err := store.EnqueueManySQL(t.Context(), tx, msgs)
		return sequences, errors.Join(err, end(tx))
	}
	first, second := plain(""), plain(uuid.NewString())
	second.Payload = json.RawMessage(`{"text": "it's \"quoted\", {braces}, NULL, \\ and 😀"}`)

	if _, err := inTx((*sql.Tx).Rollback, first, second); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Get(t.Context(), second.EventID); !errors.Is(err, outbox.ErrNotFound) {
		t.Errorf("after a rollback: got %v, want ErrNotFound", err)
	}
	sequences, err := inTx((*sql.Tx).Commit, first, second)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := store.Get(t.Context(), second.EventID)
	if err != nil || rec.Sequence != sequences[1] || rec.TenantID != second.TenantID || text(t, rec.Payload) != text(t, second.Payload) {
		t.Errorf("got %+v (%v)", rec, err)
	}
	again, err := inTx((*sql.Tx).Commit, second, first)
	slices.Reverse(again)
	if err != nil || !slices.Equal(again, sequences) {
		t.Errorf("duplicates: got %v (%v), want %v", again, err, sequences)
	}
	other := first
	other.Payload = json.RawMessage(`{"n": 2}`)
	third := plain("")
	if _, err := inTx((*sql.Tx).Commit, third, other); !errors.Is(err, outbox.ErrEventIDConflict) {
		t.Errorf("other content: got %v, want ErrEventIDConflict", err)
	}
	if _, err := store.Get(t.Context(), third.EventID); !errors.Is(err, outbox.ErrNotFound) {
		t.Errorf("beside a conflict: got %v, want ErrNotFound", err)
	}
}

// text is the one string of a payload.
func text(t *testing.T, payload json.RawMessage) string {
	t.Helper()
	var p struct{ Text string }
	if err := json.Unmarshal(payload, &p); err != nil {
		t.Fatal(err)
	}
	return p.Text
}
