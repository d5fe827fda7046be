package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/relay"
)

// benchTopic and benchPayload are what a benchmark sends: about 300 bytes of JSON.
const benchTopic = "bench.event.sent.v1"

var benchPayload = []byte(`{"pad":"` + strings.Repeat("x", 290) + `"}`)

// benchBatch is how many events the batch workload enqueues in one transaction, and
// how many the relay records at once.
const benchBatch = 1000

// A scratch is an outbox of its own for a benchmark. drop removes every trace of it.
type scratch struct {
	store
	// one and many enqueue in a transaction of their own.
	one  func(context.Context, outbox.Message) error
	many func(context.Context, []outbox.Message) error
	drop func(context.Context) error
}

type benchOptions struct {
	events, connections int
	duration            time.Duration
}

func (a *app) benchCommand() *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure enqueue and relay rates on your own database, in a scratch schema",
		Long: "Measures what one relay and your database can do together: events enqueued one per transaction and in\n" +
			"batches, and a backlog drained by a dispatcher that does nothing, marking rows and deleting them. It works in a\n" +
			"schema (SQLite: a file) of its own, which is removed at the end; no table of yours is touched.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case o.events < benchBatch:
				return usagef("--events: must be at least %d, got %d", benchBatch, o.events)
			case o.connections < 1:
				return usagef("--connections: must be at least 1, got %d", o.connections)
			case o.duration <= 0:
				return usagef("--duration: must be positive, got %s", o.duration)
			}
			return a.bench(cmd, o)
		},
	}
	cmd.Flags().IntVar(&o.events, "events", 50_000, "how many events to enqueue in batches and to relay")
	cmd.Flags().IntVar(&o.connections, "connections", 8, "how many producers enqueue one event per transaction")
	cmd.Flags().DurationVar(&o.duration, "duration", 3*time.Second, "how long they do")
	return cmd
}

func (a *app) bench(cmd *cobra.Command, o benchOptions) (err error) {
	cfg, err := a.load(cmd)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	db, err := openDatabase(ctx, cfg.DSN, true)
	if err != nil {
		return err
	}
	defer db.close()
	pinging, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if err := db.ping(pinging); err != nil {
		return err
	}
	s, err := db.scratch(ctx)
	if err != nil {
		return fmt.Errorf("make a scratch schema: %w", err)
	}
	defer func() {
		drop, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTimeout)
		defer cancel()
		err = errors.Join(err, s.drop(drop))
	}()
	if _, err := s.Migrate(ctx); err != nil {
		return err
	}
	return a.benchAll(ctx, s, o)
}

func (a *app) benchAll(ctx context.Context, s *scratch, o benchOptions) error {
	out := newColumns(a.out, "WORKLOAD", "RATE", "UNIT")
	for _, w := range []struct {
		name, unit string
		run        func() (float64, error)
	}{
		{"enqueue, one per transaction", "tx/s", func() (float64, error) { return a.benchOne(ctx, s, o) }},
		{"drain, marking", "events/s", func() (float64, error) { return a.benchDrain(ctx, s, o.events, false) }},
		{"enqueue, batches of 1000", "events/s", func() (float64, error) { return a.benchMany(ctx, s, o.events) }},
		{"drain, deleting", "events/s", func() (float64, error) { return a.benchDrain(ctx, s, o.events, true) }},
	} {
		rate, err := w.run()
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		if a.json {
			err = a.printJSON(struct {
				Workload string  `json:"workload"`
				Rate     float64 `json:"rate"`
				Unit     string  `json:"unit"`
			}{w.name, rate, w.unit})
		} else {
			out.row(w.name, fmt.Sprintf("%.0f", rate), w.unit)
		}
		if err != nil {
			return err
		}
	}
	if a.json {
		return nil
	}
	return out.flush()
}

// benchOne enqueues one event per transaction on several connections.
func (a *app) benchOne(ctx context.Context, s *scratch, o benchOptions) (float64, error) {
	began := time.Now()
	defer a.bar("enqueue", func() float64 { return time.Since(began).Seconds() / o.duration.Seconds() })()
	ctx, cancel := context.WithTimeoutCause(ctx, o.duration, errBenchOver)
	defer cancel()
	var done atomic.Int64
	errs := make([]error, o.connections)
	var group sync.WaitGroup
	for i := range o.connections {
		group.Go(func() {
			for ctx.Err() == nil && errs[i] == nil {
				if err := s.one(context.WithoutCancel(ctx), benchMessage(i)); err != nil {
					errs[i] = err
					return
				}
				done.Add(1)
			}
		})
	}
	group.Wait()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, errBenchOver) {
		return 0, cause
	}
	return rate(int(done.Load()), began), errors.Join(errs...)
}

var errBenchOver = errors.New("the time is over")

func (a *app) benchMany(ctx context.Context, s *scratch, events int) (float64, error) {
	began := time.Now()
	err := a.fill(ctx, s, events)
	return rate(events, began), err
}

// fill enqueues events in batches.
func (a *app) fill(ctx context.Context, s *scratch, events int) error {
	var done atomic.Int64
	defer a.bar("enqueue", func() float64 { return float64(done.Load()) / float64(events) })()
	for int(done.Load()) < events {
		msgs := make([]outbox.Message, min(benchBatch, events-int(done.Load())))
		for i := range msgs {
			msgs[i] = benchMessage(i)
		}
		if err := s.many(ctx, msgs); err != nil {
			return err
		}
		done.Add(int64(len(msgs)))
	}
	return nil
}

// benchDrain relays a backlog to a dispatcher that does nothing.
func (a *app) benchDrain(ctx context.Context, s *scratch, events int, remove bool) (float64, error) {
	if !remove { // the other drain finds the backlog of the batch workload
		if err := a.fill(ctx, s, events); err != nil {
			return 0, err
		}
	}
	var done atomic.Int64
	defer a.bar("relay", func() float64 { return min(float64(done.Load())/float64(events), 1) })()
	r, err := relay.New(s.store, nothing{&done}, relay.Config{Batch: benchBatch, DeleteOnPublish: remove})
	if err != nil {
		return 0, err
	}
	began := time.Now()
	n, err := r.PublishPending(ctx)
	return rate(n, began), err
}

// nothing is a destination that takes everything at once.
type nothing struct{ done *atomic.Int64 }

func (d nothing) Dispatch(context.Context, outbox.DispatchedMessage) error {
	d.done.Add(1)
	return nil
}

func (d nothing) DispatchBatch(_ context.Context, msgs []outbox.DispatchedMessage) []error {
	d.done.Add(int64(len(msgs)))
	return make([]error, len(msgs))
}

func benchMessage(i int) outbox.Message {
	return outbox.Message{Topic: benchTopic, Key: fmt.Sprint("k", i%500), Payload: benchPayload}
}

func rate(n int, began time.Time) float64 { return float64(n) / time.Since(began).Seconds() }

// bar shows a progress bar on a terminal until the returned function is called.
func (a *app) bar(what string, progress func() float64) (stop func()) {
	if !interactive(a.err) {
		return func() {}
	}
	const width = 40
	ended := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				full := int(min(progress(), 1) * width)
				fmt.Fprintf(a.err, "%s%-8s [%s%s]", clearLine, what, strings.Repeat("=", full), strings.Repeat(" ", width-full))
			case <-ended:
				fmt.Fprint(a.err, clearLine)
				return
			}
		}
	})
	return func() {
		close(ended)
		group.Wait()
	}
}
