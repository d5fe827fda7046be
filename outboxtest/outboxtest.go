// Package outboxtest lets applications test their producers and consumers against the
// real engine, without a database, a broker or waiting.
//
// [Run] gives a test an outbox in memory and virtual time: an hour of backoff passes at
// once. What Deliver hands to the consumer has gone through the relay that runs in
// production, with its order, retries and recovery; [Faults] make it misbehave in the
// ways that at-least-once delivery permits. A consumer that comes out of [RunFaults]
// with the same result as without faults is idempotent for the events it was given.
//
// It does not test a database: the transactions of the store in memory hold nothing but
// the outbox. Use the application's real store with [RequireEnqueued] for that.
package outboxtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/relay"
	"github.com/go-outbox/outbox/store/memstore"
)

// Config describes an Outbox. The zero value is ready to use.
type Config struct {
	// Table names the store. Defaults to "outbox".
	Table string
	// Gate admits messages: use the application's own.
	Gate outbox.Gate
	// Relay tunes the engine: use the application's own. Its Instance is not used.
	Relay relay.Config
	// Faults are what goes wrong.
	Faults Faults
}

// An Outbox is a store in memory with the real relay and a dispatcher that records.
// Make it with Run, RunFaults or New. Store is safe for concurrent use; Relay and
// Deliver may not run at the same time.
type Outbox struct {
	// Store is where the code under test enqueues.
	Store *memstore.Store

	cfg      Config
	lives    int // relays so far
	courier  *courier
	patience time.Duration
}

// Run runs a test with an outbox in a bubble of virtual time; see [synctest.Test] for
// what that asks of the test: goroutines it starts must end, and connections to other
// processes do not belong in it.
func Run(t *testing.T, cfg Config, test func(t *testing.T, o *Outbox)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, New(t, cfg)) })
}

// RunFaults is Run for every kind of fault, each in a test of its own and all of them
// together. The faults of cfg are not used. Each run must build its own consumer.
func RunFaults(t *testing.T, cfg Config, test func(t *testing.T, o *Outbox)) {
	t.Helper()
	for _, c := range faultCases {
		t.Run(c.name, func(t *testing.T) {
			cfg.Faults = c.faults
			Run(t, cfg, test)
		})
	}
}

// New makes an outbox outside of Run: in a bubble of the test's own, or in real time,
// where retries take as long as they take.
func New(t testing.TB, cfg Config) *Outbox {
	t.Helper()
	store, err := memstore.New(memstore.Config{Table: cfg.Table, Gate: cfg.Gate})
	if err == nil {
		err = cfg.Faults.validate()
	}
	if err != nil {
		t.Fatalf("outboxtest: %v", err)
	}
	return &Outbox{Store: store, cfg: cfg, courier: newCourier(cfg.Faults), patience: 7 * 24 * time.Hour}
}

// Deliver relays everything that is committed to the consumer, through retries and
// faults, and fails the test when a message is dead or stays behind. A nil consumer
// accepts everything.
func (o *Outbox) Deliver(t testing.TB, consumer outbox.Dispatcher) {
	t.Helper()
	if err := o.Relay(t.Context(), consumer); err != nil {
		t.Fatalf("deliver: %v", err)
	}
	for _, status := range []outbox.Status{outbox.StatusDead, outbox.StatusPending, outbox.StatusRetrying} {
		page, err := o.Store.List(t.Context(), outbox.Filter{Status: status, OldestFirst: true, Limit: 5})
		if err != nil {
			t.Fatalf("deliver: %v", err)
		}
		for _, r := range page.Records {
			t.Errorf("deliver: %s %s of %q is %s after %d attempts: %s %s",
				r.Topic, r.EventID, r.Key, status, r.Attempts, r.DeadReason, r.LastError)
		}
		if len(page.Records) > 0 {
			t.FailNow()
		}
	}
}

// Relay relays what is committed until nothing is left that could still be delivered:
// every message is published, or dead, or behind a dead one of its key. Messages that
// are scheduled for later are waited for.
func (o *Outbox) Relay(ctx context.Context, consumer outbox.Dispatcher) error {
	o.courier.consumer = consumer
	ctx, cancel := context.WithTimeoutCause(ctx, o.patience, errors.New("messages are still pending"))
	defer cancel()
	for {
		if err := o.live(ctx); err != nil {
			return err
		}
		done, err := o.done(ctx)
		if err != nil {
			return err
		}
		if done {
			return o.courier.deliverCopies(ctx)
		}
	}
}

// live is the life of one relay process: until it crashes or has nothing left.
func (o *Outbox) live(ctx context.Context) error {
	o.lives++
	p := &process{Store: o.Store, courier: o.courier}
	cfg := o.cfg.Relay
	cfg.Instance = fmt.Sprintf("outboxtest-%d", o.lives)
	r, err := relay.New(p, p, cfg)
	if err != nil {
		return err
	}
	wait := 10 * time.Millisecond
	for {
		published, err := r.PublishPending(ctx)
		switch {
		case p.crashed():
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, outbox.ErrLeaseHeld): // by a process that crashed
		case err != nil:
			return err
		}
		if done, err := o.done(ctx); done || err != nil {
			return err
		}
		if published > 0 {
			wait = 10 * time.Millisecond
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
		wait = min(2*wait, time.Minute)
	}
}

// done reports whether nothing is left but dead messages and those they hold.
func (o *Outbox) done(ctx context.Context) (bool, error) {
	stats, err := o.Store.Stats(ctx)
	if err != nil || stats.Pending == 0 {
		return err == nil, err
	}
	if stats.Dead == 0 || stats.InFlight+stats.Retrying+stats.Scheduled > 0 {
		return false, nil
	}
	return o.held(ctx)
}

// held reports whether every pending message waits behind a dead one of its key.
func (o *Outbox) held(ctx context.Context) (bool, error) {
	if o.cfg.Relay.OnDead == relay.Skip {
		return false, nil
	}
	dead, err := all(ctx, o.Store, outbox.Filter{Status: outbox.StatusDead})
	if err != nil {
		return false, err
	}
	keys := make(map[string]int64)
	for _, r := range dead {
		if first, ok := keys[r.Key]; !ok || r.Sequence < first {
			keys[r.Key] = r.Sequence
		}
	}
	delete(keys, "")
	pending, err := all(ctx, o.Store, outbox.Filter{Status: outbox.StatusPending})
	for _, r := range pending {
		if first, ok := keys[r.Key]; !ok || r.Sequence < first {
			return false, err
		}
	}
	return err == nil, err
}

// Deliveries returns what the consumer was given so far, in order.
func (o *Outbox) Deliveries() []Delivery { return o.courier.deliveries() }

// pause waits, in virtual time where there is one.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
