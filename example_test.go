package outbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"

	_ "modernc.org/sqlite"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/relay"
	"github.com/go-outbox/outbox/store/sqlitestore"
)

// An order and its event are written in one transaction; then a relay delivers the
// event. This is the first example of the README.
func Example() {
	defer inTemporaryDirectory()()
	quickStart(context.Background())
	// Output: shop.order.placed.v1 order-7 {"order":7}
}

func quickStart(ctx context.Context) {
	db := must(sql.Open("sqlite", "file:shop.db?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)"))
	defer db.Close()
	store := must(sqlitestore.New(db, sqlitestore.Config{Table: "shop_outbox"}))
	must(store.Migrate(ctx))
	must(db.ExecContext(ctx, "CREATE TABLE orders (id INTEGER PRIMARY KEY)"))

	// The order and its event, in one transaction: both or neither.
	tx := must(db.BeginTx(ctx, nil))
	must(tx.ExecContext(ctx, "INSERT INTO orders (id) VALUES (7)"))
	must(store.Enqueue(ctx, tx, outbox.Message{
		Topic: "shop.order.placed.v1", Key: "order-7", Payload: []byte(`{"order":7}`),
	}))
	check(tx.Commit())

	// The relay hands what is committed to a handler.
	handler := outbox.DispatcherFunc(func(ctx context.Context, m outbox.DispatchedMessage) error {
		fmt.Println(m.Meta.Topic, m.Meta.Key, string(m.Payload))
		return nil // delivered; after an error it is tried again
	})
	r := must(relay.New(store, handler, relay.Config{}))
	must(r.PublishPending(ctx)) // what is due now; r.Run(ctx) relays until ctx ends
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// inTemporaryDirectory gives the example a directory of its own and returns the way
// back.
func inTemporaryDirectory() (leave func()) {
	before := must(os.Getwd())
	dir := must(os.MkdirTemp("", "outbox"))
	check(os.Chdir(dir))
	return func() {
		check(os.Chdir(before))
		check(os.RemoveAll(dir))
	}
}
