package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

var riverSystem = system{
	name: "river",
	settings: "v0.50.0, riverpgxv5: 1000 workers, FetchCooldown 2 ms, FetchPollInterval 20 ms; batches by InsertManyFastTx (COPY); " +
		"completed jobs stay, as by default",
	slow: true,
	open: openRiver,
}

type riverJob struct {
	Payload json.RawMessage `json:"payload"`
}

func (riverJob) Kind() string { return "event" }

type riverWorker struct {
	river.WorkerDefaults[riverJob]
	handle func(payload []byte)
}

func (w *riverWorker) Work(_ context.Context, job *river.Job[riverJob]) error {
	w.handle(job.Args.Payload)
	return nil
}

type riverQueue struct {
	pool   *pgxpool.Pool
	insert *river.Client[pgx.Tx]
}

func openRiver(ctx context.Context, pool *pgxpool.Pool) (queue, error) {
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: silent()})
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	insert, err := river.NewClient(driver, &river.Config{Logger: silent()})
	return &riverQueue{pool: pool, insert: insert}, err
}

func (q *riverQueue) enqueue(ctx context.Context, tx pgx.Tx, n int) error {
	_, err := q.insert.InsertTx(ctx, tx, riverJob{payload(n)}, nil)
	return err
}

func (q *riverQueue) enqueueMany(ctx context.Context, tx pgx.Tx, n, count int) error {
	jobs := make([]river.InsertManyParams, count)
	for i := range jobs {
		jobs[i].Args = riverJob{payload(n + i)}
	}
	_, err := q.insert.InsertManyFastTx(ctx, tx, jobs)
	return err
}

func (q *riverQueue) load(ctx context.Context, count int) error {
	return loadBy(ctx, q.pool, q, count, 10_000)
}

func (q *riverQueue) relay(ctx context.Context, handle func(payload []byte)) error {
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{handle: handle})
	client, err := river.NewClient(riverpgxv5.New(q.pool), &river.Config{
		Logger:            silent(),
		Workers:           workers,
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1000}},
		FetchCooldown:     2 * time.Millisecond,
		FetchPollInterval: 20 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	detached := context.WithoutCancel(ctx)
	if err := client.Start(detached); err != nil {
		return err
	}
	<-ctx.Done()
	stop, cancel := context.WithTimeout(detached, 10*time.Second)
	defer cancel()
	return client.StopAndCancel(stop)
}

func silent() *slog.Logger {
	return slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError + 1}))
}
