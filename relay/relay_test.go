package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const topic = "shop.order.placed.v1"

// A recorder is a dispatcher that remembers what it got and answers as told.
type recorder struct {
	mu     sync.Mutex
	got    []outbox.DispatchedMessage
	answer func(outbox.DispatchedMessage) error
}

func (r *recorder) Dispatch(_ context.Context, msg outbox.DispatchedMessage) error {
	r.mu.Lock()
	r.got = append(r.got, msg)
	answer := r.answer
	r.mu.Unlock()
	if answer == nil {
		return nil
	}
	return answer(msg)
}

func (r *recorder) answers(f func(outbox.DispatchedMessage) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = f
}

// count is how many dispatches there were.
func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.got)
}

// payloads lists what was dispatched, in order.
func (r *recorder) payloads() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, m := range r.got {
		out = append(out, string(m.Payload))
	}
	return out
}

func newStore(t *testing.T, cfg memstore.Config) *memstore.Store {
	t.Helper()
	s, err := memstore.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func enqueue(t *testing.T, s *memstore.Store, key string, payload any) uuid.UUID {
	t.Helper()
	raw, err := json.Marshal(payload)
	if err != nil {
		t.Fatal(err)
	}
	id := uuid.New()
	if _, err := s.EnqueueAutocommit(t.Context(), outbox.Message{Topic: topic, Key: key, Payload: raw, EventID: id}); err != nil {
		t.Fatal(err)
	}
	return id
}

// start runs a relay until the test ends or stop is called, which waits for it.
func start(t *testing.T, store outbox.Store, d outbox.Dispatcher, cfg Config) (r *Relay, stop func()) {
	t.Helper()
	r, err := New(store, d, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
	t.Cleanup(stop)
	return r, stop
}

// pass lets virtual time go by.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func get(t *testing.T, s outbox.Inspector, id uuid.UUID) *outbox.Record {
	t.Helper()
	rec, err := s.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func status(t *testing.T, s outbox.Inspector, id uuid.UUID) outbox.Status {
	t.Helper()
	return get(t, s, id).Status(time.Now())
}

func TestCommittedMessagesAreDeliveredAndRolledBackOnesAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := newStore(t, memstore.Config{}), &recorder{}
		_, stop := start(t, store, sink, Config{})
		defer stop()

		tx := store.Begin()
		for i := range 3 {
			if _, err := store.Enqueue(t.Context(), tx, outbox.Message{Topic: topic, Payload: fmt.Appendf(nil, "%d", i)}); err != nil {
				t.Fatal(err)
			}
		}
		pass(time.Minute)
		if n := sink.count(); n != 0 {
			t.Fatalf("%d messages dispatched before the commit", n)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		gone := store.Begin()
		if _, err := store.Enqueue(t.Context(), gone, outbox.Message{Topic: topic, Payload: json.RawMessage(`"gone"`)}); err != nil {
			t.Fatal(err)
		}
		if err := gone.Rollback(); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)

		if got := sink.payloads(); len(got) != 3 || slices.Contains(got, `"gone"`) {
			t.Fatalf("dispatched %v, want 0, 1, 2", got)
		}
	})
}

// R-A45: a message that keeps failing is retried with backoff, then dead, and can
// still be looked at.
func TestAFailingMessageIsRetriedThenDeadAndStillQueryable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, memstore.Config{})
		sink := &recorder{answer: func(outbox.DispatchedMessage) error { return errors.New("no") }}
		retries := outbox.Retries{Default: outbox.RetryPolicy{MaxAttempts: 3, Jitter: -1}}
		var at []time.Duration
		begin := time.Now()
		_, stop := start(t, store, sink, Config{Retries: retries, Hooks: Hooks{
			Dispatched: func(*outbox.Meta, time.Duration, error) { at = append(at, time.Since(begin).Round(time.Second)) },
		}})
		defer stop()
		id := enqueue(t, store, "", 1)
		pass(24 * time.Hour)

		rec := get(t, store, id)
		if rec.Status(time.Now()) != outbox.StatusDead || rec.DeadReason != outbox.DeadAttempts || rec.Attempts != 3 || rec.LastError != "no" {
			t.Fatalf("after three failures the message is %+v", rec)
		}
		// The first at once, the second 1 s later, the third 2 s after that: each
		// within a poll of its time.
		if len(at) != 3 || at[1]-at[0] > 2*time.Second || at[2]-at[1] < 2*time.Second || at[2]-at[1] > 3*time.Second {
			t.Fatalf("attempts at %v", at)
		}
	})
}

