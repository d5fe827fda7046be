package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/store/memstore"
)

// A process is a relay that can be killed: its store stops answering and whatever
// it was doing is never heard of again.
type process struct {
	store *faulty
	dead  chan struct{}
	die   func()
}

func newProcess(store outbox.Store) *process {
	p := &process{store: &faulty{Store: store}, dead: make(chan struct{})}
	p.die = sync.OnceFunc(func() {
		p.store.down.Store(true)
		close(p.dead)
	})
	return p
}

// live runs the process until it dies or the time is over, and reports whether it
// died.
func (p *process) live(t *testing.T, d outbox.Dispatcher, cfg Config, limit time.Duration) bool {
	t.Helper()
	cfg.Instance = uuid.NewString()
	r, err := New(p.store, d, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() { _ = r.Run(ctx); close(done) }()
	died := false
	select {
	case <-p.dead:
		died = true
	case <-time.After(limit):
	}
	cancel()
	<-done
	return died
}

// F-22: a message that ends its process is dead after at most three processes, and
// nobody else is, even with a single attempt.
func TestAMessageThatEndsItsProcessIsIsolated(t *testing.T) {
	t.Run("its successor recovers", func(t *testing.T) { testIsolation(t, func(*testing.T, outbox.Store) {}) })
	t.Run("its successor is killed before it has written the verdict", func(t *testing.T) {
		testIsolation(t, func(t *testing.T, store outbox.Store) {
			p := newProcess(store)
			p.store.before = func(op string) error {
				if op != "step" {
					return nil
				}
				p.die()
				return errDown
			}
			p.live(t, &recorder{}, Config{Lease: 3 * time.Second}, time.Minute)
		})
	})
}

func testIsolation(t *testing.T, afterDeath func(*testing.T, outbox.Store)) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := newStore(t, memstore.Config{}), &recorder{}
		var ids []uuid.UUID
		var poison uuid.UUID
		for i := range 300 {
			id := enqueue(t, store, fmt.Sprint("k", i%20), i)
			if i == 150 {
				poison = id
			}
			ids = append(ids, id)
		}
		cfg := Config{
			Retries: outbox.Retries{Default: outbox.RetryPolicy{MaxAttempts: 1}}, OnDead: Skip,
			DrainTimeout: time.Millisecond, Lease: 3 * time.Second,
		}
		deaths := 0
		for range 10 {
			p := newProcess(store)
			died := p.live(t, outbox.DispatcherFunc(func(ctx context.Context, m outbox.DispatchedMessage) error {
				if m.Meta.EventID == poison {
					p.die()
					<-ctx.Done()
					return errors.New("never heard of")
				}
				return sink.Dispatch(ctx, m)
			}), cfg, time.Minute)
			if !died {
				break
			}
			deaths++
			afterDeath(t, store)
		}
		if deaths == 0 || deaths > 3 {
			t.Fatalf("the poison message cost %d processes, want 1 to 3", deaths)
		}
		for _, id := range ids {
			rec := get(t, store, id)
			switch {
			case id == poison:
				if rec.DeadReason != outbox.DeadCrash {
					t.Errorf("the poison message is %s (%s)", rec.Status(time.Now()), rec.DeadReason)
				}
			case rec.Status(time.Now()) != outbox.StatusPublished:
				t.Errorf("an innocent message is %s (%s, attempts %d)", rec.Status(time.Now()), rec.DeadReason, rec.Attempts)
			}
		}
	})
}

// A storm of kills that no message causes kills no message: a dispatch that lived for
// a second alone says so, and losing it then is an ordinary failure.
func TestKillsByOthersNeverKillAMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := newStore(t, memstore.Config{}), &recorder{}
		var ids []uuid.UUID
		for i := range 60 {
			ids = append(ids, enqueue(t, store, fmt.Sprint("k", i%10), i))
		}
		cfg := Config{DrainTimeout: time.Millisecond, Lease: 2 * time.Second, Concurrency: 4, DispatchTimeout: time.Minute}
		for range 12 {
			p := newProcess(store)
			var n atomic.Int64
			p.live(t, outbox.DispatcherFunc(func(ctx context.Context, m outbox.DispatchedMessage) error {
				<-time.After(1200 * time.Millisecond)
				if n.Add(1) == 3 {
					p.die()
				}
				return sink.Dispatch(ctx, m)
			}), cfg, time.Hour)
			pass(cfg.Lease)
		}
		p := newProcess(store)
		p.live(t, sink, cfg, time.Hour)
		for _, id := range ids {
			if rec := get(t, store, id); rec.Status(time.Now()) != outbox.StatusPublished {
				t.Errorf("message %d is %s (%s, attempts %d)", rec.Sequence, rec.Status(time.Now()), rec.DeadReason, rec.Attempts)
			}
		}
	})
}

