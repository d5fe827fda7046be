package main

import (
	"context"
	"errors"
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
	sqlite     int           // messages of a drain on SQLite
	mariadb    int           // on MariaDB
	sink       int           // to a broker
	webhook    int           // to an HTTP endpoint
}

var (
	full = sizes{
		backlog: 100_000, backlog1ms: 50_000, sequential: 10_000, window: 1200 * time.Millisecond, cut: 3 * time.Second,
		latency: 4 * time.Second, rates: [2]int{100, 2000}, retained: 5_000_000, drained: 50_000,
		round: 20_000, free: 4 * time.Second, pinned: 40 * time.Second, tail: 10 * time.Second,
		backlogs: [3]int{10_000, 100_000, 1_000_000}, idle: time.Minute, watched: 10 * time.Second, large: 300,
		sqlite: 20_000, mariadb: 30_000, sink: 50_000, webhook: 10_000,
	}
	quick = func() sizes {
		s := full
		s.backlog, s.backlog1ms = 50_000, 25_000
		s.window, s.cut, s.latency = 500*time.Millisecond, 1500*time.Millisecond, 2*time.Second
		return s
	}()
	// smoke sizes run everything in a minute or two and measure nothing.
	smoke = sizes{
		backlog: 200, backlog1ms: 200, sequential: 200, window: 20 * time.Millisecond, cut: time.Second,
		latency: 200 * time.Millisecond, rates: [2]int{100, 500}, retained: 200, drained: 200,
		round: 200, free: time.Millisecond, pinned: 10 * time.Millisecond, tail: time.Millisecond,
		backlogs: [3]int{200, 200, 200}, idle: time.Millisecond, watched: 1100 * time.Millisecond, large: 5,
		sqlite: 200, mariadb: 200, sink: 200, webhook: 200,
	}
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
	// repetitions are the least; the run may ask for more.
	repetitions int
	// missing says why the group cannot run on this machine. Nil for one that can
	// wherever there is PostgreSQL.
	missing func() error
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

// run measures group by group. A group that fails does not cost the others theirs.
func (b *bench) run(ctx context.Context, groups []group) error {
	var errs []error
	for _, g := range groups {
		if ctx.Err() != nil {
			return errors.Join(append(errs, ctx.Err())...)
		}
		start := time.Now()
		err := b.group(ctx, g)
		if slices.ContainsFunc(g.cells, b.wants) {
			fmt.Fprintf(b.progress, "== %s and what is compared with it: %s\n", g.cells[0].workloads[0], time.Since(start).Round(time.Second))
		}
		if g.close != nil {
			err = errors.Join(err, g.close(context.WithoutCancel(ctx)))
		}
		if err != nil {
			fmt.Fprintf(b.progress, "failed: %v\n", err)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (b *bench) group(ctx context.Context, g group) error {
	if ready, err := b.ready(g); err != nil || !ready {
		return err
	}
	repetitions := max(g.repetitions, b.repetitions)
	for rep := range repetitions {
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
					fmt.Fprintf(b.progress, "%d/%d %-24s %-16s %12s %s\n", rep+1, repetitions, f.workload, c.system.name, number3(f.value), f.unit)
				}
			}
			fmt.Fprintf(b.progress, "    %s\n", time.Since(start).Round(time.Millisecond))
		}
	}
	return nil
}

// ready reports whether a group is wanted and can run. What was not asked for by name
// is left out, and said so, when its server is not installed.
func (b *bench) ready(g group) (bool, error) {
	if !slices.ContainsFunc(g.cells, b.wants) {
		return false, nil
	}
	if g.missing == nil {
		return true, nil
	}
	why := g.missing()
	if why == nil {
		return true, nil
	}
	if len(b.only) > 0 {
		return false, fmt.Errorf("%s: %w", g.cells[0].workloads[0], why)
	}
	fmt.Fprintf(b.progress, "without %s: %v\n", g.cells[0].workloads[0], why)
	return false, nil
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
	return slices.Concat(enqueueGroups(), drainGroups(), latencyGroups(), wearGroups(), footprintGroups(), sqlGroups(), sinkGroups())
}
