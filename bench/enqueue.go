package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	business       = `CREATE TABLE biz (id uuid PRIMARY KEY, v text, n int)`
	insertBusiness = `INSERT INTO biz (id, v, n) VALUES ($1, $2, $3)`
	bareTable      = `CREATE TABLE bare (event_id uuid, tenant_id text, topic text, msg_key text, payload json)`
)

var (
	// nothing is the same transaction without an event.
	nothing = system{name: "business_only", settings: "the business transaction without an event", yardstick: true, open: openNothing}
	// bareCopy is as fast as rows can be written at all.
	bareCopy = system{name: "copy", settings: "COPY into a table without any index or constraint", yardstick: true, open: openNothing}
)

func openNothing(context.Context, *pgxpool.Pool) (queue, error) { return nil, nil }

func enqueueGroups() []group {
	enqueuers := append([]system{ourKeep}, append(peers, literalSystem)...)
	one := group{quick: true}
	many := group{quick: true}
	batch := group{quick: true}
	for _, s := range enqueuers {
		one.cells = append(one.cells, enqueueCell("enqueue_tx_1", s, 1, txWithEvent))
		many.cells = append(many.cells, enqueueCell("enqueue_tx_16", s, 16, txWithEvent))
		batch.cells = append(batch.cells, manyCell(s))
	}
	one.cells = append(one.cells, enqueueCell("business_only_1", nothing, 1, txWithEvent))
	many.cells = append(many.cells,
		enqueueCell("business_only_16", nothing, 16, txWithEvent),
		wakeCell(),
		enqueueCell("enqueue_batch_tx_16", ourKeep, 16, oneRoundTrip),
		enqueueCell("business_only_batch_16", nothing, 16, oneRoundTrip),
	)
	batch.cells = append(batch.cells, copyCell())
	cost := group{repetitions: 5, cells: []cell{costCell()}}
	return []group{one, many, cost, batch}
}

// A transaction is one unit of work of a producer.
type transaction func(ctx context.Context, conn *pgx.Conn, q queue, n int) error

// txWithEvent is what applications write: BEGIN, business row, event, COMMIT.
func txWithEvent(ctx context.Context, conn *pgx.Conn, q queue, n int) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, insertBusiness, uuid.New(), "value", n); err != nil {
			return err
		}
		if q == nil {
			return nil
		}
		return q.enqueue(ctx, tx, n)
	})
}

// oneRoundTrip sends the same four statements at once.
func oneRoundTrip(ctx context.Context, conn *pgx.Conn, q queue, n int) error {
	batch := &pgx.Batch{}
	batch.Queue("begin")
	batch.Queue(insertBusiness, uuid.New(), "value", n)
	if q != nil {
		if err := q.(*oursQueue).queueEnqueue(ctx, batch, n); err != nil {
			return err
		}
	}
	batch.Queue("commit")
	return conn.SendBatch(ctx, batch).Close()
}

func enqueueCell(workload string, s system, conns int, do transaction) cell {
	return cell{system: s, workloads: []string{workload}, run: func(ctx context.Context, b *bench) ([]figure, error) {
		var rate float64
		err := b.with(ctx, s, func(db *database, q queue) (err error) {
			if err := db.script(ctx, business, "CHECKPOINT"); err != nil {
				return err
			}
			rate, err = hammer(ctx, db, conns, b.sizes.window, func(ctx context.Context, conn *pgx.Conn, n int) error {
				return do(ctx, conn, q, n)
			})
			return err
		})
		return []figure{{workload, "tx/s", rate}}, err
	}}
}

// wakeCell is enqueue_tx_16 with the out-of-band wake-up.
func wakeCell() cell {
	const workload = "enqueue_tx_16_wake"
	return cell{system: ourKeep, workloads: []string{workload}, run: func(ctx context.Context, b *bench) ([]figure, error) {
		rate, err := wakeRate(ctx, b, b.sizes.window, true)
		return []figure{{workload, "tx/s", rate}}, err
	}}
}

// costCell is what the wake-up takes from the rate of enqueue_tx_16. One repetition is
// a pair, and every other pair begins with the wake-up, so that a machine that gets
// slower or faster says nothing.
func costCell() cell {
	const workload = "write_path_cost"
	wakeFirst := false
	return cell{system: ourKeep, workloads: []string{workload}, run: func(ctx context.Context, b *bench) ([]figure, error) {
		rates := map[bool]float64{}
		for _, wake := range []bool{wakeFirst, !wakeFirst} {
			rate, err := wakeRate(ctx, b, 2*b.sizes.window, wake)
			if err != nil {
				return nil, err
			}
			rates[wake] = rate
		}
		wakeFirst = !wakeFirst
		return []figure{{workload, "% of the rate", 100 * (1 - rates[true]/rates[false])}}, nil
	}}
}

