// Command publish-pending is a service that publishes its outbox when it says so: after
// each request, from a cron job, or in the background.
//
// It shows the publisher of such a service (Start, Stop, PublishPending) over a relay,
// its configuration, its entries with ids of their own, and what it did about failed
// entries.
//
//	go run ./examples/publish-pending          # enqueue, publish once, say how it went
//	go run ./examples/publish-pending -watch   # go on in the background
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	_ "modernc.org/sqlite"

	"github.com/go-outbox/outbox/store/sqlitestore"
)

func main() {
	watch := flag.Bool("watch", false, "publish in the background until interrupted")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, "orders.db", *watch, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, file string, watch bool, out io.Writer) (err error) {
	db, store, err := open(ctx, file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	publisher, err := NewPublisher(store, printHandler(out), SamplePublisherConfig)
	if err != nil {
		return err
	}
	if err := placeOrder(ctx, db, store, time.Now().UnixNano()); err != nil {
		return err
	}
	if !watch {
		return publisher.PublishPending(ctx)
	}
	if err := publisher.Start(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return publisher.Stop(drain)
}

func printHandler(out io.Writer) Handler {
	return func(_ context.Context, e Event) error {
		_, err := fmt.Fprintf(out, "%s of order %d\n", e.Type, e.OrderID)
		return err
	}
}

func open(ctx context.Context, file string) (*sql.DB, *sqlitestore.Store, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=synchronous(FULL)")
	if err != nil {
		return nil, nil, err
	}
	store, err := sqlitestore.New(db, sqlitestore.Config{Table: "order_outbox"})
	if err == nil {
		err = sqlitestore.Prepare(ctx, db)
	}
	if err == nil {
		_, err = store.Migrate(ctx)
	}
	if err == nil {
		_, err = db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY)")
	}
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return db, store, nil
}

// placeOrder writes an order and its event in one transaction.
func placeOrder(ctx context.Context, db *sql.DB, store *sqlitestore.Store, id int64) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // has no effect after Commit
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders (id) VALUES (?)", id); err != nil {
		return err
	}
	msg, err := NewEntry(Event{ID: fmt.Sprintf("order-%d-placed", id), Type: "OrderPlaced", OrderID: id})
	if err != nil {
		return err
	}
	if _, err := store.Enqueue(ctx, tx, msg); err != nil {
		return err
	}
	return tx.Commit()
}
