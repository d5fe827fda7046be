package sqlitestore_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/store/sqlitestore"
)

// The business row and the event are written in one transaction.
func Example() {
	dir, err := os.MkdirTemp("", "outbox")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if err := placeOrder(context.Background(), filepath.Join(dir, "shop.db")); err != nil {
		fmt.Println(err)
	}
	// Output: order 7 and its event 1 are committed
}

func placeOrder(ctx context.Context, file string) error {
	db, err := sql.Open("sqlite", "file:"+file+
		"?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=synchronous(FULL)")
	if err != nil {
		return err
	}
	defer db.Close()
	if err := sqlitestore.Prepare(ctx, db); err != nil {
		return err
	}
	store, err := sqlitestore.New(db, sqlitestore.Config{Table: "shop_outbox"})
	if err != nil {
		return err
	}
	if _, err := store.Migrate(ctx); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, "CREATE TABLE orders (id INTEGER PRIMARY KEY)"); err != nil {
		return err
	}

	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders (id) VALUES (7)"); err != nil {
		return err
	}
	event, err := store.Enqueue(ctx, tx, outbox.Message{
		Topic:   "shop.order.placed.v1",
		Key:     "order-7",
		Payload: []byte(`{"order":7}`),
	})
	if err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	fmt.Printf("order 7 and its event %d are committed\n", event)
	return nil
}
