package otelhooks_test

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/trace"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/otelhooks"
	"github.com/go-outbox/outbox/relay"
	"github.com/go-outbox/outbox/store/memstore"
)

func Example() {
	sink := outbox.DispatcherFunc(func(_ context.Context, msg outbox.DispatchedMessage) error {
		fmt.Println(msg.Meta.TraceParent)
		return nil
	})

	store, err := memstore.New(memstore.Config{Gate: outbox.Gate{Trace: otelhooks.Trace}})
	if err != nil {
		panic(err)
	}
	r, err := relay.New(store, otelhooks.Wrap(sink, otelhooks.Config{System: "nats"}), relay.Config{})
	if err != nil {
		panic(err)
	}

	// The span of a handler, and no SDK in this example: what was stored is forwarded.
	ctx := trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled,
	}))
	tx := store.Begin()
	if _, err := store.Enqueue(ctx, tx, outbox.Message{Topic: "shop.order.placed.v1", Payload: []byte(`{"order":1}`)}); err != nil {
		panic(err)
	}
	if err := tx.Commit(); err != nil {
		panic(err)
	}
	if _, err := r.PublishPending(context.Background()); err != nil {
		panic(err)
	}
	// Output: 00-01000000000000000000000000000000-0200000000000000-01
}
