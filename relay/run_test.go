package relay

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/store/memstore"
)

// G12, F-24, F-44: a stop lets dispatches finish, releases the rest without
// spending an attempt, and hands over at once.
func TestAStopFinishesWhatIsInFlightAndReleasesTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, memstore.Config{})
		entered := make(chan struct{}, 100)
		d := outbox.DispatcherFunc(func(context.Context, outbox.DispatchedMessage) error {
			entered <- struct{}{}
			<-time.After(5 * time.Second)
			return nil
		})
		var ids []uuid.UUID
		for i := range 10 {
			ids = append(ids, enqueue(t, store, "", i))
		}
		_, stop := start(t, store, d, Config{Concurrency: 3})
		for range 3 {
			<-entered
		}
		begin := time.Now()
		stop()
		if took := time.Since(begin); took > 6*time.Second {
			t.Errorf("the stop took %s", took)
		}
		published := 0
		for _, id := range ids {
			rec := get(t, store, id)
			switch rec.Status(time.Now()) {
			case outbox.StatusPublished:
				published++
			case outbox.StatusPending:
				if rec.Attempts != 0 || rec.Crashes != 0 {
					t.Errorf("a released message has %d attempts, %d crashes", rec.Attempts, rec.Crashes)
				}
			default:
				t.Errorf("a message is %s after the stop", rec.Status(time.Now()))
			}
		}
		if published != 3 {
			t.Errorf("%d published, want the 3 in flight", published)
		}
		if _, err := store.Acquire(t.Context(), outbox.LeaseRequest{Instance: "next", TTL: time.Second}); err != nil {
			t.Errorf("the lease was not handed over: %v", err)
		}
	})
}

// What a stop cuts short costs no attempt and no suspicion.
func TestADrainDeadlineReleasesStuckDispatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, memstore.Config{})
		stuck := outbox.DispatcherFunc(func(ctx context.Context, _ outbox.DispatchedMessage) error {
			<-ctx.Done()
			return ctx.Err()
		})
		id := enqueue(t, store, "k", 1)
		_, stop := start(t, store, stuck, Config{DispatchTimeout: time.Hour, DrainTimeout: 2 * time.Second})
		pass(time.Second)
		stop()
		if rec := get(t, store, id); rec.Attempts != 0 || rec.Status(time.Now()) != outbox.StatusPending {
			t.Fatalf("a dispatch cut short by the stop left %+v", rec)
		}
	})
}

// R-A49: of two relays on one table only one dispatches, and the other takes over.
func TestOneRelayIsActiveAndTheOtherTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, a, b := newStore(t, memstore.Config{}), &recorder{}, &recorder{}
		_, stopA := start(t, store, a, Config{})
		pass(time.Second)
		_, stopB := start(t, store, b, Config{})
		defer stopB()
		for i := range 50 {
			enqueue(t, store, "", i)
		}
		pass(time.Minute)
		if a.count() != 50 || b.count() != 0 {
			t.Fatalf("the active relay dispatched %d, the standby %d", a.count(), b.count())
		}
		stopA()
		enqueue(t, store, "", "x")
		pass(2 * time.Second) // two polls
		if b.count() != 1 {
			t.Fatal("the standby did not take over within two polls of a clean stop")
		}
	})
}

func TestShardsAreSharedAndOrderIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, memstore.Config{})
		var mu sync.Mutex
		got := map[string][]int{}
		by := map[string]map[int]bool{} // key → relays that delivered it
		relay := func(n int) outbox.Dispatcher {
			return outbox.DispatcherFunc(func(_ context.Context, m outbox.DispatchedMessage) error {
				var i int
				if err := json.Unmarshal(m.Payload, &i); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				got[m.Meta.Key] = append(got[m.Meta.Key], i)
				if by[m.Meta.Key] == nil {
					by[m.Meta.Key] = map[int]bool{}
				}
				by[m.Meta.Key][n] = true
				return nil
			})
		}
		cfg := Config{Shards: 8, Lease: 3 * time.Second}
		_, stopA := start(t, store, relay(0), cfg)
		pass(10 * time.Second)
		_, stopB := start(t, store, relay(1), cfg)
		pass(30 * time.Second)
		stats, err := store.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		holders := map[string]int{}
		for _, l := range stats.Leases {
			holders[l.Instance]++
		}
		if len(stats.Leases) != 8 || len(holders) != 2 {
			t.Fatalf("8 shards are held as %v", holders)
		}
		for _, n := range holders {
			if n != 4 {
				t.Fatalf("two relays hold %v shards, want 4 each", holders)
			}
		}
		for i := range 40 {
			for k := range 30 {
				enqueue(t, store, fmt.Sprint("k", k), i)
			}
		}
		pass(time.Minute)
		stopA()
		for k := range 30 {
			enqueue(t, store, fmt.Sprint("k", k), 40)
		}
		pass(30 * time.Second)
		stopB()
		mu.Lock()
		defer mu.Unlock()
		relays := map[int]int{}
		for k := range 30 {
			key := fmt.Sprint("k", k)
			if len(got[key]) != 41 {
				t.Fatalf("key %s got %d of 41", key, len(got[key]))
			}
			for i, n := range got[key] {
				if n != i {
					t.Fatalf("key %s was delivered as %v", key, got[key])
				}
			}
			for n := range by[key] {
				relays[n]++
			}
		}
		if len(relays) != 2 {
			t.Fatalf("only %v delivered", relays)
		}
	})
}