func TestAKilledRelayIsTakenOverAndOrderIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, memstore.Config{})
		var mu sync.Mutex
		first := map[string][]string{}
		seen := map[string]bool{}
		var ids []uuid.UUID
		for i := range 400 {
			ids = append(ids, enqueue(t, store, fmt.Sprint("k", i%8), i))
		}
		// Every second process is killed; those between finish what it left.
		for round := range 8 {
			p := newProcess(store)
			kill, limit := round%2 == 0, 250*time.Millisecond
			if round == 7 {
				limit = time.Minute
			}
			var n atomic.Int64
			p.live(t, outbox.DispatcherFunc(func(ctx context.Context, m outbox.DispatchedMessage) error {
				<-time.After(5 * time.Millisecond)
				mu.Lock()
				if id := m.Meta.EventID.String(); !seen[id] {
					seen[id] = true
					first[m.Meta.Key] = append(first[m.Meta.Key], fmt.Sprintf("%09d", m.Meta.Sequence))
				}
				mu.Unlock()
				if n.Add(1) == 60 && kill {
					p.die()
				}
				return nil
			}), Config{Lease: 2 * time.Second, Batch: 32, Window: 64}, limit)
			pass(2 * time.Second)
		}
		for _, id := range ids {
			if s := status(t, store, id); s != outbox.StatusPublished {
				t.Fatalf("a message is %s", s)
			}
		}
		for key, got := range first {
			if !slices.IsSorted(got) {
				t.Errorf("key %s was first delivered as %v", key, got)
			}
		}
	})
}

func TestALeaseThatIsGivenBackIsTakenWithinHalfASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := newStore(t, memstore.Config{}), &recorder{}
		_, stopFirst := start(t, store, sink, Config{Instance: "first"})
		pass(time.Minute)
		_, stopSecond := start(t, store, sink, Config{Instance: "second"})
		defer stopSecond()
		pass(time.Minute)
		stopFirst()
		stopped := time.Now()
		for !held(t, store, "second") {
			pass(time.Millisecond)
		}
		if took := time.Since(stopped); took > 500*time.Millisecond {
			t.Errorf("nobody held the lease for %s", took)
		}
	})
}

func held(t *testing.T, store outbox.Inspector, by string) bool {
	t.Helper()
	stats, err := store.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return len(stats.Leases) == 1 && stats.Leases[0].Instance == by && stats.Leases[0].Held
}

// Torture, PostgreSQL, seed 1002: an operator ended a lease while a message was being
// dispatched. It was cut short, and the next of its key was sent with the context that had
// just ended.
func TestNothingFollowsAMessageThatIsCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, d := range map[string]func(*cutter) outbox.Dispatcher{
			"one by one": func(c *cutter) outbox.Dispatcher { return outbox.DispatcherFunc(c.Dispatch) },
			"batches":    func(c *cutter) outbox.Dispatcher { return c },
		} {
			store, c := newStore(t, memstore.Config{}), &cutter{}
			f := &faulty{Store: store}
			_, stop := start(t, f, d(c), Config{Lease: 3 * time.Second})
			for n := range 3 {
				enqueue(t, store, "k", n)
			}
			pass(time.Second)
			f.down.Store(true) // until the lease has expired
			pass(time.Minute)
			f.down.Store(false)
			pass(time.Minute)
			stop()
			if got := c.payloads(); !slices.Equal(got, []string{"0", "0", "1", "2"}) {
				t.Errorf("%s: dispatched %v", name, got)
			}
		}
	})
}

// A cutter hangs on the first message until it is cut short, and takes everything else.
type cutter struct {
	recorder
	hung atomic.Bool
}

func (c *cutter) Dispatch(ctx context.Context, m outbox.DispatchedMessage) error {
	err := c.recorder.Dispatch(ctx, m)
	if c.hung.CompareAndSwap(false, true) {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (c *cutter) DispatchBatch(ctx context.Context, msgs []outbox.DispatchedMessage) []error {
	errs := make([]error, len(msgs))
	for i, m := range msgs {
		errs[i] = c.Dispatch(ctx, m)
	}
	return errs
}

// F-13: what a relay that lost its lease finds out is discarded.
func TestALostLeaseDiscardsOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, memstore.Config{})
		release := make(chan struct{})
		f := &faulty{Store: store}
		slow := outbox.DispatcherFunc(func(context.Context, outbox.DispatchedMessage) error {
			<-release // ignores its context, as a bad handler does
			return outbox.Permanent(errors.New("too late to say so"))
		})
		_, stop := start(t, f, slow, Config{Lease: 3 * time.Second, DrainTimeout: time.Second})
		id := enqueue(t, store, "", 1)
		pass(time.Second)
		f.down.Store(true) // cut off from the database
		pass(time.Minute)

		sink := &recorder{}
		_, stop2 := start(t, store, sink, Config{Lease: 3 * time.Second})
		pass(time.Minute)
		close(release)
		f.down.Store(false)
		pass(time.Minute)
		if s := status(t, store, id); s != outbox.StatusPublished || sink.count() != 1 {
			t.Fatalf("the message is %s after %d deliveries by the new owner", s, sink.count())
		}
		stop2()
		stop()
	})
}