// R-A46: panics, timeouts and errors do not hold up other messages.
func TestPoisonPillsDoNotBlockLaterMessages(t *testing.T) {
	for name, poison := range map[string]outbox.DispatcherFunc{
		"error":   func(context.Context, outbox.DispatchedMessage) error { return errors.New("no") },
		"panic":   func(context.Context, outbox.DispatchedMessage) error { panic("no") },
		"timeout": func(ctx context.Context, _ outbox.DispatchedMessage) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, sink := newStore(t, memstore.Config{}), &recorder{}
				d := outbox.DispatcherFunc(func(ctx context.Context, m outbox.DispatchedMessage) error {
					if string(m.Payload) == `"poison"` {
						return poison(ctx, m)
					}
					return sink.Dispatch(ctx, m)
				})
				_, stop := start(t, store, d, Config{Concurrency: 2, Retries: outbox.Retries{Default: outbox.RetryPolicy{MaxAttempts: 4}}})
				defer stop()
				bad := enqueue(t, store, "", "poison")
				for i := range 100 {
					enqueue(t, store, "", i)
				}
				pass(time.Second)
				if n := sink.count(); n != 100 {
					t.Fatalf("%d of 100 later messages were delivered", n)
				}
				pass(time.Hour)
				if s := status(t, store, bad); s != outbox.StatusDead {
					t.Fatalf("the poison message is %s", s)
				}
			})
		})
	}
}

// A paused table stands still: also what was read before is not dispatched.
func TestAPausedTableDispatchesNothingThatItHasRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, memstore.Config{})
		var delivered atomic.Int64
		d := outbox.DispatcherFunc(func(context.Context, outbox.DispatchedMessage) error {
			delivered.Add(1)
			<-time.After(time.Second)
			return nil
		})
		const messages = 100
		for n := range messages {
			enqueue(t, store, "", n)
		}
		_, stop := start(t, store, d, Config{Lease: 3 * time.Second, Concurrency: 1})
		defer stop()
		pass(10 * time.Second)
		operate := func(verb outbox.Verb) {
			if _, err := store.Apply(t.Context(), outbox.Action{Verb: verb, Actor: "ada", Reason: "wait"}); err != nil {
				t.Fatal(err)
			}
		}
		operate(outbox.VerbPause)
		pass(3 * time.Second) // at most a lease until it is noticed
		before := delivered.Load()
		pass(time.Minute)
		if n := delivered.Load(); n != before || n == 0 || n == messages {
			t.Errorf("%d delivered when it was paused, %d a minute later", before, n)
		}
		operate(outbox.VerbResume)
		pass(time.Hour)
		if n := delivered.Load(); n != messages {
			t.Errorf("%d of %d delivered after it was resumed", n, messages)
		}
	})
}

// A message that was scheduled and is due is found before reading comes to it. An earlier
// one of its key may still wait in the backlog.
func TestADueMessageDoesNotOvertakeTheBacklogOfItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, memstore.Config{})
		var mu sync.Mutex
		var got []string
		d := outbox.DispatcherFunc(func(_ context.Context, m outbox.DispatchedMessage) error {
			mu.Lock()
			defer mu.Unlock()
			if m.Meta.Key == "k" {
				got = append(got, string(m.Payload))
			}
			return nil
		})
		for n := range 500 {
			enqueue(t, store, fmt.Sprint("other", n), n)
		}
		enqueue(t, store, "k", 1)
		scheduled := outbox.Message{Topic: topic, Key: "k", Payload: json.RawMessage(`2`), AvailableAt: time.Now().Add(time.Second)}
		if _, err := store.EnqueueAutocommit(t.Context(), scheduled); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		_, stop := start(t, store, d, Config{Batch: 16, Window: 64})
		defer stop()
		pass(time.Hour)

		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(got, []string{"1", "2"}) {
			t.Errorf("delivered in the order %v", got)
		}
	})
}

