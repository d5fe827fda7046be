package pgstore_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/store/pgstore"
)

// A pool and a *sql.DB must not pass for a transaction.
var (
	_ pgstore.SQLTx = (*sql.Tx)(nil)
)

func TestAPoolIsNoTransaction(t *testing.T) {
	if _, ok := any((*pgxpool.Pool)(nil)).(pgx.Tx); ok {
		t.Error("*pgxpool.Pool satisfies pgx.Tx")
	}
	if _, ok := any((*sql.DB)(nil)).(pgstore.SQLTx); ok {
		t.Error("*sql.DB satisfies SQLTx")
	}
}

func TestEnqueueWorksInEveryQueryMode(t *testing.T) {
	env := testenv.Postgres(t)
	store := newStore(t, env.Pool(t), pgstore.Config{Table: "mode_outbox"})
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			pool, err := pgxpool.New(t.Context(), env.DSN()+"&default_query_exec_mode="+mode)
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			id := uuid.New()
			msg := message("k")
			msg.EventID, msg.Headers = id, map[string]string{"a": "b"}

			err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				_, err := openStore(t, pool, pgstore.Config{Table: "mode_outbox"}).Enqueue(t.Context(), tx, msg)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}

			var batch pgx.Batch
			var sequence int64
			batch.Queue("BEGIN")
			if err := store.QueueEnqueue(t.Context(), &batch, message("k"), func(s int64) { sequence = s }); err != nil {
				t.Fatal(err)
			}
			var duplicate int64
			if err := store.QueueEnqueue(t.Context(), &batch, msg, func(s int64) { duplicate = s }); err != nil {
				t.Fatal(err)
			}
			batch.Queue("COMMIT")
			if err := pool.SendBatch(t.Context(), &batch).Close(); err != nil {
				t.Fatal(err)
			}
			other := msg
			other.Topic = "shop.order.lost.v1"
			batch = pgx.Batch{}
			if err := store.QueueEnqueue(t.Context(), &batch, other, nil); err != nil {
				t.Fatal(err)
			}
			if err := pool.SendBatch(t.Context(), &batch).Close(); !errors.Is(err, outbox.ErrEventIDConflict) {
				t.Errorf("other content: got %v, want ErrEventIDConflict", err)
			}
			got, err := store.Get(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if string(got.Payload) != `{"n":1}` || got.Headers["a"] != "b" || sequence <= got.Sequence || duplicate != got.Sequence {
				t.Errorf("got %s %v, batched sequence %d after %d, duplicate %d", got.Payload, got.Headers, sequence, got.Sequence, duplicate)
			}
		})
	}
}

func TestEnqueueSQLWorksWithBothDrivers(t *testing.T) {
	for _, kind := range []pgstore.PayloadType{pgstore.JSON, pgstore.JSONB, pgstore.Bytea} {
		env := testenv.Postgres(t)
		store := newStore(t, env.Pool(t), pgstore.Config{Payload: kind})
		for _, driver := range []string{"pgx", "postgres"} {
			t.Run(string(kind)+"/"+driver, func(t *testing.T) { testSQL(t, store, driver, env.DSN()) })
		}
	}
}

func testSQL(t *testing.T, store *pgstore.Store, driver, dsn string) {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	msg := message("k")
	msg.EventID, msg.AvailableAt, msg.Headers = uuid.New(), time.Now().Add(time.Hour), map[string]string{"a": "b"}
	inTx := func(msg outbox.Message, end func(*sql.Tx) error) (int64, error) {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		sequence, err := store.EnqueueSQL(t.Context(), tx, msg)
		return sequence, errors.Join(err, end(tx))
	}

	if _, err := inTx(msg, (*sql.Tx).Rollback); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Get(t.Context(), msg.EventID); !errors.Is(err, outbox.ErrNotFound) {
		t.Errorf("after a rollback: got %v, want ErrNotFound", err)
	}
	first, err := inTx(msg, (*sql.Tx).Commit)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := inTx(msg, (*sql.Tx).Commit); err != nil || again != first {
		t.Errorf("a duplicate: got %d, %v, want %d", again, err, first)
	}
	other := msg
	other.Payload = json.RawMessage(`{"n":2}`)
	if _, err := inTx(other, (*sql.Tx).Commit); !errors.Is(err, outbox.ErrEventIDConflict) {
		t.Errorf("other content: got %v, want ErrEventIDConflict", err)
	}
}

func TestPublisherEnqueuesIntoTheNamedTable(t *testing.T) {
	pool := testenv.Postgres(t).Pool(t)
	org := newStore(t, pool, pgstore.Config{Table: "org_outbox"})
	newStore(t, pool, pgstore.Config{Table: "hrm_outbox", Payload: pgstore.JSONB})
	publisher := pgstore.NewPublisher(pgstore.PublisherConfig{})

	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		for _, table := range []pgx.Identifier{{"org_outbox"}, {"public", "org_outbox"}, {"hrm_outbox"}} {
			if _, err := publisher.Enqueue(t.Context(), tx, table, message("a")); err != nil {
				return err
			}
		}
		_, err := publisher.Enqueue(t.Context(), tx, pgx.Identifier{`x"; DROP TABLE org_outbox; --`}, message("a"))
		if !errors.Is(err, outbox.ErrInvalidTable) {
			t.Errorf("hostile name: got %v, want ErrInvalidTable", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	if got := read(t, acquire(t, org)); len(got) != 2 {
		t.Errorf("org_outbox has %d messages, want 2", len(got))
	}
}

func TestAnErrorOfTheCallersTransactionStaysVisible(t *testing.T) {
	pool := testenv.Postgres(t).Pool(t)
	store := newStore(t, pool, pgstore.Config{})
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	_, _ = tx.Exec(t.Context(), "SELECT 1/0")

	_, err = store.Enqueue(t.Context(), tx, message("a"))

	var state interface{ SQLState() string }
	if !errors.As(err, &state) || state.SQLState() != "25P02" {
		t.Errorf("got %v, want SQLSTATE 25P02 in the chain", err)
	}
}

// R-A42.
func TestARolledBackTransactionLeavesNoRow(t *testing.T) {
	pool := testenv.Postgres(t).Pool(t)
	store := newStore(t, pool, pgstore.Config{})
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Enqueue(t.Context(), tx, message("a")); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}

	if n := count(t, pool, `SELECT count(*) FROM `+store.Table()); n != 0 {
		t.Errorf("%d rows, want none", n)
	}
}
