package doctest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/eventbus"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/relay"
	"github.com/go-outbox/outbox/sink/bussink"
	"github.com/go-outbox/outbox/store/pgstore"
	"github.com/go-outbox/outbox/store/sqlitestore"
)

// The functions of this file are the examples of docs/integrate.md; the page has
// them word for word.

func placeOrder(ctx context.Context, pool *pgxpool.Pool, store *pgstore.Store, id int) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO orders (id) VALUES ($1)", id); err != nil {
			return err
		}
		_, err := store.Enqueue(ctx, tx, orderPlaced(id))
		return err
	})
}

func placeOrderSQL(ctx context.Context, db *sql.DB, store *pgstore.Store, id int) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders (id) VALUES ($1)", id); err != nil {
		return err
	}
	if _, err := store.EnqueueSQL(ctx, tx, orderPlaced(id)); err != nil {
		return err
	}
	return tx.Commit()
}

func placeOrderSQLite(ctx context.Context, db *sql.DB, store *sqlitestore.Store, id int) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders (id) VALUES (?)", id); err != nil {
		return err
	}
	if _, err := store.Enqueue(ctx, tx, orderPlaced(id)); err != nil {
		return err
	}
	return tx.Commit()
}

func orderPlaced(id int) outbox.Message {
	return outbox.Message{
		Topic:   "shop.order.placed.v1",
		Key:     fmt.Sprintf("order-%d", id), // events of one order stay in order
		Payload: fmt.Appendf(nil, `{"order":%d}`, id),
	}
}

func openSQLite(ctx context.Context, file string) (*sql.DB, *sqlitestore.Store, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=synchronous(FULL)")
	if err != nil {
		return nil, nil, err
	}
	if err := sqlitestore.Prepare(ctx, db); err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	store, err := sqlitestore.New(db, sqlitestore.Config{Table: "shop_outbox"})
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	_, err = store.Migrate(ctx)
	return db, store, err
}

type OrderPlaced struct {
	Order int `json:"order"`
}

func handlers() (outbox.Dispatcher, error) {
	bus := eventbus.New()
	_, err := bus.Subscribe(func(meta *outbox.Meta, e *OrderPlaced) error {
		fmt.Println(meta.Topic, e.Order)
		return nil
	})
	if err != nil {
		return nil, err
	}
	sink := bussink.New(bus)
	return sink, bussink.Register[OrderPlaced](sink, "shop.order.placed.v1")
}

func runOutbox(ctx context.Context, store outbox.Store, d outbox.Dispatcher, log *slog.Logger) error {
	r, err := relay.New(store, d, relay.Config{Log: log})
	if err != nil {
		return err
	}
	cleaner, err := relay.NewCleaner(store, relay.CleanerConfig{Leader: r.Leading, Log: log})
	if err != nil {
		return err
	}
	scheduler := relay.NewScheduler(relay.SchedulerConfig{Log: log})
	if err := errors.Join(scheduler.Add("relay", r.Run), scheduler.Add("cleaner", cleaner.Run)); err != nil {
		return err
	}
	if err := scheduler.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	<-ctx.Done()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 45*time.Second)
	defer cancel()
	return scheduler.Stop(stop)
}

func TestTheSQLiteGuideWorks(t *testing.T) {
	db, store, err := openSQLite(t.Context(), filepath.Join(t.TempDir(), "shop.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE orders (id INTEGER PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	if err := placeOrderSQLite(t.Context(), db, store, 7); err != nil {
		t.Fatal(err)
	}
	deliver(t, store)
}

func TestThePostgresGuideWorks(t *testing.T) {
	pool := testenv.Postgres(t).Pool(t)
	store, err := pgstore.New(pool, pgstore.Config{Table: "shop_outbox"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), "CREATE TABLE orders (id int PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	if err := placeOrder(t.Context(), pool, store, 7); err != nil {
		t.Fatal(err)
	}
	if err := placeOrder(t.Context(), pool, store, 7); err == nil {
		t.Error("the second order 7 was accepted")
	}
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	if err := placeOrderSQL(t.Context(), db, store, 8); err != nil {
		t.Fatal(err)
	}
	deliver(t, store)
}

// deliver runs the guide's relay until nothing waits.
func deliver(t *testing.T, store interface {
	outbox.Store
	outbox.Inspector
},
) {
	t.Helper()
	d, err := handlers()
	if err != nil {
		t.Fatal(err)
	}
	delivered, stop := context.WithCancel(t.Context())
	defer stop()
	ending := outbox.DispatcherFunc(func(ctx context.Context, m outbox.DispatchedMessage) error {
		defer stop() // the relay settles what it has begun
		return d.Dispatch(ctx, m)
	})
	if err := runOutbox(delivered, store, ending, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	r, err := relay.New(store, d, relay.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.PublishPending(t.Context()); err != nil {
		t.Fatal(err)
	}
	stats, err := store.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if stats.Pending+stats.Dead > 0 {
		t.Errorf("%d messages wait and %d are dead", stats.Pending, stats.Dead)
	}
}