func TestMessagesOfAKeyAreFirstDeliveredInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, memstore.Config{})
		const keys, each = 10, 50
		failed := map[string]bool{}
		var mu sync.Mutex
		first := map[string][]int{}
		d := outbox.DispatcherFunc(func(_ context.Context, m outbox.DispatchedMessage) error {
			mu.Lock()
			defer mu.Unlock()
			var n int
			if err := json.Unmarshal(m.Payload, &n); err != nil {
				t.Error(err)
			}
			id := fmt.Sprint(m.Meta.Key, n)
			// Every seventh message fails on its first try.
			if (n%7 == 3) && !failed[id] {
				failed[id] = true
				return errors.New("once")
			}
			first[m.Meta.Key] = append(first[m.Meta.Key], n)
			return nil
		})
		_, stop := start(t, store, d, Config{Batch: 16, Window: 64})
		defer stop()
		for n := range each {
			for k := range keys {
				enqueue(t, store, fmt.Sprint("k", k), n)
			}
		}
		pass(time.Hour)

		mu.Lock()
		defer mu.Unlock()
		for k := range keys {
			got := first[fmt.Sprint("k", k)]
			if len(got) != each || !slices.IsSorted(got) {
				t.Errorf("key %d was delivered as %v", k, got)
			}
		}
	})
}

// F-01: a transaction that commits late, below the reading position, is found.
func TestLateCommitsAreDeliveredWithinTwoPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := newStore(t, memstore.Config{}), &recorder{}
		_, stop := start(t, store, sink, Config{})
		defer stop()
		late := store.Begin()
		if _, err := store.Enqueue(t.Context(), late, outbox.Message{Topic: topic, Payload: json.RawMessage(`"late"`)}); err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			enqueue(t, store, "", i)
		}
		pass(10 * time.Second)
		if n := sink.count(); n != 20 {
			t.Fatalf("%d of 20 delivered beside an open transaction", n)
		}
		if err := late.Commit(); err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Second)
		if got := sink.payloads(); !slices.Contains(got, `"late"`) {
			t.Fatalf("the late commit was not delivered: %v", got)
		}
	})
}

// Torture, PostgreSQL, calm, seed 701: large transactions that are rolled back leave many
// numbers behind, and a smaller one that is still open must not be forgotten among them.
func TestALateCommitBehindManyRollbacksKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := newStore(t, memstore.Config{}), &recorder{}
		_, stop := start(t, store, sink, Config{})
		defer stop()
		late := store.Begin()
		if _, err := store.Enqueue(t.Context(), late, outbox.Message{Topic: topic, Key: "k", Payload: json.RawMessage(`"first"`)}); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			large := store.Begin()
			for range 1000 {
				if _, err := store.Enqueue(t.Context(), large, outbox.Message{Topic: topic, Payload: json.RawMessage(`0`)}); err != nil {
					t.Fatal(err)
				}
			}
			if err := large.Rollback(); err != nil {
				t.Fatal(err)
			}
			enqueue(t, store, "", "between")
			pass(10 * time.Millisecond)
		}
		if err := late.Commit(); err != nil {
			t.Fatal(err)
		}
		enqueue(t, store, "k", "second")
		pass(time.Minute)
		got := slices.DeleteFunc(sink.payloads(), func(p string) bool { return p == `"between"` })
		if !slices.Equal(got, []string{`"first"`, `"second"`}) {
			t.Errorf("delivered in the order %v", got)
		}
	})
}

