package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/vgarvardt/gue/v5"
	"github.com/vgarvardt/gue/v5/adapter/pgxv5"
)

var gueSystem = system{
	name:     "gue",
	settings: "v5.7.0, pgx v5: 16 workers, poll interval 10 ms, run-at strategy",
	slow:     true,
	open:     openGue,
}

// gueSchema is the module's migrations/schema.sql, which it does not export.
const gueSchema = `
CREATE TABLE IF NOT EXISTS gue_jobs (
  job_id      TEXT        NOT NULL PRIMARY KEY,
  priority    SMALLINT    NOT NULL,
  run_at      TIMESTAMPTZ NOT NULL,
  job_type    TEXT        NOT NULL,
  args        BYTEA       NOT NULL,
  error_count INTEGER     NOT NULL DEFAULT 0,
  last_error  TEXT,
  queue       TEXT        NOT NULL,
  created_at  TIMESTAMPTZ NOT NULL,
  updated_at  TIMESTAMPTZ NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_gue_jobs_selector ON gue_jobs (queue, run_at, priority);`

type gueQueue struct {
	pool   *pgxpool.Pool
	client *gue.Client
}

func openGue(ctx context.Context, pool *pgxpool.Pool) (queue, error) {
	if _, err := pool.Exec(ctx, gueSchema); err != nil {
		return nil, err
	}
	client, err := gue.NewClient(pgxv5.NewConnPool(pool))
	return &gueQueue{pool: pool, client: client}, err
}

func (q *gueQueue) enqueue(ctx context.Context, tx pgx.Tx, n int) error {
	return q.client.EnqueueTx(ctx, &gue.Job{Type: "event", Args: payload(n)}, pgxv5.NewTx(tx))
}

func (q *gueQueue) enqueueMany(ctx context.Context, tx pgx.Tx, n, count int) error {
	jobs := make([]*gue.Job, count)
	for i := range jobs {
		jobs[i] = &gue.Job{Type: "event", Args: payload(n + i)}
	}
	return q.client.EnqueueBatchTx(ctx, jobs, pgxv5.NewTx(tx))
}

func (q *gueQueue) load(ctx context.Context, count int) error {
	return loadBy(ctx, q.pool, q, count, 1000)
}

func (q *gueQueue) relay(ctx context.Context, handle func(payload []byte)) error {
	work := gue.WorkMap{"event": func(_ context.Context, job *gue.Job) error {
		handle(job.Args)
		return nil
	}}
	pool, err := gue.NewWorkerPool(q.client, work, 16,
		gue.WithPoolPollInterval(10*time.Millisecond), gue.WithPoolPollStrategy(gue.RunAtPollStrategy))
	if err != nil {
		return err
	}
	return pool.Run(ctx)
}
