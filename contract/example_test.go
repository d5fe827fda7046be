package contract_test

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"io/fs"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/contract"
	"github.com/go-outbox/outbox/store/memstore"
)

//go:embed testdata/contracts
var files embed.FS

// Contracts are embedded in the program that produces the events, and every Enqueue is
// held to them.
func Example() {
	ctx := context.Background()
	contracts, err := fs.Sub(files, "testdata/contracts")
	if err != nil {
		panic(err)
	}
	registry, err := contract.New(contracts, contract.Config{RefuseUnknown: true})
	if err != nil {
		panic(err)
	}
	store, err := memstore.New(memstore.Config{Gate: outbox.Gate{Check: registry.Check}})
	if err != nil {
		panic(err)
	}

	tx := store.Begin()
	_, err = store.Enqueue(ctx, tx, outbox.Message{
		Topic:   "shop.order.placed.v1",
		Payload: []byte(`{"order_id": "A-1", "total": "12.50"}`),
	})
	fmt.Println(err)
	// Output:
	// enqueue: payload: shop.order.placed.v1: at /total: want integer, got string
}

func ExampleCompare() {
	old, err := contract.Parse("shop.order.placed.v1", []byte(`{
		"type": "object", "required": ["order_id"],
		"properties": {"order_id": {"type": "string"}, "note": {"type": "string"}}
	}`))
	if err != nil {
		panic(err)
	}
	changed, err := contract.Parse("shop.order.placed.v1", []byte(`{
		"type": "object", "required": ["order_id"],
		"properties": {"order_id": {"type": "string"}, "coupon": {"type": "string"}}
	}`))
	if err != nil {
		panic(err)
	}
	for _, change := range contract.Compare(old, changed) {
		fmt.Println(change)
	}
	// Output:
	// shop.order.placed.v1: breaking: /note: was removed: consumers that read it fail
	// shop.order.placed.v1: compatible: /coupon: was added, optional
}

// A consumer handles v2 only; v1 events that are still under way are lifted.
func ExampleUpcasters() {
	var upcasters contract.Upcasters
	err := upcasters.Add("shop.order.placed.v1", func(payload []byte) ([]byte, error) {
		return bytes.Replace(payload, []byte(`"total"`), []byte(`"total_cents"`), 1), nil
	})
	if err != nil {
		panic(err)
	}

	event, err := upcasters.Upcast("shop.order.placed.v1", 1, []byte(`{"total": 1250}`))
	fmt.Println(event.Topic, string(event.Payload), err)
	// Output:
	// shop.order.placed.v2 {"total_cents": 1250} <nil>
}