// Even when every gap has been given up, the sweep finds what committed.
func TestTheSweepFindsWhatTheGapsForgot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := newStore(t, memstore.Config{}), &recorder{}
		_, stop := start(t, store, sink, Config{})
		defer stop()
		late := store.Begin()
		for range maxGapIDs + 100 { // more than the gaps remember
			if _, err := store.Enqueue(t.Context(), late, outbox.Message{Topic: topic, Payload: json.RawMessage(`"late"`)}); err != nil {
				t.Fatal(err)
			}
		}
		enqueue(t, store, "", "after")
		pass(time.Minute)
		if err := late.Commit(); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if n := sink.count(); n != maxGapIDs+101 {
			t.Fatalf("%d of %d delivered", n, maxGapIDs+101)
		}
	})
}

func TestADeadHeadBlocksItsKeyUntilItIsReplayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := newStore(t, memstore.Config{}), &recorder{}
		sink.answers(func(m outbox.DispatchedMessage) error {
			if string(m.Payload) == "0" {
				return outbox.Permanent(errors.New("never"))
			}
			return nil
		})
		_, stop := start(t, store, sink, Config{})
		defer stop()
		head := enqueue(t, store, "k", 0)
		for i := 1; i <= 3; i++ {
			enqueue(t, store, "k", i)
		}
		enqueue(t, store, "other", "x")
		pass(time.Hour)
		if got := sink.payloads(); !slices.Equal(got, []string{"0", `"x"`}) && !slices.Equal(got, []string{`"x"`, "0"}) {
			t.Fatalf("behind a dead head %v was dispatched", got)
		}

		sink.answers(nil)
		if _, err := store.Apply(t.Context(), outbox.Action{Verb: outbox.VerbReplay, EventID: head, Actor: "t", Reason: "fixed"}); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if got := sink.payloads()[2:]; !slices.Equal(got, []string{"0", "1", "2", "3"}) {
			t.Fatalf("after the replay %v was dispatched", got)
		}
	})
}

func TestADeadHeadIsSkippedWhenAskedTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, memstore.Config{})
		sink := &recorder{answer: func(m outbox.DispatchedMessage) error {
			if string(m.Payload) == "0" {
				return outbox.Permanent(errors.New("never"))
			}
			return nil
		}}
		_, stop := start(t, store, sink, Config{OnDead: Skip})
		defer stop()
		for i := range 4 {
			enqueue(t, store, "k", i)
		}
		pass(time.Minute)
		if got := sink.payloads(); !slices.Equal(got, []string{"0", "1", "2", "3"}) {
			t.Fatalf("dispatched %v", got)
		}
	})
}

// A new owner knows which keys are held before it sends anything.
func TestATakeoverKeepsHeldKeysHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, memstore.Config{})
		fail := func(m outbox.DispatchedMessage) error {
			switch string(m.Payload) {
			case `"dead"`:
				return outbox.Permanent(errors.New("never"))
			case `"slow"`:
				return outbox.RetryAfter(errors.New("later"), time.Hour)
			}
			return nil
		}
		_, stop := start(t, store, &recorder{answer: fail}, Config{})
		enqueue(t, store, "a", "dead")
		enqueue(t, store, "b", "slow")
		pass(time.Second)
		stop()
		enqueue(t, store, "a", "a1")
		enqueue(t, store, "b", "b1")

		sink := &recorder{}
		_, stop = start(t, store, sink, Config{})
		defer stop()
		pass(time.Minute)
		if got := sink.payloads(); len(got) != 0 {
			t.Fatalf("dispatched %v although both keys are held", got)
		}
		pass(time.Hour)
		if got := sink.payloads(); !slices.Equal(got, []string{`"slow"`, `"b1"`}) {
			t.Fatalf("dispatched %v, want the head of b and then its follower", got)
		}
	})
}

func TestScheduledMessagesWaitForTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := newStore(t, memstore.Config{}), &recorder{}
		_, stop := start(t, store, sink, Config{})
		defer stop()
		at := time.Now().Add(36 * time.Hour)
		if _, err := store.EnqueueAutocommit(t.Context(), outbox.Message{Topic: topic, Payload: json.RawMessage(`1`), AvailableAt: at}); err != nil {
			t.Fatal(err)
		}
		pass(36*time.Hour - time.Second)
		if sink.count() != 0 {
			t.Fatal("dispatched before its time")
		}
		pass(3 * time.Second)
		if sink.count() != 1 {
			t.Fatal("not dispatched within two polls of its time")
		}
	})
}

