package main

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/store/pgstore"
	"github.com/go-outbox/outbox/store/sqlitestore"
)

// sqliteScratch makes an outbox in a file of its own beside the given one, so that
// it is on the same disk.
func sqliteScratch(ctx context.Context, path string) (*scratch, error) {
	dir, err := os.MkdirTemp(filepath.Dir(path), "outbox-bench-")
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", sqliteDSN(filepath.Join(dir, "bench.db"), true))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s, err := sqlitestore.New(db, sqlitestore.Config{Table: "bench_outbox"})
	if err != nil {
		return nil, errors.Join(err, db.Close(), os.RemoveAll(dir))
	}
	return &scratch{
		store: s,
		one: func(ctx context.Context, msg outbox.Message) error {
			_, err := s.EnqueueAutocommit(ctx, msg)
			return err
		},
		many: func(ctx context.Context, msgs []outbox.Message) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			if _, err := s.EnqueueMany(ctx, tx, msgs); err != nil {
				return errors.Join(err, tx.Rollback())
			}
			return tx.Commit()
		},
		drop: func(context.Context) error { return errors.Join(db.Close(), os.RemoveAll(dir)) },
	}, nil
}

// postgresScratch makes an outbox in a schema of its own.
func postgresScratch(ctx context.Context, pool *pgxpool.Pool) (*scratch, error) {
	schema := "outbox_bench_" + uuid.NewString()[:8]
	quoted := pgx.Identifier{schema}.Sanitize()
	if _, err := pool.Exec(ctx, "CREATE SCHEMA "+quoted); err != nil {
		return nil, err
	}
	s, err := pgstore.New(pool, pgstore.Config{Table: schema + ".bench_outbox"})
	if err != nil {
		return nil, err
	}
	return &scratch{
		store: s,
		one: func(ctx context.Context, msg outbox.Message) error {
			_, err := s.EnqueueAutocommit(ctx, msg)
			return err
		},
		many: func(ctx context.Context, msgs []outbox.Message) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				_, err := s.EnqueueMany(ctx, tx, msgs)
				return err
			})
		},
		drop: func(ctx context.Context) error {
			_, err := pool.Exec(ctx, "DROP SCHEMA "+quoted+" CASCADE")
			return err
		},
	}, nil
}
