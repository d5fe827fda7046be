package pgstore

import (
	"context"

	"github.com/go-outbox/outbox"
	"github.com/jackc/pgx/v5"
)

type Store struct{}

func (*Store) Enqueue(ctx context.Context, tx pgx.Tx, msg outbox.Message) (int64, error) {
	return 0, nil
}

func (*Store) EnqueueMany(ctx context.Context, tx pgx.Tx, msgs []outbox.Message) ([]int64, error) {
	return nil, nil
}

func (*Store) EnqueueAutocommit(ctx context.Context, msg outbox.Message) (int64, error) {
	return 0, nil
}

func (*Store) QueueEnqueue(ctx context.Context, b *pgx.Batch, msg outbox.Message, done func(int64)) error {
	return nil
}
