package e2e

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/ops"
	"github.com/go-outbox/outbox/relay"
)

// behaviours is a dispatcher that does with a message what its topic says. Topics that
// hold a key share a route; every other is a route of its own.
type behaviours map[string]func(ctx context.Context) error

func (b behaviours) Route(topic string) string {
	switch topic {
	case "shop.order.fine.v1", "shop.order.wrong.v1", "shop.order.slow.v1":
		return "main"
	}
	return topic
}

func (b behaviours) routes(topic string) []string {
	if b[topic] == nil {
		return nil
	}
	return []string{b.Route(topic)}
}

func (b behaviours) Dispatch(ctx context.Context, msg outbox.DispatchedMessage) error {
	do := b[msg.Meta.Topic]
	if do == nil {
		return outbox.ErrNoRoute
	}
	return do(ctx)
}

// Every cause that an explanation can have is made to happen, with a relay at work, and
// named.
func TestEveryCauseIsExplained(t *testing.T) {
	for _, database := range databases {
		t.Run(database.name, func(t *testing.T) {
			e := &explained{T: t, store: database.open(t)}
			e.topics = behaviours{
				"shop.order.fine.v1":  func(context.Context) error { return nil },
				"shop.order.calm.v1":  func(context.Context) error { return nil },
				"shop.order.wrong.v1": func(context.Context) error { return outbox.Permanent(errors.New("malformed")) },
				"shop.order.slow.v1":  func(context.Context) error { return outbox.RetryAfter(errors.New("busy"), 30*time.Minute) },
				"shop.order.down.v1":  func(context.Context) error { return outbox.Unavailable(errors.New("connection refused")) },
				"shop.order.stuck.v1": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
			}
			e.withoutRelay()
			stop := start(t, e.store, e.topics, relay.Config{Instance: "relay-1", Lease: time.Second, DrainTimeout: 10 * time.Millisecond})
			e.withRelay()
			stop()
			e.withALeaseOnly()
		})
	}
}

type explained struct {
	*testing.T
	store  fullStore
	topics behaviours
}

// is waits until a message is explained by a cause.
func (e *explained) is(id uuid.UUID, cause ops.Cause) ops.Explanation {
	e.Helper()
	var got ops.Explanation
	ctx, cancel := context.WithTimeout(e.Context(), 30*time.Second)
	defer cancel()
	for {
		var err error
		if got, err = ops.Why(ctx, e.store, id, e.topics.routes); err != nil {
			e.Fatal(err)
		}
		if got.Cause == cause {
			e.Logf("%s: %s", cause, got.Text)
			return got
		}
		if !pause(ctx, 20*time.Millisecond) {
			e.Fatalf("got %s (%s), want %s", got.Cause, got.Text, cause)
		}
	}
}

func (e *explained) withoutRelay() {
	e.is(uuid.New(), ops.NotFound)
	id := enqueue(e.T, e.store, "shop.order.fine.v1", "")
	e.is(id, ops.NoRelay)
	apply(e.T, e.store, outbox.Action{Verb: outbox.VerbPause})
	if got := e.is(id, ops.Paused); got.Route != "" {
		e.Errorf("the route %q is blamed for the table", got.Route)
	}
	apply(e.T, e.store, outbox.Action{Verb: outbox.VerbResume})
}

func (e *explained) withRelay() {
	e.is(enqueue(e.T, e.store, "shop.order.fine.v1", "a"), ops.Published)
	e.is(enqueue(e.T, e.store, "shop.order.unknown.v1", "b"), ops.NoRoute)

	later := outbox.Message{EventID: uuid.New(), Topic: "shop.order.fine.v1", Payload: []byte(`1`), AvailableAt: time.Now().Add(24 * time.Hour)}
	if _, err := e.store.EnqueueAutocommit(e.Context(), later); err != nil {
		e.Fatal(err)
	}
	if got := e.is(later.EventID, ops.Scheduled); got.Until.Sub(later.AvailableAt).Abs() > time.Second {
		e.Errorf("scheduled until %v, want %v", got.Until, later.AvailableAt)
	}

	dead := enqueue(e.T, e.store, "shop.order.wrong.v1", "c")
	e.is(dead, ops.Dead)
	held := e.is(enqueue(e.T, e.store, "shop.order.fine.v1", "c"), ops.Held)
	if held.Behind == nil || held.Behind.EventID != dead || held.Behind.Why.Cause != ops.Dead {
		e.Errorf("held behind %+v, want the dead %s", held.Behind, dead)
	}

	slow := enqueue(e.T, e.store, "shop.order.slow.v1", "d")
	e.is(slow, ops.Backoff)
	if behind := e.is(enqueue(e.T, e.store, "shop.order.fine.v1", "d"), ops.Held).Behind; behind.Why.Cause != ops.Backoff {
		e.Errorf("held because of %s, want backoff", behind.Why.Cause)
	}
	apply(e.T, e.store, outbox.Action{Verb: outbox.VerbDiscard, EventID: slow})
	e.is(slow, ops.Discarded)

	if got := e.is(enqueue(e.T, e.store, "shop.order.down.v1", "e"), ops.CircuitOpen); got.Route != "shop.order.down.v1" {
		e.Errorf("the circuit of %q is blamed", got.Route)
	}
	e.is(enqueue(e.T, e.store, "shop.order.stuck.v1", "f"), ops.InFlight)

	apply(e.T, e.store, outbox.Action{Verb: outbox.VerbPause, Route: "shop.order.calm.v1"})
	eventually(e.T, "the relay has heard of the pause", func() bool {
		return e.cause(enqueue(e.T, e.store, "shop.order.calm.v1", "")) == ops.Paused
	})
}

func (e *explained) cause(id uuid.UUID) ops.Cause {
	got, err := ops.Why(e.Context(), e.store, id, e.topics.routes)
	if err != nil {
		e.Fatal(err)
	}
	return got.Cause
}

func (e *explained) withALeaseOnly() {
	var lease outbox.Lease
	eventually(e.T, "the lease is free", func() (ok bool) {
		var err error
		lease, err = e.store.Acquire(e.Context(), outbox.LeaseRequest{Instance: "by hand", TTL: time.Minute})
		return err == nil
	})
	e.is(enqueue(e.T, e.store, "shop.order.fine.v1", "g"), ops.Pending)
	if err := lease.Release(e.Context(), 0); err != nil {
		e.Fatal(err)
	}
}
