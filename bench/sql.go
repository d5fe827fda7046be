package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/relay"
)

// sqlGroups measure the databases that are reached through database/sql.
func sqlGroups() []group {
	return []group{sqliteDatabase().group(), mariadbDatabase().group()}
}

// A sqlDatabase is a database behind database/sql. Its workloads begin with its name.
type sqlDatabase struct {
	name    string
	conns   []int // of the enqueues
	count   func(z sizes) int
	systems []sqlSystem
	missing func() error
	// open makes an empty database, and drop removes it.
	open func(ctx context.Context) (db *sql.DB, drop func() error, err error)
	// rest brings the tables to rest before a drain. Nil for nothing.
	rest func(ctx context.Context, db *sql.DB) error
	// close stops the server. Nil for none.
	close func(ctx context.Context) error
}

// A sqlSystem is one system on such a database.
type sqlSystem struct {
	system
	open func(ctx context.Context, db *sql.DB) (*sqlQueue, error)
	// enqueues: its enqueue is measured. keeps and deletes: its drain appears in the
	// table of those that keep what is published, or delete it, or both.
	enqueues, keeps, deletes bool
}

// A sqlQueue is a system, set up in a database.
type sqlQueue struct {
	queue // the rest of the interface is PostgreSQL's
	db    *sql.DB
	// write enqueues count messages, beginning with n. Nil writes none.
	write   func(ctx context.Context, tx *sql.Tx, n, count int) error
	deliver func(ctx context.Context, handle func(payload []byte)) error
}

func (q *sqlQueue) relay(ctx context.Context, handle func(payload []byte)) error {
	return q.deliver(ctx, handle)
}

// ourSQLQueue is our store with a relay of this configuration.
func ourSQLQueue(db *sql.DB, store outbox.Store, cfg relay.Config, write func(ctx context.Context, tx *sql.Tx, msgs []outbox.Message) error) *sqlQueue {
	return &sqlQueue{
		db: db,
		write: func(ctx context.Context, tx *sql.Tx, n, count int) error {
			msgs := make([]outbox.Message, count)
			for i := range msgs {
				msgs[i] = message(n + i)
			}
			return write(ctx, tx, msgs)
		},
		deliver: func(ctx context.Context, handle func(payload []byte)) error {
			r, err := relay.New(store, batchHandler(handle), cfg)
			if err != nil {
				return err
			}
			return r.Run(ctx)
		},
	}
}

func (d sqlDatabase) group() group {
	g := group{missing: d.missing, close: d.close}
	for _, s := range d.systems {
		if s.enqueues {
			for _, conns := range d.conns {
				g.cells = append(g.cells, d.enqueueCell(s, conns))
			}
		}
		if s.enqueues && s.deliver() {
			g.cells = append(g.cells, d.manyCell(s))
		}
	}
	for _, s := range d.systems {
		if s.deliver() {
			g.cells = append(g.cells, d.drainCell(s))
		}
	}
	return g
}

// deliver: it is more than the business transaction.
func (s sqlSystem) deliver() bool { return s.keeps || s.deletes }

func (d sqlDatabase) enqueueCell(s sqlSystem, conns int) cell {
	workload := d.name + "_enqueue"
	if !s.deliver() {
		workload = d.name + "_business_only"
	}
	if conns > 1 {
		workload += "_" + strconv.Itoa(conns)
	}
	return d.cell(s, []string{workload}, func(ctx context.Context, z sizes, q *sqlQueue) ([]figure, error) {
		rate, err := q.hammer(ctx, conns, z.window)
		return []figure{{workload, "tx/s", rate}}, err
	})
}

func (d sqlDatabase) manyCell(s sqlSystem) cell {
	workload := d.name + "_" + enqueueMany
	return d.cell(s, []string{workload}, func(ctx context.Context, z sizes, q *sqlQueue) ([]figure, error) {
		start := time.Now()
		err := q.load(ctx, d.count(z))
		return []figure{{workload, "rows/s", float64(d.count(z)) / time.Since(start).Seconds()}}, err
	})
}

func (d sqlDatabase) drainCell(s sqlSystem) cell {
	var workloads []string
	if s.keeps {
		workloads = append(workloads, d.name+"_drain")
	}
	if s.deletes {
		workloads = append(workloads, d.name+"_drain_delete")
	}
	return d.cell(s, workloads, func(ctx context.Context, z sizes, q *sqlQueue) (figures []figure, err error) {
		if err := q.load(ctx, d.count(z)); err != nil {
			return nil, fmt.Errorf("load: %w", err)
		}
		if d.rest != nil {
			if err := d.rest(ctx, q.db); err != nil {
				return nil, err
			}
		}
		r, err := drain(ctx, s.system, q, d.count(z), z.cut, noop)
		for _, name := range workloads {
			figures = append(figures, figure{name, "msg/s", r.rate()})
		}
		return figures, err
	})
}

