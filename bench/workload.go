package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"
)

// Sizes are how much each workload does.
type sizes struct {
	backlog    int           // messages of a no-op drain
	backlog1ms int           // messages of a drain with a 1 ms handler
	sequential int           // the same for systems that handle one at a time
	window     time.Duration // of an enqueue
	cut        time.Duration // ends the drain of a slow system
	latency    time.Duration // of a latency measurement
	rates      [2]int        // messages per second of it
	retained   int           // published rows in the table
	drained    int           // messages drained next to them
	round      int           // messages of one round of a closed loop
	free       time.Duration // of a closed loop before something happens
	pinned     time.Duration // for how long xmin is held
	tail       time.Duration // at the end of which the rate is taken
	backlogs   [3]int
	idle       time.Duration // before an idle relay is looked at
	watched    time.Duration // for how long
	large      int           // messages of 1 MiB
	sqlite     int
}

var (
	full = sizes{
		backlog: 100_000, backlog1ms: 50_000, sequential: 10_000, window: 1500 * time.Millisecond, cut: 4 * time.Second,
		latency: 4 * time.Second, rates: [2]int{100, 2000}, retained: 5_000_000, drained: 50_000,
		round: 20_000, free: 6 * time.Second, pinned: 40 * time.Second, tail: 10 * time.Second,
		backlogs: [3]int{10_000, 100_000, 1_000_000}, idle: time.Minute, watched: 10 * time.Second, large: 300, sqlite: 20_000,
	}
	quick = func() sizes {
		s := full
		s.backlog, s.backlog1ms = 50_000, 25_000
		s.window, s.cut, s.latency = 700*time.Millisecond, 1500*time.Millisecond, 2*time.Second
		return s
	}()
)

// A figure is one measured value.
type figure struct {
	workload string
	unit     string
	value    float64
}

// A cell measures one system once. It yields a figure for each of its workloads.
type cell struct {
	system    system
	workloads []string
	run       func(ctx context.Context, b *bench) ([]figure, error)
	// asked: it takes minutes and runs only when one of its workloads is named.
	asked bool
}

// A group is a set of cells that are compared, so they are interleaved: each
// repetition runs all of them.
type group struct {
	quick bool
	cells []cell
	// close frees what the cells of a group share.
	close func(ctx context.Context) error
}

// bench is one run of the program.
type bench struct {
	server      *server
	sizes       sizes
	repetitions int
	only        []string // workloads; none is all
	systems     []string // names; none is all
	progress    io.Writer
	results     *results
}

func (b *bench) run(ctx context.Context, groups []group) error {
	for _, g := range groups {
		err := b.group(ctx, g)
		if g.close != nil {
			if closeErr := g.close(ctx); err == nil {
				err = closeErr
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) group(ctx context.Context, g group) error {
	for rep := range b.repetitions {
		for _, c := range g.cells {
			if !b.wants(c) {
				continue
			}
			start := time.Now()
			figures, err := c.run(ctx, b)
			if err != nil {
				return fmt.Errorf("%s of %s: %w", c.workloads[0], c.system.name, err)
			}
			for _, f := range figures {
				if len(b.only) == 0 || slices.Contains(b.only, f.workload) {
					b.results.add(c.system.name, f)
					fmt.Fprintf(b.progress, "%d/%d %-24s %-16s %12s %s\n", rep+1, b.repetitions, f.workload, c.system.name, number3(f.value), f.unit)
				}
			}
			fmt.Fprintf(b.progress, "    %s\n", time.Since(start).Round(time.Millisecond))
		}
	}
	return nil
}

func (b *bench) wants(c cell) bool {
	if len(b.systems) > 0 && !slices.Contains(b.systems, c.system.name) {
		return false
	}
	if len(b.only) == 0 {
		return !c.asked
	}
	return slices.ContainsFunc(c.workloads, func(n string) bool { return slices.Contains(b.only, n) })
}

// with gives fn a database of its own with system s in it.
func (b *bench) with(ctx context.Context, s system, fn func(db *database, q queue) error) (err error) {
	db, err := b.server.database(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if dropErr := db.drop(ctx); err == nil {
			err = dropErr
		}
	}()
	q, err := s.open(ctx, db.Pool)
	if err != nil {
		return fmt.Errorf("open %s: %w", s.name, err)
	}
	return fn(db, q)
}

// groups are all workloads, in the order they run.
func groups() []group {
	return slices.Concat(enqueueGroups(), drainGroups(), latencyGroups(), wearGroups(), footprintGroups(), sqliteGroups())
}