// F-40: an outage costs no attempts, however long.
func TestAnOutageSpendsNoAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, memstore.Config{})
		sink := &recorder{answer: func(outbox.DispatchedMessage) error { return outbox.Unavailable(errors.New("refused")) }}
		_, stop := start(t, store, sink, Config{Poll: 30 * time.Second, Concurrency: 4, Retries: outbox.Retries{Default: outbox.RetryPolicy{MaxAttempts: 2}}})
		defer stop()
		var ids []uuid.UUID
		for i := range 40 {
			ids = append(ids, enqueue(t, store, fmt.Sprint(i%7), i))
		}
		pass(72 * time.Hour)
		probes := sink.count()
		if probes > 72*60+40 {
			t.Fatalf("%d dispatches during the outage, want about one a minute", probes)
		}
		for _, id := range ids {
			if rec := get(t, store, id); rec.Attempts != 0 || !rec.DeadAt.IsZero() {
				t.Fatalf("an outage left %+v", rec)
			}
		}
		sink.answers(nil)
		pass(3 * time.Minute)
		for _, id := range ids {
			if s := status(t, store, id); s != outbox.StatusPublished {
				t.Fatalf("three minutes after the outage a message is %s", s)
			}
		}
	})
}

func TestAMessageWithoutARouteIsDeadWithThatReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, memstore.Config{})
		sink := &recorder{answer: func(m outbox.DispatchedMessage) error {
			return outbox.ErrNoRoute.With("topic", "nobody takes "+m.Meta.Topic)
		}}
		_, stop := start(t, store, sink, Config{})
		defer stop()
		id := enqueue(t, store, "", 1)
		pass(time.Minute)
		if rec := get(t, store, id); rec.DeadReason != outbox.DeadNoRoute || sink.count() != 1 {
			t.Fatalf("the message is %s (%s) after %d dispatches", rec.Status(time.Now()), rec.DeadReason, sink.count())
		}
	})
}

func TestWakeDeliversAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := newStore(t, memstore.Config{}), &recorder{}
		r, stop := start(t, store, sink, Config{Poll: time.Hour})
		defer stop()
		pass(10 * time.Hour) // idle: the next look is an hour away
		enqueue(t, store, "", 1)
		r.Wake()
		synctest.Wait()
		if sink.count() != 1 {
			t.Fatal("not delivered although the relay was woken")
		}
	})
}

type batcher struct {
	recorder
	results func([]outbox.DispatchedMessage) []error
}

func (b *batcher) DispatchBatch(ctx context.Context, msgs []outbox.DispatchedMessage) []error {
	for _, m := range msgs {
		_ = b.Dispatch(ctx, m)
	}
	return b.results(msgs)
}

// F-33: only what was acknowledged is marked.
func TestABatchIsSettledMessageByMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, memstore.Config{})
		sink := &batcher{results: func(msgs []outbox.DispatchedMessage) []error {
			errs := make([]error, len(msgs))
			for i, m := range msgs {
				if m.Meta.Key == "bad" {
					errs[i] = outbox.Permanent(errors.New("no"))
				}
			}
			return errs
		}}
		_, stop := start(t, store, sink, Config{})
		defer stop()
		bad := enqueue(t, store, "bad", 1)
		good := enqueue(t, store, "", 2)
		pass(time.Minute)
		if status(t, store, bad) != outbox.StatusDead || status(t, store, good) != outbox.StatusPublished {
			t.Fatalf("bad is %s, good is %s", status(t, store, bad), status(t, store, good))
		}
	})
}

func TestAShortBatchResultFailsEveryMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, memstore.Config{})
		sink := &batcher{results: func([]outbox.DispatchedMessage) []error { return nil }}
		_, stop := start(t, store, sink, Config{})
		defer stop()
		id := enqueue(t, store, "", 1)
		pass(100 * time.Millisecond)
		if rec := get(t, store, id); rec.Attempts == 0 || !rec.PublishedAt.IsZero() {
			t.Fatalf("a message without a result is %+v", rec)
		}
	})
}
