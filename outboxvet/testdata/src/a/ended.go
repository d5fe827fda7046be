package a

import (
	"context"
	"database/sql"
	"errors"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/store/pgstore"
	"github.com/jackc/pgx/v5"
)

func afterCommit(ctx context.Context, s *pgstore.Store, tx pgx.Tx) error {
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	_, err := s.Enqueue(ctx, tx, msg) // want `Enqueue after tx was committed or rolled back`
	return err
}

func afterEither(ctx context.Context, s *pgstore.Store, tx pgx.Tx, ok bool) error {
	if ok {
		_ = tx.Commit(ctx)
	} else {
		_ = tx.Rollback(ctx)
	}
	_, err := s.EnqueueMany(ctx, tx, nil) // want `EnqueueMany after tx was committed or rolled back`
	return err
}

func inALoop(ctx context.Context, s *pgstore.Store, pool *pgx.Pool, msgs []outbox.Message) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	for _, m := range msgs {
		if _, err := s.Enqueue(ctx, tx, m); err != nil { // want `Enqueue after tx`
			return err
		}
	}
	return nil
}

func usual(ctx context.Context, s *pgstore.Store, pool *pgx.Pool) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	if _, err := s.Enqueue(ctx, tx, msg); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

func onOnePath(ctx context.Context, s *pgstore.Store, tx pgx.Tx, err error) error {
	if err != nil {
		_ = tx.Rollback(ctx)
	}
	if err == nil {
		_, err = s.Enqueue(ctx, tx, msg)
	}
	return err
}

func returned(ctx context.Context, s *pgstore.Store, tx pgx.Tx, bad bool) error {
	if bad {
		return errors.Join(errors.New("bad"), tx.Rollback(ctx))
	}
	_, err := s.Enqueue(ctx, tx, msg)
	return err
}

func begunAgain(ctx context.Context, s *pgstore.Store, pool *pgx.Pool) error {
	var tx pgx.Tx
	var err error
	for range 3 {
		if tx, err = pool.Begin(ctx); err != nil {
			return err
		}
		if _, err := s.Enqueue(ctx, tx, msg); err != nil {
			return err
		}
		if err := tx.Commit(ctx); err != nil {
			return err
		}
	}
	return nil
}

func inner(ctx context.Context, s *pgstore.Store, outer, nested pgx.Tx) error {
	if err := nested.Commit(ctx); err != nil {
		return err
	}
	_, err := s.Enqueue(ctx, outer, msg)
	return err
}

type sqlStore struct{}

func (sqlStore) Enqueue(ctx context.Context, tx *sql.Tx, msg outbox.Message) (int64, error) {
	return 0, nil
}

func withDatabaseSQL(ctx context.Context, s sqlStore, tx *sql.Tx) error {
	if err := tx.Commit(); err != nil {
		return err
	}
	_, err := s.Enqueue(ctx, tx, msg) // want `Enqueue after tx`
	return err
}
