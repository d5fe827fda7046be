// Package e2e holds tests of the whole product on real databases: store, relay and
// dispatcher together. What one of them promises alone is tested where it lives.
package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/relay"
	"github.com/go-outbox/outbox/store/pgstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// arrivals notes when each event was delivered, and how often.
type arrivals struct {
	mu    sync.Mutex
	at    map[uuid.UUID]time.Time
	twice int
}

func (a *arrivals) Dispatch(_ context.Context, msg outbox.DispatchedMessage) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, seen := a.at[msg.Meta.EventID]; seen {
		a.twice++
		return nil
	}
	a.at[msg.Meta.EventID] = time.Now()
	return nil
}

func (a *arrivals) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.at)
}

// Eight producers at 2,000 events a second, some of whose transactions commit late
// or roll back, beside an unrelated transaction that stays open: nothing is missed and
// nothing comes twice. How long the slowest took is logged, not judged: that depends
// on the machine. That late commits take at most two polls is shown in virtual time.
func TestLiveTrafficBesideAnOpenTransaction(t *testing.T) {
	if testing.Short() {
		t.Skip("needs PostgreSQL and three seconds")
	}
	pool := testenv.Postgres(t).Pool(t)
	store := newStore(t, pool)
	blocker, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = blocker.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := blocker.Exec(t.Context(), `CREATE TABLE unrelated (x int)`); err != nil { // it has a transaction id
		t.Fatal(err)
	}
	got := &arrivals{at: map[uuid.UUID]time.Time{}}
	stop := run(t, store, got)

	const producers, perSecond, seconds = 8, 2000, 3
	committed := make([]map[uuid.UUID]time.Time, producers)
	var group sync.WaitGroup
	for p := range producers {
		group.Go(func() {
			committed[p] = produce(t, pool, store, uint64(p), perSecond/producers*seconds, seconds*time.Second)
		})
	}
	group.Wait()
	total := 0
	for _, events := range committed {
		total += len(events)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for got.count() < total && pause(ctx, 10*time.Millisecond) {
	}
	stop()

	if got.count() != total || got.twice > 0 {
		t.Fatalf("%d of %d committed events delivered, %d twice", got.count(), total, got.twice)
	}
	var worst time.Duration
	for _, events := range committed {
		for id, at := range events {
			worst = max(worst, got.at[id].Sub(at))
		}
	}
	t.Logf("%d events, the slowest %s after its commit", total, worst)
}

// produce enqueues n events over about the given time and returns when each commit
// returned. Every twentieth transaction rolls back, every fiftieth is held open.
func produce(t *testing.T, pool *pgxpool.Pool, store *pgstore.Store, seed uint64, n int, over time.Duration) map[uuid.UUID]time.Time {
	committed := make(map[uuid.UUID]time.Time, n)
	r := rand.New(rand.NewPCG(seed, 1))
	begin := time.Now()
	for i := range n {
		pause(t.Context(), time.Until(begin.Add(over*time.Duration(i)/time.Duration(n))))
		id := uuid.New()
		rollback := r.IntN(20) == 0
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			msg := outbox.Message{Topic: "shop.order.placed.v1", Key: fmt.Sprint("k", r.IntN(50)), EventID: id, Payload: []byte(`{"n":1}`)}
			if _, err := store.Enqueue(t.Context(), tx, msg); err != nil {
				return err
			}
			if r.IntN(50) == 0 {
				pause(t.Context(), time.Duration(r.IntN(300))*time.Millisecond)
			}
			if rollback {
				return errRollback
			}
			return nil
		})
		switch {
		case rollback:
		case err != nil:
			t.Error(err)
			return committed
		default:
			committed[id] = time.Now()
		}
	}
	return committed
}

var errRollback = fmt.Errorf("rolled back on purpose")

func newStore(t *testing.T, pool *pgxpool.Pool) *pgstore.Store {
	t.Helper()
	store, err := pgstore.New(pool, pgstore.Config{Table: "shop_outbox"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return store
}

// run starts a relay with default settings; stop drains it.
func run(t *testing.T, store outbox.Store, d outbox.Dispatcher) (stop func()) {
	t.Helper()
	r, err := relay.New(store, d, relay.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
