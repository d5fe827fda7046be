package main

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/relay"
	"github.com/go-outbox/outbox/store/sqlitestore"
)

func sqliteDatabase() sqlDatabase {
	keep := ourSQLite("modernc.org/sqlite, WAL, synchronous=FULL; "+narrowThroughput+", rows kept", narrow(tuned()))
	keep.enqueues, keep.keeps = true, true
	remove := ourSQLite("the same, rows deleted", deleting(narrow(tuned())))
	remove.deletes = true
	return sqlDatabase{
		name: "sqlite", conns: []int{1}, count: func(z sizes) int { return z.sqlite }, open: openSQLite,
		systems: []sqlSystem{keep, remove, sqlUnclaimed(keep), sqlNothing},
	}
}

// openSQLite makes a file of its own.
func openSQLite(ctx context.Context) (*sql.DB, func() error, error) {
	dir, err := os.MkdirTemp("", "outbox-bench-")
	if err != nil {
		return nil, nil, err
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "bench.db")+"?_pragma=busy_timeout(5000)&_pragma=synchronous(FULL)&_txlock=immediate")
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	drop := func() error { return errors.Join(db.Close(), os.RemoveAll(dir)) }
	if err := sqlitestore.Prepare(ctx, db); err != nil {
		return nil, nil, errors.Join(err, drop())
	}
	return db, drop, nil
}

func ourSQLite(settings string, cfg relay.Config) sqlSystem {
	return sqlSystem{
		system: system{name: "outbox", settings: settings, settles: true},
		open: func(ctx context.Context, db *sql.DB) (*sqlQueue, error) {
			store, err := sqlitestore.New(db, sqlitestore.Config{Table: table})
			if err != nil {
				return nil, err
			}
			if _, err := store.Migrate(ctx); err != nil {
				return nil, err
			}
			return ourSQLQueue(db, store, cfg, func(ctx context.Context, tx *sql.Tx, msgs []outbox.Message) error {
				if len(msgs) == 1 {
					_, err := store.Enqueue(ctx, tx, msgs[0])
					return err
				}
				_, err := store.EnqueueMany(ctx, tx, msgs)
				return err
			}), nil
		},
	}
}
