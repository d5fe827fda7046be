package main

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/compat"
	"github.com/go-outbox/outbox/store/sqlitestore"
)

func TestPublishPendingPublishesWhatIsThereAndReturns(t *testing.T) {
	db, store := newOutbox(t)
	got := make(chan int64, 10)
	p := newPublisher(t, store, func(_ context.Context, e Event) error { got <- e.OrderID; return nil })
	for _, id := range []int64{1, 2, 3} {
		ok(t, placeOrder(t.Context(), db, store, id))
	}
	pending, err := p.Pending(t.Context(), 2)
	ok(t, err)
	if len(pending) != 2 || pending[0].AggregateID != "1" {
		t.Errorf("%d pending entries, want the first two", len(pending))
	}

	ok(t, p.PublishPending(t.Context()))
	ok(t, p.PublishPending(t.Context())) // there is nothing left

	if ids := drain(got); !slices.Equal(ids, []int64{1, 2, 3}) {
		t.Errorf("published %v", ids)
	}
}

// drain is what has been published so far, sorted: different keys have no order.
func drain(published chan int64) (ids []int64) {
	for len(published) > 0 {
		ids = append(ids, <-published)
	}
	slices.Sort(ids)
	return ids
}

func TestStartPublishesAtOnceAndStopEndsIt(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	db, store := newOutbox(t)
	published := make(chan int64, 10)
	p := newPublisher(t, store, func(_ context.Context, e Event) error { published <- e.OrderID; return nil })
	ok(t, placeOrder(ctx, db, store, 1))

	ok(t, p.Start(ctx))
	next(ctx, t, published, 1)
	ok(t, placeOrder(ctx, db, store, 2))
	ok(t, p.PublishPending(ctx)) // by hand, while it runs
	next(ctx, t, published, 2)
	ok(t, p.Stop(ctx))

	ok(t, placeOrder(ctx, db, store, 3))
	if len(published) != 0 {
		t.Error("something was published after the stop")
	}
}

func next(ctx context.Context, t *testing.T, published <-chan int64, want int64) {
	t.Helper()
	select {
	case got := <-published:
		if got != want {
			t.Errorf("published %d, want %d", got, want)
		}
	case <-ctx.Done():
		t.Fatalf("%d was not published", want)
	}
}

func TestAnEntryThatCannotBeReadFailsAlone(t *testing.T) {
	db, store := newOutbox(t)
	got := make(chan int64, 10)
	p := newPublisher(t, store, func(_ context.Context, e Event) error { got <- e.OrderID; return nil })
	_, err := store.EnqueueAutocommit(t.Context(), outbox.Message{Topic: "shop.order.placed.v1", Payload: []byte(`{"order_id":"one"}`)})
	ok(t, err)
	ok(t, placeOrder(t.Context(), db, store, 2))

	ok(t, p.PublishPending(t.Context()))

	failed, err := p.Failed(t.Context(), 10)
	ok(t, err)
	if len(failed) != 1 || failed[0].DeadReason != outbox.DeadPermanent || compat.C.Word(failed[0].Status(time.Now())) != "failed" {
		t.Errorf("%d failed entries, want one", len(failed))
	}
	if ids := drain(got); !slices.Equal(ids, []int64{2}) {
		t.Errorf("published %v, want 2", ids)
	}
}

func TestAnEntryThatFailsIsTriedAgainWhenItIsDue(t *testing.T) {
	db, store := newOutbox(t)
	p := newPublisher(t, store, func(context.Context, Event) error { return errors.New("busy") })
	ok(t, placeOrder(t.Context(), db, store, 1))

	ok(t, p.PublishPending(t.Context()))

	record, err := store.Get(t.Context(), EventID("order-1-placed"))
	ok(t, err)
	wait := record.AvailableAt.Sub(record.CreatedAt)
	if record.Attempts != 1 || record.LastError != "busy" || wait < time.Second || compat.C.Word(record.Status(time.Now())) != "pending" {
		t.Errorf("after %d attempts it waits %s with the error %q", record.Attempts, wait, record.LastError)
	}
}

func TestASavedEntryIsOneEntryHoweverOftenItIsSaved(t *testing.T) {
	_, store := newOutbox(t)
	entry, err := NewEntry(Event{ID: "order-7-placed", Type: "OrderPlaced", OrderID: 7})
	ok(t, err)
	first, err := store.EnqueueAutocommit(t.Context(), entry)
	ok(t, err)
	second, err := store.EnqueueAutocommit(t.Context(), entry)
	ok(t, err)
	if first != second {
		t.Errorf("sequences %d and %d, want the same", first, second)
	}
	record, err := store.Get(t.Context(), EventID("order-7-placed"))
	ok(t, err)
	event, err := ToEvent(record.Payload)
	ok(t, err)
	if want := (Event{ID: "order-7-placed", Type: "OrderPlaced", OrderID: 7}); event != want {
		t.Errorf("got %+v", event)
	}
}

func TestTheSampleConfigurationIsUsed(t *testing.T) {
	cfg, err := SamplePublisherConfig.relay()
	ok(t, err)
	if cfg.Poll != time.Second || cfg.Batch != 100 {
		t.Errorf("got %+v", cfg)
	}
	policy := cfg.Retries.Default
	if policy.Exhausted(3) || !policy.Exhausted(4) {
		t.Errorf("%d attempts, want 3 retries after the first", policy.MaxAttempts)
	}
	for failures, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 30: time.Hour} {
		if got := policy.Delay(failures, 0); got != want {
			t.Errorf("waits %s after %d failures, want %s", got, failures, want)
		}
	}
	if got := SamplePublisherConfig.cleaner(); got.Interval != time.Hour || got.Retention != 24*time.Hour {
		t.Errorf("got %+v", got)
	}
}

func TestTheProgramPublishesOnce(t *testing.T) {
	var out strings.Builder
	ok(t, run(t.Context(), filepath.Join(t.TempDir(), "orders.db"), false, &out))
	if !strings.HasPrefix(out.String(), "OrderPlaced of order ") {
		t.Errorf("got %q", out.String())
	}
}

func newOutbox(t *testing.T) (*sql.DB, *sqlitestore.Store) {
	t.Helper()
	db, store, err := open(t.Context(), filepath.Join(t.TempDir(), "orders.db"))
	ok(t, err)
	t.Cleanup(func() { ok(t, db.Close()) })
	return db, store
}

func newPublisher(t *testing.T, store Store, handle Handler) *Publisher {
	t.Helper()
	p, err := NewPublisher(store, handle, SamplePublisherConfig)
	ok(t, err)
	return p
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
