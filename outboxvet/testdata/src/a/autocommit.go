package a

import (
	"context"
	"database/sql"

	"github.com/go-outbox/outbox/store/pgstore"
	"github.com/jackc/pgx/v5"
)

func besideAParameter(ctx context.Context, s *pgstore.Store, tx *sql.Tx) error {
	_, err := s.EnqueueAutocommit(ctx, msg) // want `EnqueueAutocommit while tx is open`
	return err
}

func besideAVariable(ctx context.Context, s *pgstore.Store, pool *pgx.Pool) error {
	work, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer work.Rollback(ctx)
	if _, err := s.EnqueueAutocommit(ctx, msg); err != nil { // want `EnqueueAutocommit while work is open`
		return err
	}
	return work.Commit(ctx)
}

func inACallback(ctx context.Context, s *pgstore.Store, pool *pgx.Pool) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := s.EnqueueAutocommit(ctx, msg) // want `EnqueueAutocommit while tx is open`
		return err
	})
}

func afterIt(ctx context.Context, s *pgstore.Store, tx pgx.Tx) error {
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	_, err := s.EnqueueAutocommit(ctx, msg)
	return err
}

func aboutAFailure(ctx context.Context, s *pgstore.Store, tx pgx.Tx, work func() error) error {
	if err := work(); err != nil {
		_ = tx.Rollback(ctx)
		_, err = s.EnqueueAutocommit(ctx, msg)
		return err
	}
	return tx.Commit(ctx)
}

func beforeIt(ctx context.Context, s *pgstore.Store, pool *pgx.Pool) error {
	if _, err := s.EnqueueAutocommit(ctx, msg); err != nil {
		return err
	}
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	return tx.Commit(ctx)
}

func outOfScope(ctx context.Context, s *pgstore.Store, pool *pgx.Pool, some bool) error {
	if some {
		tx, err := pool.Begin(ctx)
		if err != nil {
			return err
		}
		return tx.Commit(ctx)
	}
	_, err := s.EnqueueAutocommit(ctx, msg)
	return err
}

// A transaction of something else than SQL.
type kv interface {
	Commit() error
	Rollback() error
}

func besideAnother(ctx context.Context, s *pgstore.Store, tx kv) error {
	_, err := s.EnqueueAutocommit(ctx, msg)
	return err
}

// The callback runs at another time.
func later(ctx context.Context, s *pgstore.Store, tx pgx.Tx) func() error {
	return func() error {
		_, err := s.EnqueueAutocommit(ctx, msg)
		return err
	}
}
