package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// noop is the dispatcher of the throughput figures.
func noop([]byte) {}

// oneMillisecond stands for a destination across a network.
func oneMillisecond([]byte) { time.Sleep(time.Millisecond) }

func drainGroups() []group {
	noopGroup := group{quick: true}
	keep, remove := []string{"drain_noop_keep"}, []string{"drain_noop_delete"}
	both := append(keep, remove...)
	// Peers and yardsticks have one way to settle; they appear in both tables.
	noopGroup.cells = []cell{
		drainCell(ourKeep, keep, []string{"wal_keep"}),
		drainCell(ourDelete, remove, []string{"wal_delete"}),
		drainCell(ourSingle, remove, nil),
		drainCell(limitKeepSystem, keep, []string{"wal_keep"}),
		drainCell(limitDeleteSystem, remove, []string{"wal_delete"}),
		drainCell(unclaimedSystem, both, []string{"wal_delete"}),
		drainCell(unclaimedLeanSystem, both, nil),
	}
	for _, s := range peers {
		noopGroup.cells = append(noopGroup.cells, drainCell(s, both, []string{"wal_keep", "wal_delete"}))
	}
	noopGroup.cells = append(noopGroup.cells, drainCell(literalSystem, both, []string{"wal_keep", "wal_delete"}))

	slow := group{quick: true}
	for _, s := range append([]system{ourKeep1ms}, append(peers, literalSystem)...) {
		slow.cells = append(slow.cells, drain1msCell(s))
	}

	verbatim := group{cells: []cell{
		drainCell(ourVerb, []string{"verbatim_keep"}, nil),
		drainCell(ourVerbDel, []string{"verbatim_delete"}, nil),
		drainCell(literalSystem, []string{"verbatim_keep", "verbatim_delete"}, nil),
	}}
	return []group{noopGroup, slow, verbatim}
}

// drainCell measures a no-op drain and what it wrote to the log per message.
func drainCell(s system, rates, wal []string) cell {
	workloads := slices.Concat(rates, wal)
	keeps := slices.Equal(wal, []string{"wal_keep"})
	if keeps {
		workloads = append(workloads, "hot_keep")
	}
	return cell{system: s, workloads: workloads, run: func(ctx context.Context, b *bench) (figures []figure, err error) {
		err = b.with(ctx, s, func(db *database, q queue) error {
			if err := q.load(ctx, b.sizes.backlog); err != nil {
				return fmt.Errorf("load: %w", err)
			}
			if err := db.settle(ctx); err != nil {
				return err
			}
			before, err := db.written(ctx)
			if err != nil {
				return err
			}
			d, err := drain(ctx, s, q, b.sizes.backlog, b.sizes.cut, noop)
			if err != nil {
				return err
			}
			after, err := db.written(ctx)
			if err != nil {
				return err
			}
			for _, name := range rates {
				figures = append(figures, figure{name, "msg/s", d.rate()})
			}
			for _, name := range wal {
				figures = append(figures, figure{name, "B/msg", (after - before) / float64(d.handled)})
			}
			if keeps {
				hot, err := hotShare(ctx, db)
				figures = append(figures, figure{"hot_keep", "%", hot})
				return err
			}
			return nil
		})
		return figures, err
	}}
}

// hotShare is how many of the table's updates touched no index. Connections report
// their statistics when they close.
func hotShare(ctx context.Context, db *database) (share float64, err error) {
	db.Reset()
	if !pause(ctx, 100*time.Millisecond) {
		return 0, ctx.Err()
	}
	return share, db.QueryRow(ctx, `SELECT 100.0 * n_tup_hot_upd / greatest(n_tup_upd, 1)
FROM pg_stat_user_tables WHERE relname = $1`, table).Scan(&share)
}

func drain1msCell(s system) cell {
	return cell{system: s, workloads: []string{"drain_1ms"}, run: func(ctx context.Context, b *bench) (figures []figure, err error) {
		count := b.sizes.backlog1ms
		if s.sequential || s.name == gueSystem.name {
			count = b.sizes.sequential
		}
		err = b.with(ctx, s, func(db *database, q queue) error {
			if err := q.load(ctx, count); err != nil {
				return fmt.Errorf("load: %w", err)
			}
			if err := db.settle(ctx); err != nil {
				return err
			}
			d, err := drain(ctx, s, q, count, b.sizes.cut, oneMillisecond)
			figures = []figure{{"drain_1ms", "msg/s", d.rate()}}
			return err
		})
		return figures, err
	}}
}

// drained says what a drain did.
type drained struct {
	handled int
	elapsed time.Duration
	first   time.Duration // until the first message was handled
}

func (d drained) rate() float64 { return float64(d.handled) / d.elapsed.Seconds() }

// patience bounds the drain of a system that is not slow.
const patience = 2 * time.Minute

// drain relays until count messages were handled, or cut is over for a slow or
// sequential system; others fail when they take too long. Systems that settle before
// they return are timed from start to return; for the others the clock runs from the
// first handler call to the last, in their favour.
func drain(ctx context.Context, s system, q queue, count int, cut time.Duration, handle func([]byte)) (d drained, err error) {
	stop, err := profile.start(s)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	limit := patience
	if s.slow || s.sequential && !s.settles {
		limit = cut
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var handled, first, last atomic.Int64
	start := time.Now()
	err = q.relay(ctx, func(payload []byte) {
		handle(payload)
		if ctx.Err() != nil {
			return // too late to count
		}
		switch n := handled.Add(1); n {
		case 1:
			first.Store(int64(time.Since(start)))
		case int64(count):
			last.Store(int64(time.Since(start)))
			cancel()
		}
	})
	d = drained{handled: int(min(handled.Load(), int64(count))), elapsed: time.Since(start), first: time.Duration(first.Load())}
	switch {
	case err != nil && d.handled < count:
		return d, err
	case d.handled < count && limit == patience:
		return d, fmt.Errorf("only %d of %d messages in %s", d.handled, count, patience)
	case d.handled < count:
		d.elapsed = limit - d.first
	case !s.settles:
		d.elapsed = time.Duration(last.Load()) - d.first
	}
	if d.handled == 0 {
		return d, fmt.Errorf("nothing was handled in %s", limit)
	}
	return d, nil
}
