package outboxtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/outboxtest"
	"github.com/go-outbox/outbox/relay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A ledger is a consumer that adds up orders. Idempotent, it knows an event again.
type ledger struct {
	idempotent bool

	mu    sync.Mutex
	seen  map[uuid.UUID]bool
	total int
}

func (l *ledger) Dispatch(_ context.Context, msg outbox.DispatchedMessage) error {
	var order struct{ Total int }
	if err := json.Unmarshal(msg.Payload, &order); err != nil {
		return outbox.Permanent(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.idempotent && l.seen[msg.Meta.EventID] {
		return nil
	}
	if l.seen == nil {
		l.seen = make(map[uuid.UUID]bool)
	}
	l.seen[msg.Meta.EventID] = true
	l.total += order.Total
	return nil
}

const orders = 40 // of 1, with 10 keys and none

func placeOrders(t *testing.T, o *outboxtest.Outbox) {
	t.Helper()
	for i := range orders {
		key := fmt.Sprintf("order-%d", i%10)
		if i%4 == 0 {
			key = ""
		}
		place(t, o, key, i)
	}
}

func place(t *testing.T, o *outboxtest.Outbox, key string, n int) {
	t.Helper()
	msg := outbox.Message{Topic: "shop.order.placed.v1", Key: key, Payload: fmt.Appendf(nil, `{"total":1,"n":%d}`, n)}
	if _, err := o.Store.EnqueueAutocommit(t.Context(), msg); err != nil {
		t.Fatal(err)
	}
}

func TestAnIdempotentConsumerSurvivesEveryFault(t *testing.T) {
	outboxtest.RunFaults(t, outboxtest.Config{}, func(t *testing.T, o *outboxtest.Outbox) {
		placeOrders(t, o)
		l := &ledger{idempotent: true}

		o.Deliver(t, l)

		if l.total != orders {
			t.Fatalf("total %d, want %d", l.total, orders)
		}
	})
}

func TestEveryFaultThatRepeatsExposesAConsumerThatIsNotIdempotent(t *testing.T) {
	for name, faults := range map[string]outboxtest.Faults{
		"duplicates": {Duplicates: 1}, "concurrent": {Concurrent: true}, "lost ack": {LostAcks: 1}, "crash": {Crashes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			outboxtest.Run(t, outboxtest.Config{Faults: faults}, func(t *testing.T, o *outboxtest.Outbox) {
				placeOrders(t, o)
				l := &ledger{}

				o.Deliver(t, l)

				if l.total <= orders {
					t.Fatalf("total %d: nothing was repeated", l.total)
				}
			})
		})
	}
}

func TestWithoutFaultsEachMessageArrivesOnceAndKeysInOrder(t *testing.T) {
	outboxtest.Run(t, outboxtest.Config{}, func(t *testing.T, o *outboxtest.Outbox) {
		placeOrders(t, o)

		o.Deliver(t, nil)

		if n := len(o.Deliveries()); n != orders {
			t.Fatalf("%d deliveries, want %d", n, orders)
		}
		requireKeysInOrder(t, o)
	})
}

func TestReorderMixesKeysAndKeepsEach(t *testing.T) {
	outboxtest.Run(t, outboxtest.Config{Faults: outboxtest.Faults{Reorder: true}}, func(t *testing.T, o *outboxtest.Outbox) {
		placeOrders(t, o)

		o.Deliver(t, nil)

		requireKeysInOrder(t, o)
		last, mixed := int64(0), false
		for _, d := range o.Deliveries() {
			mixed = mixed || d.Message.Meta.Sequence < last
			last = d.Message.Meta.Sequence
		}
		if !mixed {
			t.Fatal("nothing was reordered")
		}
	})
}

func requireKeysInOrder(t *testing.T, o *outboxtest.Outbox) {
	t.Helper()
	last := make(map[string]int64)
	for _, d := range o.Deliveries() {
		m := d.Message.Meta
		if m.Key != "" && m.Sequence < last[m.Key] {
			t.Fatalf("%s: %d after %d", m.Key, m.Sequence, last[m.Key])
		}
		last[m.Key] = m.Sequence
	}
}

func TestASinkThatIsDownCostsTimeAndNoAttempt(t *testing.T) {
	outboxtest.Run(t, outboxtest.Config{Faults: outboxtest.Faults{Down: time.Hour}}, func(t *testing.T, o *outboxtest.Outbox) {
		began := time.Now()
		placeOrders(t, o)

		o.Deliver(t, nil)

		for _, d := range o.Deliveries() {
			if d.At.Sub(began) < time.Hour || d.Message.Meta.Attempts != 1 {
				t.Fatalf("delivered after %s, attempt %d", d.At.Sub(began), d.Message.Meta.Attempts)
			}
		}
	})
}

func TestACrashIsRecoveredByTheNextRelay(t *testing.T) {
	outboxtest.Run(t, outboxtest.Config{Faults: outboxtest.Faults{Crashes: 2}}, func(t *testing.T, o *outboxtest.Outbox) {
		began := time.Now()
		place(t, o, "order-1", 1)

		o.Deliver(t, nil)

		if n := len(o.Deliveries()); n != 3 {
			t.Fatalf("%d deliveries, want 3", n)
		}
		if took := time.Since(began); took < 30*time.Second {
			t.Fatalf("took %s: nobody waited for the leases", took)
		}
	})
}

func TestAConsumerThatFailsHasTheMessageAgain(t *testing.T) {
	outboxtest.Run(t, outboxtest.Config{}, func(t *testing.T, o *outboxtest.Outbox) {
		place(t, o, "order-1", 1)
		failures := 5

		o.Deliver(t, outbox.DispatcherFunc(func(context.Context, outbox.DispatchedMessage) error {
			if failures--; failures >= 0 {
				return errors.New("not yet")
			}
			return nil
		}))

		if d := o.Deliveries(); len(d) != 6 || d[0].Err == nil || d[5].Err != nil {
			t.Fatalf("got %+v", d)
		}
	})
}

func TestScheduledMessagesAreWaitedFor(t *testing.T) {
	outboxtest.Run(t, outboxtest.Config{}, func(t *testing.T, o *outboxtest.Outbox) {
		due := time.Now().Add(48 * time.Hour)
		msg := outbox.Message{Topic: "shop.order.placed.v1", Payload: []byte(`{}`), AvailableAt: due}
		if _, err := o.Store.EnqueueAutocommit(t.Context(), msg); err != nil {
			t.Fatal(err)
		}

		o.Deliver(t, nil)

		if d := o.Deliveries(); len(d) != 1 || d[0].At.Before(due) {
			t.Fatalf("got %+v", d)
		}
	})
}

func TestWhatIsRolledBackIsNotDelivered(t *testing.T) {
	outboxtest.Run(t, outboxtest.Config{}, func(t *testing.T, o *outboxtest.Outbox) {
		tx := o.Store.Begin()
		if _, err := o.Store.Enqueue(t.Context(), tx, outbox.Message{Topic: "shop.order.placed.v1", Payload: []byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}

		o.Deliver(t, nil)

		if len(o.Deliveries()) != 0 {
			t.Fatal("it was delivered")
		}
	})
}

func TestRelayLeavesDeadMessagesAndTheirKeys(t *testing.T) {
	outboxtest.Run(t, outboxtest.Config{}, func(t *testing.T, o *outboxtest.Outbox) {
		place(t, o, "order-1", 1)
		place(t, o, "order-1", 2)
		place(t, o, "order-2", 3)
		poison := outbox.DispatcherFunc(func(_ context.Context, msg outbox.DispatchedMessage) error {
			if msg.Meta.Key == "order-1" {
				return outbox.Permanent(errors.New("cannot be read"))
			}
			return nil
		})

		err := o.Relay(t.Context(), poison)

		stats, _ := o.Store.Stats(t.Context())
		if err != nil || stats.Dead != 1 || stats.Pending != 1 {
			t.Fatalf("got %v, %+v", err, stats)
		}
		text := failure(t, func(f testing.TB) { o.Deliver(f, poison) })
		if !strings.Contains(text, "dead after 1 attempts: permanent cannot be read") {
			t.Fatalf("got %q", text)
		}
	})
}

func TestTheApplicationsOwnSettingsApply(t *testing.T) {
	cfg := outboxtest.Config{Relay: relay.Config{Retries: outbox.Retries{Default: outbox.RetryPolicy{MaxAttempts: 2}}}}
	outboxtest.Run(t, cfg, func(t *testing.T, o *outboxtest.Outbox) {
		place(t, o, "", 1)

		err := o.Relay(t.Context(), outbox.DispatcherFunc(func(context.Context, outbox.DispatchedMessage) error {
			return errors.New("never")
		}))

		if n := len(o.Deliveries()); err != nil || n != 2 {
			t.Fatalf("%d deliveries, %v; want 2", n, err)
		}
	})
}

func TestImpossibleFaultsAreRefused(t *testing.T) {
	for _, f := range []outboxtest.Faults{{Crashes: 3}, {Duplicates: -1}, {LostAcks: -1}, {Down: -1}} {
		text := failure(t, func(f2 testing.TB) { outboxtest.New(f2, outboxtest.Config{Faults: f}) })
		if !strings.Contains(text, "faults.") {
			t.Errorf("%+v: got %q", f, text)
		}
	}
}

// failure returns how a test failed that must fail.
func failure(t *testing.T, test func(testing.TB)) string {
	t.Helper()
	f := &failed{TB: t}
	func() {
		defer func() {
			if r := recover(); r != nil && r != any(f) {
				panic(r)
			}
		}()
		test(f)
	}()
	if f.text == "" {
		t.Error("the test did not fail")
	}
	return f.text
}

// failed is a test that collects its failure.
type failed struct {
	testing.TB
	text string
}

func (f *failed) Helper() {}

func (f *failed) Errorf(format string, args ...any) { f.text += fmt.Sprintf(format, args...) + "\n" }

func (f *failed) FailNow() { panic(f) }

func (f *failed) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	f.FailNow()
}
