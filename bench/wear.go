package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// wearGroups are about what happens to a rate when the table is not fresh. Each
// figure has a partner without the wear, from the same group.
func wearGroups() []group {
	long := &history{workload: "retained_5m", share: 1}
	short := &history{workload: "retained_1m", share: 5}
	// The first runs after five million rows were written have the disk to share.
	retained := group{repetitions: 5, close: func(ctx context.Context) error { return errors.Join(long.drop(ctx), short.drop(ctx)) }, cells: []cell{
		{system: ourKeep, workloads: []string{"retained_0"}, run: fresh},
		{system: ourKeep, workloads: []string{"retained_1m"}, run: short.drain, asked: true},
		{system: ourKeep, workloads: []string{"retained_5m"}, run: long.drain},
		{system: ourDefault, workloads: []string{"restart_5m"}, run: long.restart},
	}}
	pinnedDelete := churnCell(ourDelete, "unpinned_xmin_delete", "pinned_xmin_delete", pinXmin)
	pinnedDelete.asked = true
	pinned := group{cells: []cell{churnCell(ourKeep, "unpinned_xmin", "pinned_xmin", pinXmin), pinnedDelete}}
	vacuumed := group{cells: []cell{
		churnCell(ourKeep, "vacuumed_before", "vacuumed", vacuum),
		churnCell(ourDelete, "vacuumed_delete_before", "vacuumed_delete", vacuum),
	}}
	unanalysed := group{cells: []cell{
		analyseCell(ourKeep, "analysed", true), analyseCell(ourKeep, "unanalysed", false),
		analyseCell(ourDelete, "analysed_delete", true), analyseCell(ourDelete, "unanalysed_delete", false),
	}}
	return []group{retained, pinned, vacuumed, unanalysed, backlogGroup()}
}

// fresh drains as many messages as the history does, from a table without any.
func fresh(ctx context.Context, b *bench) (figures []figure, err error) {
	err = b.with(ctx, ourKeep, func(db *database, q queue) error {
		if err := loadAndSettle(ctx, db, q.(*oursQueue), 1, b.sizes.drained); err != nil {
			return err
		}
		d, err := drain(ctx, ourKeep, q, b.sizes.drained, 0, noop)
		figures = []figure{{"retained_0", "msg/s", d.rate()}}
		return err
	})
	return figures, err
}

func loadAndSettle(ctx context.Context, db *database, q *oursQueue, from, count int) error {
	if err := loadOurs(ctx, q.pool, from, count); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	return db.settle(ctx)
}

// A history is a table with millions of published rows. It takes a minute to make,
// so its cells share it.
type history struct {
	workload string
	share    int // of sizes.retained: 5 for a fifth

	db   *database
	q    *oursQueue
	next int // the next message's number
}

// open makes the rows as a relay would have left them: published, and with the
// lease's low mark behind them.
func (h *history) open(ctx context.Context, b *bench) (err error) {
	if h.db != nil {
		return nil
	}
	if h.db, err = b.server.database(ctx); err != nil {
		return err
	}
	if h.q, err = openOurs(ctx, h.db.Pool, oursConfig{cfg: tuned()}); err != nil {
		return err
	}
	const slice = 250_000
	retained := b.sizes.retained / h.share
	for from := 1; from <= retained; from += slice {
		_, err := h.db.Exec(ctx, fmt.Sprintf(`INSERT INTO %s (event_id, topic, msg_key, tenant_id, payload, content_type, attempts, published_at)
SELECT %s, '%s', %s, '%s', %s::json, 'application/json', 1, now() FROM generate_series($1::bigint, $2::bigint) AS i`,
			table, sqlEventID, topic, sqlKey, tenant, sqlPayload), from, min(from+slice-1, retained))
		if err != nil {
			return err
		}
	}
	h.next = retained + 1
	_, err = h.db.Exec(ctx, `UPDATE `+table+`_lease SET low = $1`, retained)
	return err
}

func (h *history) add(ctx context.Context, count int) error {
	from := h.next
	h.next += count
	return loadAndSettle(ctx, h.db, h.q, from, count)
}

func (h *history) drain(ctx context.Context, b *bench) ([]figure, error) {
	if err := h.open(ctx, b); err != nil {
		return nil, err
	}
	if err := h.add(ctx, b.sizes.drained); err != nil {
		return nil, err
	}
	d, err := drain(ctx, ourKeep, h.q, b.sizes.drained, 0, noop)
	return []figure{{h.workload, "msg/s", d.rate()}}, err
}

// restart is the time from Run to the first dispatch, in a pool of its own.
func (h *history) restart(ctx context.Context, b *bench) ([]figure, error) {
	if err := h.open(ctx, b); err != nil {
		return nil, err
	}
	const count = 1000
	if err := h.add(ctx, count); err != nil {
		return nil, err
	}
	pool, err := newPool(ctx, h.db.dsn)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	q, err := ourDefault.open(ctx, pool)
	if err != nil {
		return nil, err
	}
	d, err := drain(ctx, ourDefault, q, count, 0, noop)
	return []figure{{"restart_5m", "ms", float64(d.first) / float64(time.Millisecond)}}, err
}

func (h *history) drop(ctx context.Context) error {
	if h.db == nil {
		return nil
	}
	err := h.db.drop(ctx)
	h.db, h.q = nil, nil
	return err
}

