package relay

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/store/memstore"
)

// R-A48: the cleaner deletes what was published longer ago than the retention, dead
// messages only when a dead retention is set and from the moment they died, and
// never anything pending.
func TestTheCleanerTouchesOnlyWhatItShould(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, memstore.Config{})
		sink := &recorder{answer: func(m outbox.DispatchedMessage) error {
			switch string(m.Payload) {
			case `"dead"`:
				return outbox.Permanent(errors.New("never"))
			case `"retry"`:
				return outbox.RetryAfter(errors.New("later"), 1000*time.Hour)
			}
			return nil
		}}
		_, stop := start(t, store, sink, Config{Poll: time.Hour})
		defer stop()
		old, dead, retrying := enqueue(t, store, "", "old"), enqueue(t, store, "", "dead"), enqueue(t, store, "", "retry")
		pass(100 * time.Hour)
		recent := enqueue(t, store, "", "recent")
		pass(2 * time.Hour)

		clean(t, store, CleanerConfig{Retention: 48 * time.Hour}, outbox.PurgeResult{Published: 1})
		wantGone(t, store, old)
		wantStatus(t, store, map[uuid.UUID]outbox.Status{
			dead: outbox.StatusDead, retrying: outbox.StatusRetrying, recent: outbox.StatusPublished,
		})

		clean(t, store, CleanerConfig{Retention: 48 * time.Hour, DeadRetention: 200 * time.Hour}, outbox.PurgeResult{})
		clean(t, store, CleanerConfig{Retention: 48 * time.Hour, DeadRetention: 90 * time.Hour}, outbox.PurgeResult{Dead: 1})
		wantGone(t, store, dead)
		wantStatus(t, store, map[uuid.UUID]outbox.Status{retrying: outbox.StatusRetrying, recent: outbox.StatusPublished})
	})
}

func clean(t *testing.T, store outbox.Store, cfg CleanerConfig, want outbox.PurgeResult) {
	t.Helper()
	c, err := NewCleaner(store, cfg)
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Clean(t.Context())
	if err != nil || got.Published != want.Published || got.Dead != want.Dead {
		t.Fatalf("cleaned %+v (%v), want %+v", got, err, want)
	}
}

func wantGone(t *testing.T, s outbox.Inspector, id uuid.UUID) {
	t.Helper()
	if _, err := s.Get(t.Context(), id); !errors.Is(err, outbox.ErrNotFound) {
		t.Errorf("the message is still there (%v)", err)
	}
}

func wantStatus(t *testing.T, s outbox.Inspector, want map[uuid.UUID]outbox.Status) {
	t.Helper()
	for id, status := range want {
		if got := get(t, s, id).Status(time.Now()); got != status {
			t.Errorf("a message is %s, want %s", got, status)
		}
	}
}

func TestTheCleanerWorksInBoundedBatchesAndOnlyAsLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, memstore.Config{})
		r, stop := start(t, store, &recorder{}, Config{})
		defer stop()
		for i := range 25 {
			enqueue(t, store, "", i)
		}
		pass(time.Hour)
		var purges []int
		var leader atomic.Bool
		c, err := NewCleaner(store, CleanerConfig{
			Retention: time.Minute, Interval: time.Minute, Batch: 10, Leader: func() bool { return leader.Load() && r.Leading() },
			Hooks: Hooks{Purged: func(_ string, res outbox.PurgeResult) { purges = append(purges, res.Published) }},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		pass(10 * time.Minute)
		if len(purges) != 0 {
			t.Errorf("purged %v without being the leader", purges)
		}
		leader.Store(true)
		pass(10 * time.Minute)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if len(purges) != 3 || purges[0] != 10 || purges[1] != 10 || purges[2] != 5 {
			t.Errorf("purged in batches of %v, want 10, 10, 5", purges)
		}
	})
}

func TestCleanerRefusesBadSettings(t *testing.T) {
	store := newStore(t, memstore.Config{})
	for _, cfg := range []CleanerConfig{{Retention: -1}, {DeadRetention: -1}, {Interval: -1}, {Batch: -1}} {
		if _, err := NewCleaner(store, cfg); !errors.Is(err, outbox.ErrInvalidConfig) {
			t.Errorf("%+v was accepted (%v)", cfg, err)
		}
	}
}

// One task that fails does not stop the others, and is started again.
func TestTheSchedulerKeepsTasksApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewScheduler(SchedulerConfig{Restart: time.Second})
		steady, tries := 0, 0
		must(t, s.Add("steady", func(ctx context.Context) error {
			for pause(ctx, time.Second) {
				steady++
			}
			return nil
		}))
		must(t, s.Add("failing", func(context.Context) error { tries++; return errors.New("no") }))
		must(t, s.Add("panicking", func(context.Context) error { panic("no") }))
		if s.IsRunning() {
			t.Error("running before Start")
		}
		must(t, s.Start(t.Context()))
		if err := s.Start(t.Context()); !errors.Is(err, ErrSchedulerRunning) {
			t.Errorf("a second Start returned %v", err)
		}
		pass(10*time.Second + time.Millisecond)
		if steady != 10 || tries < 9 || !s.IsRunning() || len(s.Failed()) != 2 {
			t.Errorf("steady ran %d times, failing was tried %d times, failed: %v", steady, tries, s.Failed())
		}
		must(t, s.Stop(t.Context()))
		if s.IsRunning() {
			t.Error("running after Stop")
		}
		must(t, s.Start(t.Context())) // a stopped scheduler may be started again
		must(t, s.Stop(t.Context()))
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
