package relay

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/store/memstore"
)

var (
	seeds    = flag.Int("seeds", 25, "how many random schedules to try")
	fromSeed = flag.Uint64("seed", 1, "the first random schedule")
)

// A schedule is one random history: producers whose transactions overlap, roll back
// and commit late, relays that are stopped and killed, and a destination that fails,
// is down and refuses. At the end nothing may be lost, nothing rolled back delivered,
// and no message of a key delivered before one that was committed before it began.
type schedule struct {
	t     *testing.T
	rand  *rand.Rand
	store *memstore.Store

	mu        sync.Mutex
	tick      int // orders begins, commits and first deliveries
	events    map[uuid.UUID]*event
	downUntil time.Time
}

type event struct {
	key                     string
	seq                     int64
	began, committed, first int
	rolledBack              bool
	tries                   int
	fails                   int
}

func TestRandomSchedulesKeepTheGuarantees(t *testing.T) {
	for seed := *fromSeed; seed < *fromSeed+uint64(*seeds); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 1))
				shards := 1
				if r.IntN(3) == 0 {
					shards = 4
				}
				s := &schedule{
					t: t, rand: r, events: map[uuid.UUID]*event{},
					store: newStore(t, memstore.Config{Shards: shards, Gapless: r.IntN(4) == 0}),
				}
				s.run()
				s.check()
			})
		})
	}
}

func (s *schedule) run() {
	var producers sync.WaitGroup
	for range 1 + s.rand.IntN(6) {
		r := rand.New(rand.NewPCG(s.rand.Uint64(), 2))
		producers.Go(func() { s.produce(r) })
	}
	relays := 1 + s.rand.IntN(2)
	var group sync.WaitGroup
	for range relays {
		r := rand.New(rand.NewPCG(s.rand.Uint64(), 3))
		group.Go(func() { s.relay(r) })
	}
	producers.Wait()
	group.Wait()
	// A last relay in good health, in a good world, finishes.
	s.mu.Lock()
	for _, e := range s.events {
		e.fails = 0
	}
	s.downUntil = time.Time{}
	s.mu.Unlock()
	p := newProcess(s.store)
	p.live(s.t, outbox.DispatcherFunc(s.dispatch), s.config(s.rand), 10*time.Minute)
}

func (s *schedule) config(r *rand.Rand) Config {
	return Config{
		Batch: 1 + r.IntN(20), Window: 20 + r.IntN(60), Concurrency: 1 + r.IntN(8), Lease: 2 * time.Second,
		DrainTimeout: time.Second, OnDead: Skip, DeleteOnPublish: false,
		Retries: outbox.Retries{Default: outbox.RetryPolicy{MaxAttempts: 50, Max: 2 * time.Second}, Random: func() float64 { return 0.5 }},
	}
}

// produce runs transactions of random size and length.
func (s *schedule) produce(r *rand.Rand) {
	for range 40 {
		<-time.After(time.Duration(r.IntN(300)) * time.Millisecond)
		tx := s.store.Begin()
		var ids []uuid.UUID
		for range 1 + r.IntN(4) {
			id, key := uuid.New(), ""
			if r.IntN(4) > 0 {
				key = fmt.Sprint("k", r.IntN(5))
			}
			e := &event{key: key}
			switch r.IntN(20) {
			case 0:
				e.fails = 1 + r.IntN(3)
			case 1:
				e.fails = -1 // once unavailable
			}
			s.mu.Lock()
			s.tick++
			e.began = s.tick
			s.events[id] = e
			s.mu.Unlock()
			seq, err := s.store.Enqueue(s.t.Context(), tx, outbox.Message{Topic: topic, Key: key, EventID: id, Payload: []byte(`1`)})
			if err != nil {
				s.t.Error(err)
			}
			e.seq = seq
			ids = append(ids, id)
			if r.IntN(5) == 0 {
				<-time.After(time.Duration(r.IntN(2000)) * time.Millisecond)
			}
		}
		s.end(tx, ids, r.IntN(8) == 0)
	}
}

func (s *schedule) end(tx *memstore.Tx, ids []uuid.UUID, rollback bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	end := tx.Commit
	if rollback {
		end = tx.Rollback
	}
	if err := end(); err != nil {
		s.t.Error(err)
	}
	s.tick++
	for _, id := range ids {
		if s.events[id].rolledBack = rollback; !rollback {
			s.events[id].committed = s.tick
		}
	}
}

// relay runs relays one after the other; most are stopped, some killed.
func (s *schedule) relay(r *rand.Rand) {
	for range 8 {
		p := newProcess(s.store)
		life := time.Duration(500+r.IntN(6000)) * time.Millisecond
		if r.IntN(3) == 0 {
			time.AfterFunc(life, p.die)
			life = time.Hour
		}
		if r.IntN(4) == 0 {
			s.mu.Lock()
			s.downUntil = time.Now().Add(time.Duration(r.IntN(4000)) * time.Millisecond)
			s.mu.Unlock()
		}
		delay := time.Duration(r.IntN(20)) * time.Millisecond
		p.live(s.t, outbox.DispatcherFunc(func(ctx context.Context, m outbox.DispatchedMessage) error {
			<-time.After(delay)
			if p.store.down.Load() {
				<-ctx.Done()
				return ctx.Err()
			}
			return s.dispatch(ctx, m)
		}), s.config(r), life)
	}
}

func (s *schedule) dispatch(_ context.Context, m outbox.DispatchedMessage) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.events[m.Meta.EventID]
	switch {
	case e.committed == 0:
		s.t.Errorf("message %d was dispatched before it was committed", m.Meta.Sequence)
	case e.rolledBack:
		s.t.Errorf("message %d was dispatched although it was rolled back", m.Meta.Sequence)
	}
	if time.Now().Before(s.downUntil) {
		return outbox.Unavailable(errors.New("down"))
	}
	if e.fails < 0 {
		e.fails = 0
		return outbox.Unavailable(errors.New("down for this one"))
	}
	if e.fails > 0 {
		e.fails--
		return errors.New("no")
	}
	e.tries++
	if e.first == 0 {
		s.tick++
		e.first = s.tick
		s.inOrder(e)
	}
	return nil
}

// inOrder checks that nothing of the key that was committed before e began is still
// undelivered.
func (s *schedule) inOrder(e *event) {
	if e.key == "" {
		return
	}
	for _, other := range s.events {
		if other.key == e.key && other.first == 0 && other.committed > 0 && other.committed < e.began {
			s.t.Errorf("message %d of %s was delivered before %d, which was committed before it began", e.seq, e.key, other.seq)
		}
	}
}

func (s *schedule) check() {
	s.mu.Lock()
	defer s.mu.Unlock()
	crashed := 0
	for id, e := range s.events {
		if e.rolledBack {
			continue
		}
		rec := get(s.t, s.store, id)
		switch {
		case rec.DeadReason == outbox.DeadCrash:
			crashed++ // killed three times in the wrong moment, and visible
		case e.first == 0:
			s.t.Errorf("message %d of %q was lost: %s", e.seq, e.key, rec.Status(time.Now()))
		case rec.PublishedAt.IsZero():
			s.t.Errorf("message %d was delivered but is %s", e.seq, rec.Status(time.Now()))
		}
	}
	if crashed > 2 {
		s.t.Errorf("%d messages were taken for poison", crashed)
	}
}
