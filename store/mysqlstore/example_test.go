package mysqlstore_test

import (
	"context"
	"database/sql"
	"os"

	_ "github.com/go-sql-driver/mysql"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/store/mysqlstore"
)

// The business row and the event are written in one transaction.
func Example() {
	ctx := context.Background()
	db, err := sql.Open("mysql", os.Getenv("SHOP_DSN")) // shop:secret@tcp(db:3306)/shop?interpolateParams=true
	if err != nil {
		return
	}
	defer db.Close()
	store, err := mysqlstore.New(db, mysqlstore.Config{Table: "shop_outbox"})
	if err != nil {
		return
	}
	if err := placeOrder(ctx, db, store, 7); err != nil {
		return
	}
}

func placeOrder(ctx context.Context, db *sql.DB, store *mysqlstore.Store, order int64) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after Commit

	if _, err := tx.ExecContext(ctx, "INSERT INTO orders (id) VALUES (?)", order); err != nil {
		return err
	}
	_, err = store.Enqueue(ctx, tx, outbox.Message{
		Topic:   "shop.order.placed.v1",
		Key:     "order-7",
		Payload: []byte(`{"order":7}`),
	})
	if err != nil {
		return err
	}
	return tx.Commit()
}
