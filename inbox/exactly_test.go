package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// 20 % of the deliveries are duplicates, many of them at the same time as the first, and
// one handler in ten crashes. Meanwhile old marks are cleaned. OUTBOX_SOAK=1 makes it
// 100,000 deliveries.
func TestEffectsHappenOnceUnderDuplicatesAndCrashes(t *testing.T) {
	total := 5_000
	if os.Getenv("OUTBOX_SOAK") != "" {
		total = 100_000
	}
	if testing.Short() {
		total = 1_000
	}
	each(t, func(t *testing.T, f fixture) {
		const consumers = 8
		q := newQueue(total)
		old := f.markOld(t, total/5)
		began := time.Now()
		var wg sync.WaitGroup
		tallies := make([]tally, consumers)
		for i := range consumers {
			wg.Go(func() { tallies[i] = consume(t.Context(), f, q, uint64(i)) })
		}
		cleaned, err := f.box.Clean(t.Context(), 30*time.Minute)
		if err != nil || cleaned != int64(old) {
			t.Errorf("%d of %d old marks were cleaned: %v", cleaned, old, err)
		}
		wg.Wait()
		took := time.Since(began)

		var sum tally
		for _, c := range tallies {
			sum.add(c)
		}
		for _, err := range sum.failed {
			t.Errorf("the database refused a delivery: %v", err)
		}
		events := q.events
		if n := f.count(t, `SELECT COUNT(*) FROM effect`); n != events {
			t.Errorf("%d effects of %d events", n, events)
		}
		if n := f.count(t, `SELECT COUNT(DISTINCT event_id) FROM effect`); n != events {
			t.Errorf("%d of %d events had an effect", n, events)
		}
		if n := f.count(t, `SELECT COUNT(*) FROM inbox`); n != events {
			t.Errorf("%d marks of %d events", n, events)
		}
		t.Logf("%d deliveries of %d events, %d duplicates skipped, %d crashes redelivered, in %s: %.0f/s",
			total, events, sum.skipped, sum.crashed, took.Round(time.Millisecond), float64(total)/took.Seconds())
	})
}

// markOld leaves marks that are an hour old.
func (f fixture) markOld(t *testing.T, n int) int {
	t.Helper()
	w := f.mustBegin(t)
	marked, err := w.many(t.Context(), "earlier", newQueue(n).list, func([]uuid.UUID) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := w.commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.must(t, f.age)
	return marked
}

// A tally is what one consumer saw.
type tally struct {
	skipped, crashed int
	failed           []error
}

func (t *tally) add(o tally) {
	t.skipped += o.skipped
	t.crashed += o.crashed
	t.failed = append(t.failed, o.failed...)
}

// consume takes deliveries until there are none, now one and now several. What crashes is
// delivered again, as a broker does.
func consume(ctx context.Context, f fixture, q *queue, seed uint64) (sum tally) {
	random := rand.New(rand.NewPCG(seed, 1))
	for {
		n := 1
		if random.IntN(8) == 0 {
			n = 20
		}
		events := q.take(n)
		if len(events) == 0 {
			return sum
		}
		fresh, err := handle(ctx, f, events, crashes[random.IntN(len(crashes))])
		switch {
		case errors.Is(err, errCrash):
			sum.crashed += len(events)
			q.giveBack(events)
		case err != nil:
			sum.failed = append(sum.failed, err)
			if len(sum.failed) > 10 {
				return sum // enough to see
			}
			q.giveBack(events)
		default:
			sum.skipped += len(events) - fresh
		}
	}
}

var errCrash = errors.New("crash")

// crashes are what becomes of a handler; most are well.
var crashes = func() []string {
	list := make([]string, 40)
	copy(list, []string{"error", "panic", "panic before", "rollback"})
	return list
}()

// handle is one delivery of one or several events. It returns how many had an effect.
func handle(ctx context.Context, f fixture, events []uuid.UUID, crash string) (fresh int, err error) {
	w, err := f.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer func() {
		if r := recover(); r != nil {
			fresh, err = 0, fmt.Errorf("%w: %v", errCrash, r)
		}
		_ = w.rollback(ctx)
	}()
	if crash == "panic before" {
		panic(crash)
	}
	effects := func(fresh []uuid.UUID) error {
		for _, event := range fresh {
			if err := w.exec(ctx, effect(event)); err != nil {
				return err
			}
		}
		switch crash {
		case "error":
			return errCrash
		case "panic":
			panic(crash)
		}
		return nil
	}
	if len(events) == 1 {
		ran, err := w.once(ctx, "billing", events[0], func() error { return effects(events) })
		if err != nil {
			return 0, err
		}
		if ran {
			fresh = 1
		}
	} else if fresh, err = w.many(ctx, "billing", events, effects); err != nil {
		return 0, err
	}
	if crash == "rollback" {
		return 0, errCrash
	}
	return fresh, w.commit(ctx)
}

// A queue holds deliveries.
type queue struct {
	mu     sync.Mutex
	list   []uuid.UUID
	events int
}

// newQueue makes deliveries of which a fifth are duplicates, half of these right behind
// the first delivery and half anywhere.
func newQueue(deliveries int) *queue {
	q := &queue{events: deliveries - deliveries/5}
	random := rand.New(rand.NewPCG(1, 2))
	near := deliveries / 10
	for i := range q.events {
		event := uuid.New()
		q.list = append(q.list, event)
		if i < near {
			q.list = append(q.list, event)
		}
	}
	for len(q.list) < deliveries {
		at := random.IntN(len(q.list))
		q.list = slices.Insert(q.list, random.IntN(len(q.list)), q.list[at])
	}
	return q
}

func (q *queue) take(n int) []uuid.UUID {
	q.mu.Lock()
	defer q.mu.Unlock()
	n = min(n, len(q.list))
	taken := q.list[len(q.list)-n:]
	q.list = q.list[: len(q.list)-n : len(q.list)-n]
	return taken
}

func (q *queue) giveBack(events []uuid.UUID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.list = append(q.list, events...)
}