// F-59, F-11: an outage of the database is survived, and logged as one event.
func TestADatabaseOutageIsSurvivedQuietly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := newStore(t, memstore.Config{}), &recorder{}
		f := &faulty{Store: store}
		var log bytes.Buffer
		var mu sync.Mutex
		_, stop := start(t, f, sink, Config{Log: slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil))})
		defer stop()
		enqueue(t, store, "", 1)
		pass(10 * time.Second)
		f.down.Store(true)
		for i := range 20 {
			enqueue(t, store, "", i)
		}
		pass(10 * time.Minute)
		mu.Lock()
		lines := strings.Count(log.String(), "\n")
		mu.Unlock()
		if lines > 10 {
			t.Errorf("%d log lines for one outage:\n%s", lines, log.String())
		}
		f.down.Store(false)
		pass(30 * time.Second)
		if sink.count() != 21 {
			t.Fatalf("%d of 21 delivered after the outage", sink.count())
		}
	})
}

type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// A step whose answer was lost is sent again and counts once.
func TestALostAnswerCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, memstore.Config{})
		f := &lostAnswers{Store: store}
		sink := &recorder{answer: func(outbox.DispatchedMessage) error { return outbox.RetryAfter(errors.New("no"), time.Hour) }}
		_, stop := start(t, f, sink, Config{})
		defer stop()
		id := enqueue(t, store, "", 1)
		pass(time.Minute)
		if rec := get(t, store, id); rec.Attempts != 1 || sink.count() != 1 {
			t.Fatalf("one failure counted %d times after %d dispatches", rec.Attempts, sink.count())
		}
	})
}

// lostAnswers applies each step twice: the first answer is lost.
type lostAnswers struct{ outbox.Store }

func (f *lostAnswers) Acquire(ctx context.Context, req outbox.LeaseRequest) (outbox.Lease, error) {
	lease, err := f.Store.Acquire(ctx, req)
	return lostAnswersLease{lease}, err
}

type lostAnswersLease struct{ outbox.Lease }

func (l lostAnswersLease) Step(ctx context.Context, step outbox.Step) error {
	if err := l.Lease.Step(ctx, step); err != nil {
		return err
	}
	return l.Lease.Step(ctx, step)
}

// slowRenewals is a store whose renewals take a second and arrive at its end.
type slowRenewals struct{ outbox.Store }

func (f slowRenewals) Acquire(ctx context.Context, req outbox.LeaseRequest) (outbox.Lease, error) {
	lease, err := f.Store.Acquire(ctx, req)
	return slowRenewalsLease{lease}, err
}

type slowRenewalsLease struct{ outbox.Lease }

func (l slowRenewalsLease) Renew(ctx context.Context, r outbox.Renewal) (outbox.Renewed, error) {
	<-time.After(time.Second)
	return l.Lease.Renew(ctx, r)
}

func (l slowRenewalsLease) Release(ctx context.Context, low int64) error {
	err := l.Lease.Release(ctx, low)
	<-time.After(2 * time.Second) // for the answer
	return cmp.Or(err, ctx.Err())
}

// A stop says at once that the relay is stopping. If that arrived after the release, the
// lease would look lost, and a stop in order would look like a failure.
func TestAReleaseWaitsForTheRenewalThatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, memstore.Config{})
		enqueue(t, store, "", 1)
		r, err := New(slowRenewals{store}, &recorder{}, Config{})
		if err != nil {
			t.Fatal(err)
		}
		if n, err := r.PublishPending(t.Context()); n != 1 || err != nil {
			t.Errorf("published %d: %v", n, err)
		}
	})
}

func TestPublishPendingDrainsWhatIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := newStore(t, memstore.Config{Shards: 3}), &recorder{}
		sink.answers(func(m outbox.DispatchedMessage) error {
			if string(m.Payload) == "7" {
				return outbox.RetryAfter(errors.New("later"), time.Hour)
			}
			return nil
		})
		for i := range 1500 {
			enqueue(t, store, fmt.Sprint("k", i%400), i)
		}
		r, err := New(store, sink, Config{})
		if err != nil {
			t.Fatal(err)
		}
		n, err := r.PublishPending(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// Message 7 waits, and those of its key behind it.
		if want := 1500 - 4; n != want {
			t.Errorf("published %d, want %d", n, want)
		}
		if _, err := store.Acquire(t.Context(), outbox.LeaseRequest{Instance: "x", TTL: time.Minute}); err != nil {
			t.Errorf("the lease was kept: %v", err)
		}
		if _, err := r.PublishPending(t.Context()); !errors.Is(err, outbox.ErrLeaseHeld) {
			t.Errorf("with a shard held elsewhere PublishPending returned %v", err)
		}
	})
}

