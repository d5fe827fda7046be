package relay_test

import (
	"context"
	"fmt"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/relay"
	"github.com/go-outbox/outbox/store/memstore"
)

// A relay hands what is committed to a dispatcher. PublishPending drains what is due
// once; Run goes on until its context ends.
func Example() {
	ctx := context.Background()
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		panic(err)
	}
	for _, order := range []string{"7", "8"} {
		msg := outbox.Message{Topic: "shop.order.placed.v1", Key: "shop", Payload: []byte(order)}
		if _, err := store.EnqueueAutocommit(ctx, msg); err != nil {
			panic(err)
		}
	}

	handler := outbox.DispatcherFunc(func(_ context.Context, m outbox.DispatchedMessage) error {
		fmt.Println(m.Meta.Topic, string(m.Payload))
		return nil
	})
	r, err := relay.New(store, handler, relay.Config{})
	if err != nil {
		panic(err)
	}
	n, err := r.PublishPending(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(n, "published")
	// Output:
	// shop.order.placed.v1 7
	// shop.order.placed.v1 8
	// 2 published
}
