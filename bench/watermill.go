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
		open: func(_ context.Context, pool *pgxpool.Pool) (queue, error) {
			return openWatermill(pool, wsql.DefaultPostgreSQLSchema{SubscribeBatchSize: 1000}, wsql.DefaultPostgreSQLOffsetsAdapter{})
		},
	}
	watermillQueueSystem = system{
		name:       "watermill_queue",
		settings:   "watermill-sql v4.0.0, queue schema with DeleteOnAck: SubscribeBatchSize 1000, PollInterval 10 ms, one subscriber",
		sequential: true,
		open: func(_ context.Context, pool *pgxpool.Pool) (queue, error) {
			return openWatermill(pool, wsql.PostgreSQLQueueSchema{SubscribeBatchSize: 1000}, wsql.PostgreSQLQueueOffsetsAdapter{DeleteOnAck: true})
		},
	}
)

// watermillName is the topic, which names the table.
const watermillName = "orders"

// A watermillTopic is a topic in any database that watermill-sql knows.
type watermillTopic struct {
	db      wsql.Beginner
	schema  wsql.SchemaAdapter
	offsets wsql.OffsetsAdapter
}

// initialize makes the tables.
func (t watermillTopic) initialize() error {
	s, err := t.subscriber()
	if err != nil {
		return err
	}
	return s.SubscribeInitialize(watermillName)
}

func (t watermillTopic) subscriber() (*wsql.Subscriber, error) {
	return wsql.NewSubscriber(t.db, wsql.SubscriberConfig{
		SchemaAdapter: t.schema, OffsetsAdapter: t.offsets, PollInterval: 10 * time.Millisecond,
	}, watermill.NopLogger{})
}

func (t watermillTopic) publish(ctx context.Context, tx wsql.Tx, n, count int) error {
	publisher, err := wsql.NewPublisher(tx, wsql.PublisherConfig{SchemaAdapter: t.schema}, watermill.NopLogger{})
	if err != nil {
		return err
	}
	msgs := make([]*wmessage.Message, count)
	for i := range msgs {
		msgs[i] = wmessage.NewMessageWithContext(ctx, watermill.NewUUID(), payload(n+i))
	}
	return publisher.Publish(watermillName, msgs...)
}

func (t watermillTopic) relay(ctx context.Context, handle func(payload []byte)) error {
	s, err := t.subscriber()
	if err != nil {
		return err
	}
	msgs, err := s.Subscribe(ctx, watermillName)
	if err != nil {
		return err
	}
	for msg := range msgs {
		handle(msg.Payload)
		msg.Ack()
	}
	return s.Close()
}

type watermillQueue struct {
	watermillTopic
	pool *pgxpool.Pool
}

func openWatermill(pool *pgxpool.Pool, schema wsql.SchemaAdapter, offsets wsql.OffsetsAdapter) (queue, error) {
	q := &watermillQueue{watermillTopic{wsql.BeginnerFromPgx(pool), schema, offsets}, pool}
	return q, q.initialize()
}

func (q *watermillQueue) enqueue(ctx context.Context, tx pgx.Tx, n int) error {
	return q.enqueueMany(ctx, tx, n, 1)
}

func (q *watermillQueue) enqueueMany(ctx context.Context, tx pgx.Tx, n, count int) error {
	return q.publish(ctx, wsql.TxFromPgx(tx), n, count)
}

func (q *watermillQueue) load(ctx context.Context, count int) error {
	return loadBy(ctx, q.pool, q, count, 1000)
}
