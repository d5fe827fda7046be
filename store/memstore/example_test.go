package memstore_test

import (
	"context"
	"fmt"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/store/memstore"
)

func Example() {
	ctx := context.Background()
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		panic(err)
	}

	tx := store.Begin()
	_, err = store.Enqueue(ctx, tx, outbox.Message{
		Topic:   "shop.order.placed.v1",
		Key:     "order-1",
		Payload: []byte(`{"order":1}`),
	})
	if err != nil {
		panic(err)
	}
	before, _ := store.Stats(ctx)
	if err := tx.Commit(); err != nil {
		panic(err)
	}
	after, _ := store.Stats(ctx)

	fmt.Println("pending before the commit:", before.Pending)
	fmt.Println("pending after the commit:", after.Pending)
	// Output:
	// pending before the commit: 0
	// pending after the commit: 1
}
