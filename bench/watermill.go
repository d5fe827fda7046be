package main

import (
	"context"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	wmessage "github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

var (
	watermillSystem = system{
		name:       "watermill",
		settings:   "watermill-sql v4.0.0, default schema and offsets: SubscribeBatchSize 1000, PollInterval 10 ms, one subscriber",
		sequential: true,
		open: func(ctx context.Context, pool *pgxpool.Pool) (queue, error) {
			return openWatermill(pool, wsql.DefaultPostgreSQLSchema{SubscribeBatchSize: 1000}, wsql.DefaultPostgreSQLOffsetsAdapter{})
		},
	}
	watermillQueueSystem = system{
		name:       "watermill_queue",
		settings:   "watermill-sql v4.0.0, queue schema with DeleteOnAck: SubscribeBatchSize 1000, PollInterval 10 ms, one subscriber",
		sequential: true,
		open: func(ctx context.Context, pool *pgxpool.Pool) (queue, error) {
			return openWatermill(pool, wsql.PostgreSQLQueueSchema{SubscribeBatchSize: 1000}, wsql.PostgreSQLQueueOffsetsAdapter{DeleteOnAck: true})
		},
	}
)

// watermillTopic names the table.
const watermillTopic = "orders"

type watermillQueue struct {
	pool    *pgxpool.Pool
	schema  wsql.SchemaAdapter
	offsets wsql.OffsetsAdapter
}

func openWatermill(pool *pgxpool.Pool, schema wsql.SchemaAdapter, offsets wsql.OffsetsAdapter) (queue, error) {
	q := &watermillQueue{pool: pool, schema: schema, offsets: offsets}
	s, err := q.subscriber()
	if err != nil {
		return nil, err
	}
	return q, s.SubscribeInitialize(watermillTopic)
}

func (q *watermillQueue) subscriber() (*wsql.Subscriber, error) {
	return wsql.NewSubscriber(wsql.BeginnerFromPgx(q.pool), wsql.SubscriberConfig{
		SchemaAdapter: q.schema, OffsetsAdapter: q.offsets, PollInterval: 10 * time.Millisecond,
	}, watermill.NopLogger{})
}

func (q *watermillQueue) enqueue(ctx context.Context, tx pgx.Tx, n int) error {
	return q.enqueueMany(ctx, tx, n, 1)
}

func (q *watermillQueue) enqueueMany(ctx context.Context, tx pgx.Tx, n, count int) error {
	publisher, err := wsql.NewPublisher(wsql.TxFromPgx(tx), wsql.PublisherConfig{SchemaAdapter: q.schema}, watermill.NopLogger{})
	if err != nil {
		return err
	}
	msgs := make([]*wmessage.Message, count)
	for i := range msgs {
		msgs[i] = wmessage.NewMessageWithContext(ctx, watermill.NewUUID(), payload(n+i))
	}
	return publisher.Publish(watermillTopic, msgs...)
}

func (q *watermillQueue) load(ctx context.Context, count int) error {
	return loadBy(ctx, q.pool, q, count, 1000)
}

func (q *watermillQueue) relay(ctx context.Context, handle func(payload []byte)) error {
	s, err := q.subscriber()
	if err != nil {
		return err
	}
	msgs, err := s.Subscribe(ctx, watermillTopic)
	if err != nil {
		return err
	}
	for msg := range msgs {
		handle(msg.Payload)
		msg.Ack()
	}
	return s.Close()
}
