package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A queue is one system, set up in one database.
type queue interface {
	// enqueue writes message n in the transaction of the business row.
	enqueue(ctx context.Context, tx pgx.Tx, n int) error
	// enqueueMany writes count messages, beginning with n, by the system's own
	// batch interface.
	enqueueMany(ctx context.Context, tx pgx.Tx, n, count int) error
	// load makes a backlog of count messages, beginning with number 1.
	load(ctx context.Context, count int) error
	// relay delivers until ctx ends.
	relay(ctx context.Context, handle func(payload []byte)) error
}

// A system is something that is measured.
type system struct {
	name     string
	settings string
	open     func(ctx context.Context, pool *pgxpool.Pool) (queue, error)
	// settles: relay returns when everything handled is also settled, so the
	// figure includes that. For the others it does not.
	settles bool
	// sequential systems handle one message at a time.
	sequential bool
	// slow systems get a shorter measurement.
	slow bool
	// yardstick systems are written by us and not safe, or not complete.
	yardstick bool
}

const (
	throughput       = "batch 1000, window 32,000, a dispatcher that takes batches"
	narrowThroughput = "batch 1000, window 8000, a dispatcher that takes batches"
)

// The systems. Ours has a row per setting that a workload needs; all of them are
// reported as "outbox".
var (
	ourKeep    = ours(throughput+", rows kept", oursConfig{cfg: tuned(), batch: true})
	ourDelete  = ours(throughput+", rows deleted when published", oursConfig{cfg: deleting(tuned()), batch: true})
	ourKeep1ms = ours("batch 1000, window 32,000, 1000 dispatches at once, rows kept", oursConfig{cfg: wide(tuned())})
	ourDefault = ours("default settings", oursConfig{})
	ourVerb    = ours(throughput+", on the table of literal, rows kept", oursConfig{cfg: tuned(), batch: true, verbatim: true})
	ourVerbDel = ours(throughput+", on the table of literal, rows deleted", oursConfig{cfg: deleting(tuned()), batch: true, verbatim: true})
	// ourSingle shows what a call for each message costs.
	ourSingle = system{
		name: "outbox_single", settings: "batch 1000, window 32,000, 256 dispatches at once, one message per call, rows deleted",
		settles: true, open: ours("", oursConfig{cfg: deleting(tuned())}).open,
	}

	peers = []system{riverSystem, watermillSystem, watermillQueueSystem, gueSystem}
)

// inTx runs fn in a transaction of its own.
func inTx(ctx context.Context, pool *pgxpool.Pool, fn func(tx pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, pool, fn)
}

// loadBy fills a queue through its own batch interface.
func loadBy(ctx context.Context, pool *pgxpool.Pool, q queue, count, slice int) error {
	for n := 1; n <= count; n += slice {
		err := inTx(ctx, pool, func(tx pgx.Tx) error { return q.enqueueMany(ctx, tx, n, min(slice, count-n+1)) })
		if err != nil {
			return err
		}
	}
	return nil
}

// pause waits, and reports whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
