package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// producers is how many connections commit at once.
const producers = 8

// A pace is one latency measurement.
type pace struct {
	workload string // latency_100: the prefix of its figures
	rate     int    // which of sizes.rates
	wake     bool   // the out-of-band wake-up; otherwise polling only
	held     bool   // while an unrelated transaction stays open
}

func latencyGroups() []group {
	hundred := group{quick: true}
	hundred.cells = []cell{
		latencyCell(ourDefault, pace{workload: "latency_100"}),
		latencyCell(ourDefault, pace{workload: "latency_100_wake", wake: true}),
	}
	for _, s := range append(peers, literalSystem) {
		hundred.cells = append(hundred.cells, latencyCell(s, pace{workload: "latency_100"}))
	}
	thousands := group{cells: []cell{
		latencyCell(ourDefault, pace{workload: "latency_2000", rate: 1}),
		latencyCell(ourDefault, pace{workload: "latency_2000_held", rate: 1, held: true}),
	}}
	return []group{hundred, thousands}
}

// latencyCell measures from the return of COMMIT to the handler, with the relay in
// another process and an open loop of producers.
func latencyCell(s system, p pace) cell {
	p50, p99 := p.workload+"_p50", p.workload+"_p99"
	return cell{system: s, workloads: []string{p50, p99}, run: func(ctx context.Context, b *bench) (figures []figure, err error) {
		err = b.with(ctx, s, func(db *database, q queue) error {
			if err := db.script(ctx, business, "CHECKPOINT"); err != nil {
				return err
			}
			delays, err := measureLatency(ctx, db, q, s, p, b.sizes)
			if err != nil {
				return err
			}
			figures = []figure{
				{p50, "ms", quantile(delays, 0.50)},
				{p99, "ms", quantile(delays, 0.99)},
			}
			return nil
		})
		return figures, err
	}}
}

func measureLatency(ctx context.Context, db *database, q queue, s system, p pace, z sizes) ([]time.Duration, error) {
	rate := z.rates[p.rate]
	count := int(float64(rate) * z.latency.Seconds())
	c, err := startChild(order{DSN: db.dsn, System: s.name, Want: count})
	if err != nil {
		return nil, err
	}
	if err := inTx(ctx, db.Pool, func(tx pgx.Tx) error { return q.enqueue(ctx, tx, 0) }); err != nil {
		c.stdin.Close()
		return nil, err
	}
	if err := c.ready(); err != nil {
		return nil, err
	}
	notify, stop := notifier(ctx, q, p.wake)
	defer stop()
	if p.held {
		release, err := hold(ctx, db, `SELECT pg_current_xact_id()`)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	committed, err := produce(ctx, db, q, count, rate, notify)
	seen, _, childErr := c.finish(10 * time.Second)
	switch {
	case err != nil:
		return nil, err
	case childErr != nil:
		return nil, childErr
	}
	return delays(committed, seen)
}

// notifier returns what to call after a commit.
func notifier(ctx context.Context, q queue, wake bool) (notify, stop func()) {
	if !wake {
		return func() {}, func() {}
	}
	n := q.(*oursQueue).store.Notifier(0)
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { _ = n.Run(ctx) }) // hints may fail
	return n.Notify, func() { cancel(); group.Wait() }
}

// hold opens a transaction with one statement in it and keeps it open.
func hold(ctx context.Context, db *database, statement string) (release func(), err error) {
	tx, err := db.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		return nil, err
	}
	_, err = tx.Exec(ctx, statement)
	return func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }, err // it wrote nothing
}

// produce commits messages 1 to count and returns when each COMMIT returned. Arrivals
// are random (a Poisson process), so that they cannot march in step with a poll.
func produce(ctx context.Context, db *database, q queue, count, rate int, notify func()) ([]time.Time, error) {
	committed := make([]time.Time, count+1)
	arrivals := make([]time.Duration, count+1)
	random := rand.New(rand.NewPCG(1, 2))
	for n := 1; n <= count; n++ {
		arrivals[n] = arrivals[n-1] + time.Duration(random.ExpFloat64()/float64(rate)*float64(time.Second))
	}
	var next atomic.Int64
	var group sync.WaitGroup
	errs := make([]error, producers)
	start := time.Now()
	for i := range producers {
		group.Go(func() {
			errs[i] = func() error {
				conn, err := db.Acquire(ctx)
				if err != nil {
					return err
				}
				defer conn.Release()
				for n := int(next.Add(1)); n <= count; n = int(next.Add(1)) {
					if !pause(ctx, time.Until(start.Add(arrivals[n]))) {
						return ctx.Err()
					}
					if err := txWithEvent(ctx, conn.Conn(), q, n); err != nil {
						return err
					}
					committed[n] = time.Now()
					notify()
				}
				return nil
			}()
		})
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return committed, nil
}

// delays pairs commits with the first sighting of each message. None may be missing.
func delays(committed []time.Time, seen []sighting) ([]time.Duration, error) {
	first := make(map[int]time.Time, len(seen))
	for _, s := range seen {
		if _, again := first[s.n]; !again {
			first[s.n] = s.at
		}
	}
	all := make([]time.Duration, 0, len(committed))
	for n := 1; n < len(committed); n++ {
		at, ok := first[n]
		if !ok {
			return nil, fmt.Errorf("message %d of %d was never delivered", n, len(committed)-1)
		}
		// A relay can be faster than the answer to COMMIT.
		all = append(all, max(at.Round(0).Sub(committed[n].Round(0)), 0))
	}
	slices.Sort(all)
	return all, nil
}

// quantile of sorted delays, in milliseconds.
func quantile(sorted []time.Duration, q float64) float64 {
	i := min(int(q*float64(len(sorted))), len(sorted)-1)
	return float64(sorted[i]) / float64(time.Millisecond)
}
