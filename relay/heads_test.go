package relay

import (
	"context"
	"errors"
	"slices"
	"sync"
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

// slowSteps is a store whose writes take long.
type slowSteps struct{ outbox.Store }

func (f slowSteps) Acquire(ctx context.Context, req outbox.LeaseRequest) (outbox.Lease, error) {
	l, err := f.Store.Acquire(ctx, req)
	if err != nil {
		return nil, err
	}
	return slowStepsLease{l}, nil
}

type slowStepsLease struct{ outbox.Lease }

func (l slowStepsLease) Step(ctx context.Context, s outbox.Step) error {
	<-time.After(2 * time.Second)
	return l.Lease.Step(ctx, s)
}

// Torture, PostgreSQL, seed 7009: a message that was replayed in front of its key took the
// hold of a later one, which had failed and was not settled yet, with it when it was done.
func TestAReplayedHeadLeavesTheHoldsBehindIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, memstore.Config{})
		var mu sync.Mutex
		var got []string
		tried := false
		sink := outbox.DispatcherFunc(func(_ context.Context, m outbox.DispatchedMessage) error {
			mu.Lock()
			defer mu.Unlock()
			switch payload := string(m.Payload); {
			case payload == "0":
				return outbox.Permanent(errors.New("never"))
			case payload == "1" && !tried:
				tried = true
				mu.Unlock()
				<-time.After(20 * time.Second)
				mu.Lock()
				return outbox.RetryAfter(errors.New("not yet"), time.Minute)
			default:
				got = append(got, payload)
				return nil
			}
		})
		first := enqueue(t, store, "k", 0)
		_, stop := start(t, slowSteps{store}, sink, Config{Lease: 3 * time.Second, OnDead: Skip})
		defer stop()
		pass(time.Minute) // it is dead
		enqueue(t, store, "k", 1)
		enqueue(t, store, "k", 2)
		pass(5 * time.Second)                                                          // the second is in flight
		for _, verb := range []outbox.Verb{outbox.VerbReplay, outbox.VerbReschedule} { // so that it holds its key before it is read
			_, err := store.Apply(t.Context(), outbox.Action{
				Verb: verb, EventID: first, At: time.Now().Add(5 * time.Second), Actor: "ada", Reason: "again",
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		pass(time.Hour)

		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(got, []string{"1", "2"}) {
			t.Errorf("delivered in the order %v", got)
		}
	})
}