// wakeRate is the rate of enqueue_tx_16, with or without a notifier that is told after
// each commit and somebody who listens to it.
func wakeRate(ctx context.Context, b *bench, window time.Duration, wake bool) (rate float64, err error) {
	err = b.with(ctx, ourKeep, func(db *database, q queue) (err error) {
		if err := db.script(ctx, business, "CHECKPOINT"); err != nil {
			return err
		}
		notify, stop := listened(ctx, q.(*oursQueue), wake)
		defer stop()
		rate, err = hammer(ctx, db, 16, window, func(ctx context.Context, conn *pgx.Conn, n int) error {
			if err := txWithEvent(ctx, conn, q, n); err != nil {
				return err
			}
			notify()
			return nil
		})
		return err
	})
	return rate, err
}

// listened returns what to call after a commit, with a listener on the other side.
func listened(ctx context.Context, q *oursQueue, wake bool) (notify, stop func()) {
	notify, stopNotifier := notifier(ctx, q, wake)
	if !wake {
		return notify, stopNotifier
	}
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { _ = q.store.Listen(ctx, func() {}) }) // ends with ctx
	return notify, func() { stopNotifier(); cancel(); group.Wait() }
}

const (
	enqueueMany = "enqueue_many_1000"
	manyCount   = 1000
)

func manyCell(s system) cell {
	return cell{system: s, workloads: []string{enqueueMany}, run: func(ctx context.Context, b *bench) ([]figure, error) {
		var rate float64
		err := b.with(ctx, s, func(db *database, q queue) (err error) {
			if err := db.script(ctx, "CHECKPOINT"); err != nil {
				return err
			}
			rate, err = hammer(ctx, db, 1, b.sizes.window, func(ctx context.Context, conn *pgx.Conn, n int) error {
				return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return q.enqueueMany(ctx, tx, n*manyCount, manyCount) })
			})
			return err
		})
		return []figure{{enqueueMany, "rows/s", rate * manyCount}}, err
	}}
}

func copyCell() cell {
	columns := []string{"event_id", "tenant_id", "topic", "msg_key", "payload"}
	return cell{system: bareCopy, workloads: []string{enqueueMany}, run: func(ctx context.Context, b *bench) ([]figure, error) {
		var rate float64
		err := b.with(ctx, bareCopy, func(db *database, _ queue) (err error) {
			if err := db.script(ctx, bareTable, "CHECKPOINT"); err != nil {
				return err
			}
			rate, err = hammer(ctx, db, 1, b.sizes.window, func(ctx context.Context, conn *pgx.Conn, n int) error {
				rows := pgx.CopyFromSlice(manyCount, func(i int) ([]any, error) {
					return []any{uuid.New(), tenant, topic, key(n*manyCount + i), string(payload(n*manyCount + i))}, nil
				})
				_, err := conn.CopyFrom(ctx, pgx.Identifier{"bare"}, columns, rows)
				return err
			})
			return err
		})
		return []figure{{enqueueMany, "rows/s", rate * manyCount}}, err
	}}
}

// hammer runs do on conns connections for a window and returns how often per second
// it succeeded. Each connection does it once before the clock starts, so that
// statements are described and caches are warm.
func hammer(ctx context.Context, db *database, conns int, window time.Duration, do func(ctx context.Context, conn *pgx.Conn, n int) error) (float64, error) {
	var (
		group sync.WaitGroup
		next  atomic.Int64
		done  atomic.Int64
		start = make(chan struct{})
		ready sync.WaitGroup
		errs  = make(chan error, conns)
		until time.Time
	)
	ready.Add(conns)
	for range conns {
		group.Go(func() {
			errs <- func() error {
				warm := sync.OnceFunc(ready.Done)
				defer warm()
				conn, err := db.Acquire(ctx)
				if err != nil {
					return err
				}
				defer conn.Release()
				if err := do(ctx, conn.Conn(), int(next.Add(1))); err != nil {
					return err
				}
				warm()
				<-start
				for time.Now().Before(until) {
					if err := do(ctx, conn.Conn(), int(next.Add(1))); err != nil {
						return err
					}
					done.Add(1)
				}
				return nil
			}()
		})
	}
	ready.Wait()
	begun := time.Now()
	until = begun.Add(window)
	close(start)
	group.Wait()
	elapsed := time.Since(begun)
	for range conns {
		if err := <-errs; err != nil {
			return 0, err
		}
	}
	return float64(done.Load()) / elapsed.Seconds(), nil
}
