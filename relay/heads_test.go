package relay

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/store/memstore"
)

// lateHeads is a store whose second look at the heads takes long.
type lateHeads struct {
	outbox.Store
	calls atomic.Int64
}

func (f *lateHeads) Acquire(ctx context.Context, req outbox.LeaseRequest) (outbox.Lease, error) {
	l, err := f.Store.Acquire(ctx, req)
	if err != nil {
		return nil, err
	}
	return lateHeadsLease{l, f}, nil
}

type lateHeadsLease struct {
	outbox.Lease
	f *lateHeads
}

func (l lateHeadsLease) Heads(ctx context.Context, after int64, limit int) ([]outbox.Head, error) {
	heads, err := l.Lease.Heads(ctx, after, limit)
	if l.f.calls.Add(1) > 1 {
		<-time.After(5 * time.Second) // the answer is late
	}
	return heads, err
}

// Torture, PostgreSQL, seed 7: a head that was delivered while the relay looked for heads
// again held its key until the next owner.
func TestALateLookAtTheHeadsHoldsNoKeyForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, memstore.Config{})
		var tries atomic.Int64
		sink := outbox.DispatcherFunc(func(_ context.Context, m outbox.DispatchedMessage) error {
			if string(m.Payload) != "1" {
				return nil
			}
			if tries.Add(1) == 1 {
				return outbox.RetryAfter(errors.New("no"), 10*time.Millisecond)
			}
			<-time.After(3 * time.Second)
			return nil
		})
		x := enqueue(t, store, "", 0)
		enqueue(t, store, "k", 1)
		b := enqueue(t, store, "k", 2)
		_, stop := start(t, &lateHeads{Store: store}, sink, Config{Lease: 3 * time.Second})
		defer stop()
		pass(500 * time.Millisecond) // the second attempt is in flight
		if _, err := store.Apply(t.Context(), outbox.Action{Verb: outbox.VerbReplay, EventID: x, Actor: "ada", Reason: "again"}); err != nil {
			t.Fatal(err)
		}
		pass(time.Hour)
		if got := status(t, store, b); got != outbox.StatusPublished {
			t.Errorf("an hour later the second message of the key is %s", got)
		}
	})
}
