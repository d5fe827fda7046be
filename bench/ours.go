package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/relay"
	"github.com/go-outbox/outbox/store/pgstore"
)

// table is our outbox in every database.
const table = "orders_outbox"

type oursConfig struct {
	cfg relay.Config
	// batch: the dispatcher takes many messages per call.
	batch bool
	// verbatim: the table is not made by us.
	verbatim bool
}

// tuned are the settings for throughput.
func tuned() relay.Config { return relay.Config{Batch: 1000, Window: 32_000, Concurrency: 256} }

// narrow is for databases that gain nothing, or lose, with a large window.
func narrow(c relay.Config) relay.Config {
	c.Window = 8000
	return c
}

func deleting(c relay.Config) relay.Config {
	c.DeleteOnPublish = true
	return c
}

func wide(c relay.Config) relay.Config {
	c.Concurrency = 1000
	return c
}

func ours(settings string, c oursConfig) system {
	return system{name: "outbox", settings: settings, settles: true, open: func(ctx context.Context, pool *pgxpool.Pool) (queue, error) {
		return openOurs(ctx, pool, c)
	}}
}

type oursQueue struct {
	oursConfig
	pool  *pgxpool.Pool
	store *pgstore.Store
	relays
}

func openOurs(ctx context.Context, pool *pgxpool.Pool, c oursConfig) (*oursQueue, error) {
	store, err := pgstore.New(pool, pgstore.Config{Table: table})
	if err != nil {
		return nil, err
	}
	if c.verbatim {
		if _, err := pool.Exec(ctx, seedTable(table)); err != nil {
			return nil, err
		}
	}
	if _, err := store.Migrate(ctx); err != nil {
		return nil, err
	}
	return &oursQueue{oursConfig: c, pool: pool, store: store}, nil
}

func (q *oursQueue) enqueue(ctx context.Context, tx pgx.Tx, n int) error {
	_, err := q.store.Enqueue(ctx, tx, message(n))
	return err
}

func (q *oursQueue) enqueueMany(ctx context.Context, tx pgx.Tx, n, count int) error {
	msgs := make([]outbox.Message, count)
	for i := range msgs {
		msgs[i] = message(n + i)
	}
	_, err := q.store.EnqueueMany(ctx, tx, msgs)
	return err
}

// queueEnqueue adds message n to a batch that goes out in one round trip.
func (q *oursQueue) queueEnqueue(ctx context.Context, batch *pgx.Batch, n int) error {
	return q.store.QueueEnqueue(ctx, batch, message(n), nil)
}

// load makes the backlog inside the server, because loading is not measured.
func (q *oursQueue) load(ctx context.Context, count int) error {
	if q.verbatim {
		return loadSeed(ctx, q.pool, count)
	}
	return loadOurs(ctx, q.pool, 1, count)
}

// loadOurs writes messages from to from+count-1 into our table, 100,000 per
// transaction.
func loadOurs(ctx context.Context, pool *pgxpool.Pool, from, count int) error {
	const slice = 100_000
	statement := fmt.Sprintf(`INSERT INTO %s (event_id, topic, msg_key, tenant_id, payload, content_type, event_version)
SELECT %s, '%s', %s, '%s', %s::json, 'application/json', 1 FROM generate_series($1::bigint, $2::bigint) AS i`,
		table, sqlEventID, topic, sqlKey, tenant, sqlPayload)
	for end := from + count; from < end; from += slice {
		if _, err := pool.Exec(ctx, statement, from, min(from+slice, end)-1); err != nil {
			return err
		}
	}
	return nil
}

func (q *oursQueue) relay(ctx context.Context, handle func(payload []byte)) error {
	r, err := relay.New(q.store, q.dispatcher(handle), q.cfg)
	if err != nil {
		return err
	}
	q.set(r)
	return r.Run(ctx)
}

func (q *oursQueue) dispatcher(handle func(payload []byte)) outbox.Dispatcher {
	if q.batch {
		return batchHandler(handle)
	}
	return oneByOne(handle)
}

func oneByOne(handle func(payload []byte)) outbox.DispatcherFunc {
	return func(_ context.Context, msg outbox.DispatchedMessage) error {
		handle(msg.Payload)
		return nil
	}
}

// batchHandler is a dispatcher that takes many messages per call.
func batchHandler(handle func(payload []byte)) outbox.Dispatcher {
	return batchDispatcher{oneByOne(handle), handle}
}

type batchDispatcher struct {
	outbox.DispatcherFunc
	handle func(payload []byte)
}

func (d batchDispatcher) DispatchBatch(_ context.Context, msgs []outbox.DispatchedMessage) []error {
	for i := range msgs {
		d.handle(msgs[i].Payload)
	}
	return make([]error, len(msgs))
}
