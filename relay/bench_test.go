package relay

import (
	"context"
	"fmt"
	"testing"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/store/memstore"
)

// BenchmarkDrain is the engine's own cost per message, on the in-memory store: read,
// record, dispatch and settle, with a dispatcher that does nothing.
func BenchmarkDrain(b *testing.B) {
	nop := outbox.DispatcherFunc(func(context.Context, outbox.DispatchedMessage) error { return nil })
	for name, d := range map[string]outbox.Dispatcher{"single": nop, "batch": nopBatch{nop}} {
		for keyed, keys := range map[string]int{"keyless": 0, "keyed": 20_000} {
			b.Run(name+"/"+keyed, func(b *testing.B) { benchDrain(b, d, keys) })
		}
	}
}

type nopBatch struct{ outbox.Dispatcher }

func (nopBatch) DispatchBatch(_ context.Context, msgs []outbox.DispatchedMessage) []error {
	return make([]error, len(msgs))
}

func benchDrain(b *testing.B, d outbox.Dispatcher, keys int) {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		b.Fatal(err)
	}
	tx := store.Begin()
	for i := range b.N {
		msg := outbox.Message{Topic: topic, Payload: []byte(`{"order":1}`)}
		if keys > 0 {
			msg.Key = fmt.Sprint("k", i%keys)
		}
		if _, err := store.Enqueue(b.Context(), tx, msg); err != nil {
			b.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		b.Fatal(err)
	}
	r, err := New(store, d, Config{Batch: 1000, DeleteOnPublish: true})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	if n, err := r.PublishPending(b.Context()); err != nil || n != b.N {
		b.Fatalf("published %d of %d: %v", n, b.N, err)
	}
}