// A wearer does something to the table between the two halves of a closed loop, and
// says how long to go on before the second half is measured.
type wearer func(ctx context.Context, db *database, z sizes) (skip time.Duration, undo func(), err error)

func pinXmin(ctx context.Context, db *database, z sizes) (time.Duration, func(), error) {
	release, err := hold(ctx, db, `SELECT count(*) FROM pg_class`)
	return z.pinned - z.tail, release, err
}

// vacuum does what autovacuum does sooner or later to a queue that is empty.
func vacuum(ctx context.Context, db *database, _ sizes) (time.Duration, func(), error) {
	return 0, func() {}, db.script(ctx, "VACUUM ANALYZE "+table)
}

// churnCell runs a closed loop: load a round, relay it, again. The rate is the
// median of the rounds, messages over the time that the relay took.
func churnCell(s system, before, after string, wear wearer) cell {
	return cell{system: s, workloads: []string{before, after}, run: func(ctx context.Context, b *bench) (figures []figure, err error) {
		err = b.with(ctx, s, func(db *database, q queue) error {
			loop := &closedLoop{q: q.(*oursQueue), round: b.sizes.round, next: 1}
			return loop.run(ctx, func(ctx context.Context) error {
				free, err := loop.rate(ctx, b.sizes.free)
				if err != nil {
					return err
				}
				skip, undo, err := wear(ctx, db, b.sizes)
				if err != nil {
					return err
				}
				defer undo()
				if skip > 0 {
					if _, err := loop.rate(ctx, skip); err != nil {
						return err
					}
				}
				span := b.sizes.free
				if skip > 0 {
					span = b.sizes.tail
				}
				worn, err := loop.rate(ctx, span)
				figures = []figure{{before, "msg/s", free}, {after, "msg/s", worn}}
				return err
			})
		})
		return figures, err
	}}
}

type closedLoop struct {
	q       *oursQueue
	round   int
	next    int
	handled atomic.Int64
	full    chan struct{} // gets a value at the end of each round
}

// run keeps a relay at work while fn measures.
func (l *closedLoop) run(ctx context.Context, fn func(ctx context.Context) error) error {
	l.full = make(chan struct{}, 1)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	group.Go(func() {
		err := l.q.relay(ctx, func([]byte) {
			if l.handled.Add(1)%int64(l.round) == 0 {
				l.full <- struct{}{}
			}
		})
		cancel(err)
	})
	defer group.Wait()
	defer cancel(nil)
	return fn(ctx)
}

// rate runs rounds for a span and returns their median rate.
func (l *closedLoop) rate(ctx context.Context, span time.Duration) (float64, error) {
	var rates []float64
	for start := time.Now(); time.Since(start) < span || len(rates) == 0; {
		if err := loadOurs(ctx, l.q.pool, l.next, l.round); err != nil {
			return 0, err
		}
		l.next += l.round
		begun := time.Now()
		l.q.wake()
		select {
		case <-l.full:
		case <-time.After(patience):
			return 0, fmt.Errorf("a round of %d was not relayed in %s", l.round, patience)
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
		rates = append(rates, float64(l.round)/time.Since(begun).Seconds())
	}
	slices.Sort(rates)
	return rates[len(rates)/2], nil
}

// analyseCell drains a table that has statistics, or has never had any.
func analyseCell(s system, workload string, analyse bool) cell {
	return cell{system: s, workloads: []string{workload}, run: func(ctx context.Context, b *bench) (figures []figure, err error) {
		err = b.with(ctx, s, func(db *database, q queue) error {
			// Autovacuum would analyse the table while it drains.
			if err := db.script(ctx, "ALTER TABLE "+table+" SET (autovacuum_enabled = off)"); err != nil {
				return err
			}
			if err := q.load(ctx, b.sizes.backlog); err != nil {
				return fmt.Errorf("load: %w", err)
			}
			if analyse {
				if err := db.script(ctx, "ANALYZE "+table); err != nil {
					return err
				}
			}
			if err := db.script(ctx, "CHECKPOINT"); err != nil {
				return err
			}
			d, err := drain(ctx, s, q, b.sizes.backlog, 0, noop)
			figures = []figure{{workload, "msg/s", d.rate()}}
			return err
		})
		return figures, err
	}}
}

// backlogGroup shows that the cost of a message does not depend on how many wait.
func backlogGroup() group {
	names := [3]string{"backlog_10k", "backlog_100k", "backlog_1m"}
	var g group
	for i, name := range names {
		for _, s := range []struct {
			system
			workload string
		}{{ourKeep, name}, {ourDelete, name + "_delete"}} {
			g.cells = append(g.cells, cell{system: s.system, workloads: []string{s.workload}, run: func(ctx context.Context, b *bench) (figures []figure, err error) {
				err = b.with(ctx, s.system, func(db *database, q queue) error {
					if err := loadAndSettle(ctx, db, q.(*oursQueue), 1, b.sizes.backlogs[i]); err != nil {
						return err
					}
					d, err := drain(ctx, s.system, q, b.sizes.backlogs[i], 0, noop)
					figures = []figure{{s.workload, "msg/s", d.rate()}}
					return err
				})
				return figures, err
			}})
		}
	}
	return g
}
