package main

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	_ "modernc.org/sqlite" // the driver

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/relay"
	"github.com/go-outbox/outbox/store/sqlitestore"
)

var (
	sqliteKeep   = system{name: "outbox", settings: "modernc.org/sqlite, WAL, synchronous=FULL; rows kept", settles: true}
	sqliteDelete = system{name: "outbox", settings: "the same, rows deleted", settles: true}
)

func sqliteGroups() []group {
	enqueue := group{cells: []cell{
		sqliteCell(sqliteKeep, "sqlite_enqueue", "tx/s", func(ctx context.Context, z sizes, q *sqliteQueue) (float64, error) {
			return q.hammer(ctx, z.window, true)
		}),
		sqliteCell(nothing, "sqlite_business_only", "tx/s", func(ctx context.Context, z sizes, q *sqliteQueue) (float64, error) {
			return q.hammer(ctx, z.window, false)
		}),
		sqliteCell(sqliteKeep, "sqlite_enqueue_many_1000", "rows/s", func(ctx context.Context, z sizes, q *sqliteQueue) (float64, error) {
			start := time.Now()
			err := q.load(ctx, z.sqlite)
			return float64(z.sqlite) / time.Since(start).Seconds(), err
		}),
	}}
	drains := group{cells: []cell{
		sqliteDrainCell(sqliteKeep, "sqlite_drain", tuned()),
		sqliteDrainCell(sqliteDelete, "sqlite_drain_delete", deleting(tuned())),
	}}
	return []group{enqueue, drains}
}

func sqliteDrainCell(s system, workload string, cfg relay.Config) cell {
	return sqliteCell(s, workload, "msg/s", func(ctx context.Context, z sizes, q *sqliteQueue) (float64, error) {
		if err := q.load(ctx, z.sqlite); err != nil {
			return 0, err
		}
		q.cfg = cfg
		d, err := drain(ctx, s, q, z.sqlite, 0, noop)
		return d.rate(), err
	})
}

// sqliteCell gives fn a file of its own.
func sqliteCell(s system, workload, unit string, fn func(ctx context.Context, z sizes, q *sqliteQueue) (float64, error)) cell {
	return cell{system: s, workloads: []string{workload}, run: func(ctx context.Context, b *bench) (figures []figure, err error) {
		dir, err := os.MkdirTemp("", "outbox-bench-")
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		q, err := openSQLite(ctx, filepath.Join(dir, "bench.db"))
		if err != nil {
			return nil, err
		}
		defer q.db.Close()
		rate, err := fn(ctx, b.sizes, q)
		return []figure{{workload, unit, rate}}, err
	}}
}

type sqliteQueue struct {
	queue // the rest of the interface is PostgreSQL's
	db    *sql.DB
	store *sqlitestore.Store
	cfg   relay.Config
}

func openSQLite(ctx context.Context, file string) (*sqliteQueue, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(5000)&_pragma=synchronous(FULL)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	q := &sqliteQueue{db: db}
	if err := q.prepare(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return q, nil
}

func (q *sqliteQueue) prepare(ctx context.Context) (err error) {
	if err := sqlitestore.Prepare(ctx, q.db); err != nil {
		return err
	}
	if q.store, err = sqlitestore.New(q.db, sqlitestore.Config{Table: table}); err != nil {
		return err
	}
	if _, err := q.store.Migrate(ctx); err != nil {
		return err
	}
	_, err = q.db.ExecContext(ctx, `CREATE TABLE biz (id text PRIMARY KEY, v text, n int)`)
	return err
}

// hammer commits one transaction after the other for a window.
func (q *sqliteQueue) hammer(ctx context.Context, window time.Duration, event bool) (float64, error) {
	done := 0
	start := time.Now()
	for time.Since(start) < window {
		err := q.inTx(ctx, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `INSERT INTO biz (id, v, n) VALUES (?, ?, ?)`, uuid.NewString(), "value", done)
			if err == nil && event {
				_, err = q.store.Enqueue(ctx, tx, message(done))
			}
			return err
		})
		if err != nil {
			return 0, err
		}
		done++
	}
	return float64(done) / time.Since(start).Seconds(), nil
}

func (q *sqliteQueue) inTx(ctx context.Context, fn func(tx *sql.Tx) error) error {
	tx, err := q.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func (q *sqliteQueue) load(ctx context.Context, count int) error {
	const slice = 1000
	for n := 1; n <= count; n += slice {
		msgs := make([]outbox.Message, min(slice, count-n+1))
		for i := range msgs {
			msgs[i] = message(n + i)
		}
		err := q.inTx(ctx, func(tx *sql.Tx) error {
			_, err := q.store.EnqueueMany(ctx, tx, msgs)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (q *sqliteQueue) relay(ctx context.Context, handle func(payload []byte)) error {
	r, err := relay.New(q.store, outbox.DispatcherFunc(func(_ context.Context, msg outbox.DispatchedMessage) error {
		handle(msg.Payload)
		return nil
	}), q.cfg)
	if err != nil {
		return err
	}
	return r.Run(ctx)
}
