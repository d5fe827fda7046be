package pginbox_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/inbox/pginbox"
	"github.com/go-outbox/outbox/internal/testenv"
)

// What every inbox does is tested in package inbox; here is what only pgx can do.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newInbox(t *testing.T, pool *pgxpool.Pool, cfg pginbox.Config) *pginbox.Inbox {
	t.Helper()
	box, err := pginbox.New(pool, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := box.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return box
}

func nothing() error { return nil }

func TestAFailureInANestedTransactionLeavesTheOuterOne(t *testing.T) {
	pool := testenv.Postgres(t).Pool(t)
	box := newInbox(t, pool, pginbox.Config{})
	good, bad, ctx := uuid.New(), uuid.New(), t.Context()

	tx, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(ctx)
	if ran, err := box.Once(ctx, tx, "billing", good, nothing); err != nil || !ran {
		t.Fatal(ran, err)
	}
	nested, err := tx.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := box.Once(ctx, nested, "billing", bad, func() error { return errors.New("broken") }); err == nil {
		t.Fatal("it did not fail")
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}

	for event, want := range map[uuid.UUID]bool{good: false, bad: true} {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			ran, err := box.Once(ctx, tx, "billing", event, nothing)
			if ran != want {
				t.Errorf("ran: %v, want %v", ran, want)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// Poolers allow no prepared statements.
func TestItWorksInEveryQueryMode(t *testing.T) {
	db := testenv.Postgres(t)
	newInbox(t, db.Pool(t), pginbox.Config{})
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			cfg, err := pgxpool.ParseConfig(db.DSN())
			if err != nil {
				t.Fatal(err)
			}
			cfg.ConnConfig.DefaultQueryExecMode = mode
			pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			box := newInbox(t, pool, pginbox.Config{})
			events := []uuid.UUID{uuid.New(), uuid.New()}
			err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				if ran, err := box.Once(t.Context(), tx, "billing", events[0], nothing); err != nil || !ran {
					t.Errorf("got %v, %v", ran, err)
				}
				n, err := box.OnceMany(t.Context(), tx, "billing", events, func([]uuid.UUID) error { return nil })
				if n != 1 {
					t.Errorf("handled %d", n)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
			if n, err := box.Clean(t.Context(), 1); err != nil || n != 2 {
				t.Errorf("cleaned %d: %v", n, err)
			}
		})
	}
}

func TestAnInboxMayLiveInASchemaOfItsOwn(t *testing.T) {
	pool := testenv.Postgres(t).Pool(t)
	if _, err := pool.Exec(t.Context(), `CREATE SCHEMA billing`); err != nil {
		t.Fatal(err)
	}
	box := newInbox(t, pool, pginbox.Config{Table: "billing.seen"})
	if err := box.CheckSchema(t.Context()); err != nil {
		t.Error(err)
	}
	var b strings.Builder
	if err := box.PrintMigrations(&b, "goose", 0, 1); err != nil || !strings.Contains(b.String(), `"billing"."seen"`) {
		t.Errorf("printed %v\n%s", err, &b)
	}
}

func TestAPoolIsNoTransaction(t *testing.T) {
	tx := reflect.TypeFor[pgx.Tx]()
	for _, handle := range []reflect.Type{reflect.TypeFor[*pgxpool.Pool](), reflect.TypeFor[*pgx.Conn](), reflect.TypeFor[*pgxpool.Conn]()} {
		if handle.Implements(tx) {
			t.Errorf("a %s passes for a transaction", handle)
		}
	}
	if _, err := pginbox.New(nil, pginbox.Config{}); !errors.Is(err, outbox.ErrInvalidConfig) {
		t.Errorf("without a pool: %v", err)
	}
}