// cell gives fn a database of its own with system s in it.
func (d sqlDatabase) cell(s sqlSystem, workloads []string, fn func(ctx context.Context, z sizes, q *sqlQueue) ([]figure, error)) cell {
	return cell{system: s.system, workloads: workloads, run: func(ctx context.Context, b *bench) (figures []figure, err error) {
		db, drop, err := d.open(ctx)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, drop()) }()
		if _, err := db.ExecContext(ctx, `CREATE TABLE biz (id varchar(36) PRIMARY KEY, v text, n int)`); err != nil {
			return nil, err
		}
		q, err := s.open(ctx, db)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", s.name, err)
		}
		return fn(ctx, b.sizes, q)
	}}
}

// hammer commits business rows, each with an event, for a window, one after the other
// on every connection. A tenth of it before that is not counted: connections are made
// and caches are warmed.
func (q *sqlQueue) hammer(ctx context.Context, conns int, window time.Duration) (float64, error) {
	var next atomic.Int64
	if _, err := q.burst(ctx, conns, window/10, &next); err != nil {
		return 0, err
	}
	return q.burst(ctx, conns, window, &next)
}

func (q *sqlQueue) burst(ctx context.Context, conns int, window time.Duration, next *atomic.Int64) (float64, error) {
	var group sync.WaitGroup
	errs := make([]error, conns)
	first, start := next.Load(), time.Now()
	for i := range conns {
		group.Go(func() {
			for errs[i] == nil && time.Since(start) < window {
				errs[i] = q.transact(ctx, int(next.Add(1)))
			}
		})
	}
	group.Wait()
	return float64(next.Load()-first) / time.Since(start).Seconds(), errors.Join(errs...)
}

func (q *sqlQueue) transact(ctx context.Context, n int) error {
	return q.inTx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO biz (id, v, n) VALUES (?, ?, ?)`, uuid.NewString(), "value", n)
		if err == nil && q.write != nil {
			err = q.write(ctx, tx, n, 1)
		}
		return err
	})
}

func (q *sqlQueue) inTx(ctx context.Context, fn func(tx *sql.Tx) error) error {
	tx, err := q.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// load writes messages in transactions of 1,000.
func (q *sqlQueue) load(ctx context.Context, count int) error {
	for n := 1; n <= count; n += manyCount {
		err := q.inTx(ctx, func(tx *sql.Tx) error { return q.write(ctx, tx, n, min(manyCount, count-n+1)) })
		if err != nil {
			return err
		}
	}
	return nil
}

// sqlNothing is the same transaction without an event.
var sqlNothing = sqlSystem{
	system: nothing, enqueues: true,
	open: func(_ context.Context, db *sql.DB) (*sqlQueue, error) { return &sqlQueue{db: db}, nil },
}

// sqlUnclaimed is the loop of unclaimed over a table that ours, another system, fills.
func sqlUnclaimed(ours sqlSystem) sqlSystem {
	return sqlSystem{
		system: unclaimedSystem, keeps: true, deletes: true,
		open: func(ctx context.Context, db *sql.DB) (*sqlQueue, error) {
			q, err := ours.open(ctx, db)
			if err != nil {
				return nil, err
			}
			q.deliver = func(ctx context.Context, handle func(payload []byte)) error { return unclaimedLoop(ctx, db, handle) }
			return q, nil
		},
	}
}

// unclaimedLoop selects, dispatches one by one and deletes by ids. A batch that was
// begun is finished, so that the figure includes the DELETE.
func unclaimedLoop(ctx context.Context, db *sql.DB, handle func(payload []byte)) error {
	whole := context.WithoutCancel(ctx)
	for ctx.Err() == nil {
		ids, payloads, err := unclaimedNext(whole, db)
		if err != nil {
			return err
		}
		if len(ids) == 0 {
			pause(ctx, 2*time.Millisecond)
			continue
		}
		list := make([]byte, 0, 8*len(ids))
		for i, id := range ids {
			handle(payloads[i])
			list = append(strconv.AppendInt(list, id, 10), ',')
		}
		// Numbers need no parameters, and no server takes a thousand of them gladly.
		_, err = db.ExecContext(whole, `DELETE FROM `+table+` WHERE sequence IN (`+string(list[:len(list)-1])+`)`)
		if err != nil {
			return err
		}
	}
	return nil
}

func unclaimedNext(ctx context.Context, db *sql.DB) (ids []int64, payloads [][]byte, err error) {
	rows, err := db.QueryContext(ctx, fmt.Sprintf(`SELECT sequence, event_id, tenant_id, topic, created_at, payload FROM %s
ORDER BY sequence LIMIT %d`, table, unclaimedBatch))
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var (
			id                        int64
			eventID, tenantID, aTopic string
			created                   any
			body                      []byte
		)
		if err := rows.Scan(&id, &eventID, &tenantID, &aTopic, &created, &body); err != nil {
			return nil, nil, err
		}
		ids, payloads = append(ids, id), append(payloads, body)
	}
	return ids, payloads, rows.Err()
}