// 100,000 messages behind one dead key and a route that is down: the others flow
// and nothing piles up in memory.
func TestParkedMessagesNeitherBlockNorFillMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("100,000 messages")
	}
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, memstore.Config{Gate: outbox.Gate{Topics: outbox.AnyTopic}})
		const parked = 50_000
		post := func(topic, key, payload string) {
			if _, err := store.EnqueueAutocommit(t.Context(), outbox.Message{Topic: topic, Key: key, Payload: []byte(payload)}); err != nil {
				t.Fatal(err)
			}
		}
		post("up", "stuck", `"dead"`)
		for i := range parked {
			post("up", "stuck", `1`)
			post("down", fmt.Sprint(i), `1`)
		}
		for range 1000 {
			post("up", "", `"flow"`)
		}
		var up, down int
		var mu sync.Mutex
		isDown := true
		d := routed{DispatcherFunc: func(_ context.Context, m outbox.DispatchedMessage) error {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case string(m.Payload) == `"dead"`:
				return outbox.Permanent(errors.New("never"))
			case m.Meta.Topic == "down" && isDown:
				return outbox.Unavailable(errors.New("refused"))
			case m.Meta.Topic == "down":
				down++
			default:
				up++
			}
			return nil
		}}
		r, stop := start(t, store, d, Config{})
		defer stop()
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		pass(10 * time.Minute)
		runtime.GC()
		runtime.ReadMemStats(&after)
		mu.Lock()
		if up != 1000 || down != 0 {
			t.Errorf("delivered %d of 1000 free messages and %d of the blocked route", up, down)
		}
		isDown = false
		mu.Unlock()
		if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 8<<20 {
			t.Errorf("the heap grew by %d bytes with %d messages parked", grown, 2*parked)
		}
		r.mu.Lock()
		s := r.shifts[0]
		r.mu.Unlock()
		s.mu.Lock()
		owned := s.ledger.owned
		s.mu.Unlock()
		if owned > r.cfg.Window {
			t.Errorf("%d messages in memory, the window is %d", owned, r.cfg.Window)
		}
		pass(10 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if down != parked {
			t.Errorf("%d of %d delivered when the route was back", down, parked)
		}
	})
}

type routed struct{ outbox.DispatcherFunc }

func (routed) Route(topic string) string { return topic }

// S-6: a row that nobody can read as a message is dead and does not stop the rest.
func TestOversizedRowsAreDeadAndTheRestGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := newStore(t, memstore.Config{}), &recorder{}
		_, stop := start(t, store, sink, Config{MaxPayload: 10})
		defer stop()
		big := enqueue(t, store, "", strings.Repeat("x", 100))
		enqueue(t, store, "", 1)
		pass(time.Minute)
		if rec := get(t, store, big); rec.DeadReason != outbox.DeadSize || sink.count() != 1 {
			t.Fatalf("the large row is %s (%s), %d dispatched", rec.Status(time.Now()), rec.DeadReason, sink.count())
		}
	})
}

func TestGoexitInADispatcherIsAFailedAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, memstore.Config{})
		d := outbox.DispatcherFunc(func(_ context.Context, m outbox.DispatchedMessage) error {
			if string(m.Payload) == "0" {
				runtime.Goexit()
			}
			return nil
		})
		_, stop := start(t, store, d, Config{Concurrency: 1, Retries: outbox.Retries{Default: outbox.RetryPolicy{MaxAttempts: 2}}})
		defer stop()
		bad := enqueue(t, store, "", 0)
		good := enqueue(t, store, "", 1)
		pass(time.Minute)
		if status(t, store, bad) != outbox.StatusDead || status(t, store, good) != outbox.StatusPublished {
			t.Fatalf("bad is %s, good is %s", status(t, store, bad), status(t, store, good))
		}
	})
}

func TestNewReportsEveryMistakeAtOnce(t *testing.T) {
	_, err := New(newStore(t, memstore.Config{}), &recorder{}, Config{Lease: -time.Second, Batch: -1, Shards: 1000})
	if !errors.Is(err, outbox.ErrInvalidConfig) {
		t.Fatalf("got %v", err)
	}
	for _, field := range []string{"lease", "batch", "shards"} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("%q does not name %s", err, field)
		}
	}
}

// A stop that comes while the relay takes over still gives the lease back.
func TestAStopDuringATakeoverGivesTheLeaseBack(t *testing.T) {
	for _, op := range []string{"acquire", "recover", "heads", "read"} {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newStore(t, memstore.Config{})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				f := &faulty{Store: store, before: func(at string) error {
					if at == op {
						cancel()
					}
					return nil
				}}
				r, err := New(f, &recorder{}, Config{})
				if err != nil {
					t.Fatal(err)
				}
				if err := r.Run(ctx); err != nil {
					t.Errorf("Run returned %v", err)
				}
				if _, err := store.Acquire(t.Context(), outbox.LeaseRequest{Instance: "next", TTL: time.Second}); err != nil {
					t.Errorf("the lease was kept: %v", err)
				}
				pass(time.Minute)
			})
		})
	}
}
