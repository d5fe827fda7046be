package outboxtest_test

import (
	"context"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/outboxtest"
	"github.com/go-outbox/outbox/store/memstore"
)

// test is the example's. An example has no *testing.T of its own;
// TestTheExamplesPass has.
var test func(t *testing.T)

// PlaceOrder is code under test: it enqueues in the transaction it is given.
func PlaceOrder(ctx context.Context, store *memstore.Store, tx *memstore.Tx, id string) error {
	_, err := store.Enqueue(ctx, tx, outbox.Message{
		Topic: "shop.order.placed.v1", Key: id, Payload: []byte(`{"order_id": "` + id + `", "total": 1250}`),
	})
	return err
}

// Billing is code under test: a consumer that must bill each order once, however often
// it hears of it.
type Billing struct {
	mu     sync.Mutex
	done   map[uuid.UUID]bool
	billed int
}

func (b *Billing) Dispatch(_ context.Context, msg outbox.DispatchedMessage) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done[msg.Meta.EventID] {
		return nil
	}
	b.done[msg.Meta.EventID] = true
	b.billed++
	return nil
}

// A producer's test: the event is there, once, with what consumers need.
func ExampleRequireEnqueued() {
	test = func(t *testing.T) {
		o := outboxtest.New(t, outboxtest.Config{})
		tx := o.Store.Begin()
		if err := PlaceOrder(t.Context(), o.Store, tx, "order-1"); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}

		outboxtest.RequireEnqueued(t, o.Store, "shop.order.placed.v1",
			outboxtest.Key("order-1"),
			outboxtest.Field("/total", 1250),
		)
	}
}

// The same while the transaction is open, with whatever store the application uses.
func ExampleRecorder() {
	test = func(t *testing.T) {
		var recorder outboxtest.Recorder
		store, err := memstore.New(memstore.Config{Gate: recorder.Gate(outbox.Gate{})})
		if err != nil {
			t.Fatal(err)
		}
		tx := store.Begin()
		defer tx.Rollback()

		if err := PlaceOrder(t.Context(), store, tx, "order-1"); err != nil {
			t.Fatal(err)
		}

		outboxtest.RequireEnqueued(t, &recorder, "shop.order.placed.v1", outboxtest.Key("order-1"))
	}
}

// A consumer's test: duplicates, reordering, crashes, lost acknowledgements and outages
// change nothing.
func ExampleRunFaults() {
	test = func(t *testing.T) {
		outboxtest.RunFaults(t, outboxtest.Config{}, func(t *testing.T, o *outboxtest.Outbox) {
			for _, id := range []string{"order-1", "order-2", "order-3"} {
				tx := o.Store.Begin()
				if err := PlaceOrder(t.Context(), o.Store, tx, id); err != nil {
					t.Fatal(err)
				}
				if err := tx.Commit(); err != nil {
					t.Fatal(err)
				}
			}
			billing := &Billing{done: make(map[uuid.UUID]bool)}

			o.Deliver(t, billing)

			if billing.billed != 3 {
				t.Fatalf("%d orders billed, want 3", billing.billed)
			}
		})
	}
}
