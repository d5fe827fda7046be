package pgx

import "context"

type Tx interface {
	Exec(ctx context.Context, sql string, args ...any) (int, error)
	Commit(ctx context.Context) error
	Rollback(ctx context.Context) error
}

type Batch struct{}

type Pool struct{}

func (*Pool) Begin(ctx context.Context) (Tx, error) { return nil, nil }

func BeginFunc(ctx context.Context, pool *Pool, fn func(tx Tx) error) error { return nil }
