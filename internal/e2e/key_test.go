package e2e

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/relay"
)

// A ledger notes the order of deliveries. It refuses the first message while broken.
type ledger struct {
	broken atomic.Bool
	first  uuid.UUID
	mu     sync.Mutex
	got    []uuid.UUID
}

func (l *ledger) Dispatch(_ context.Context, msg outbox.DispatchedMessage) error {
	if l.broken.Load() && msg.Meta.EventID == l.first {
		return outbox.Permanent(errors.New("broken"))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.got = append(l.got, msg.Meta.EventID)
	return nil
}

func (l *ledger) deliveries() []uuid.UUID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.got)
}

// A dead message holds a thousand followers of its key. Each verb for the key lets
// exactly those go that it says, in order.
func TestAHeldKeyGoesOnInOrder(t *testing.T) {
	const followers = 1000
	stores := append([]struct {
		name string
		open func(t *testing.T) fullStore
	}{{"memory", openMemory}}, databases...)
	for _, verb := range []struct {
		verb      outbox.Verb
		redeliver bool // the head comes too
	}{
		{outbox.VerbRetryHead, true},
		{outbox.VerbReplay, true},
		{outbox.VerbSkipHead, false},
		{outbox.VerbReleaseKey, false},
		{outbox.VerbDiscard, false},
	} {
		for _, s := range stores {
			t.Run(string(verb.verb)+"/"+s.name, func(t *testing.T) {
				store := s.open(t)
				head := enqueue(t, store, "shop.order.placed.v1", "order-1")
				l := &ledger{first: head}
				l.broken.Store(true)
				start(t, store, l, relay.Config{Lease: time.Second})
				eventually(t, "the head is dead", func() bool {
					rec, err := store.Get(t.Context(), head)
					return err == nil && !rec.DeadAt.IsZero()
				})
				want := []uuid.UUID{}
				for range followers {
					want = append(want, enqueue(t, store, "shop.order.placed.v1", "order-1"))
				}
				other := enqueue(t, store, "shop.order.placed.v1", "order-2")
				eventually(t, "another key goes on", func() bool { return slices.Contains(l.deliveries(), other) })
				if n := len(l.deliveries()); n != 1 {
					t.Fatalf("%d messages were delivered past the dead head", n-1)
				}
				keys, err := store.Keys(t.Context(), 0, 10)
				if err != nil || len(keys) != 1 || keys[0].Waiting != followers {
					t.Fatalf("held keys are %+v (%v), want one with %d waiting", keys, err, followers)
				}

				l.broken.Store(false)
				apply(t, store, outbox.Action{Verb: verb.verb, Key: "order-1", EventID: head})

				if verb.redeliver {
					want = append([]uuid.UUID{head}, want...)
				}
				eventually(t, "all are delivered", func() bool { return len(l.deliveries()) == len(want)+1 })
				if got := slices.DeleteFunc(l.deliveries(), func(id uuid.UUID) bool { return id == other }); !slices.Equal(got, want) {
					t.Errorf("they came out of order")
				}
			})
		}
	}
}
