package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

var literalSystem = system{
	name: "literal",
	settings: "written by us: the textbook relay. uuid key, five indexes, jsonb; claim 100 rows by FOR UPDATE SKIP LOCKED and UPDATE, " +
		"dispatch one by one, one UPDATE transaction per acknowledgement, poll 1 s",
	slow: true, sequential: true, yardstick: true,
	open: func(ctx context.Context, pool *pgxpool.Pool) (queue, error) {
		_, err := pool.Exec(ctx, seedTable(table))
		return &literalQueue{pool: pool}, err
	},
}

// seedTable is the textbook table with its constraints and indexes.
func seedTable(name string) string {
	return fmt.Sprintf(`
CREATE TABLE IF NOT EXISTS %[1]s (
  id           uuid        NOT NULL DEFAULT gen_random_uuid(),
  tenant_id    uuid        NOT NULL,
  topic        text        NOT NULL,
  payload      jsonb       NOT NULL,
  event_id     uuid        NOT NULL,
  sequence     bigserial   NOT NULL,
  created_at   timestamptz NOT NULL DEFAULT now(),
  published_at timestamptz NULL,
  attempts     int         NOT NULL DEFAULT 0,
  available_at timestamptz NOT NULL DEFAULT now(),
  locked_at    timestamptz NULL,
  last_error   text        NULL,
  CONSTRAINT %[1]s_pkey PRIMARY KEY (id),
  CONSTRAINT %[1]s_event_id_key UNIQUE (event_id),
  CONSTRAINT %[1]s_attempts_nonnegative CHECK (attempts >= 0)
);
CREATE INDEX IF NOT EXISTS %[1]s_pending_by_available ON %[1]s (available_at, sequence) WHERE published_at IS NULL;
CREATE INDEX IF NOT EXISTS %[1]s_published_by_time ON %[1]s (published_at, sequence) WHERE published_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS %[1]s_tenant_published ON %[1]s (tenant_id, published_at, sequence);`, name)
}

func loadSeed(ctx context.Context, pool *pgxpool.Pool, count int) error {
	_, err := pool.Exec(ctx, fmt.Sprintf(`INSERT INTO %s (tenant_id, topic, event_id, payload)
SELECT '%s', '%s', gen_random_uuid(), %s::jsonb FROM generate_series(1, $1::bigint) AS i`, table, tenant, topic, sqlPayload), count)
	return err
}

type literalQueue struct{ pool *pgxpool.Pool }

func (q *literalQueue) enqueue(ctx context.Context, tx pgx.Tx, n int) error {
	var sequence int64
	return tx.QueryRow(ctx, `INSERT INTO `+table+` (tenant_id, topic, event_id, payload) VALUES ($1, $2, $3, $4)
ON CONFLICT (event_id) DO UPDATE SET event_id = EXCLUDED.event_id RETURNING sequence`,
		tenantUUID, topic, uuid.New(), string(payload(n))).Scan(&sequence)
}

func (q *literalQueue) enqueueMany(ctx context.Context, tx pgx.Tx, n, count int) error {
	ids, payloads := make([]uuid.UUID, count), make([]string, count)
	for i := range ids {
		ids[i], payloads[i] = uuid.New(), string(payload(n+i))
	}
	_, err := tx.Exec(ctx, `INSERT INTO `+table+` (tenant_id, topic, event_id, payload)
SELECT $1, $2, id, p::jsonb FROM unnest($3::uuid[], $4::text[]) AS t(id, p)`, tenantUUID, topic, ids, payloads)
	return err
}

func (q *literalQueue) load(ctx context.Context, count int) error {
	return loadSeed(ctx, q.pool, count)
}

const (
	literalClaim = `SELECT id, payload FROM ` + table + `
WHERE published_at IS NULL AND available_at <= now() AND attempts < 25 AND (locked_at IS NULL OR locked_at < now() - interval '60 s')
ORDER BY available_at, sequence LIMIT 100 FOR UPDATE SKIP LOCKED`
	literalLock = `UPDATE ` + table + ` SET locked_at = now(), attempts = attempts + 1 WHERE id = ANY($1)`
	literalAck  = `UPDATE ` + table + ` SET published_at = now(), locked_at = NULL, last_error = NULL WHERE id = $1`
)

type literalRow struct {
	ID      uuid.UUID
	Payload []byte
}

func (q *literalQueue) relay(ctx context.Context, handle func(payload []byte)) error {
	for ctx.Err() == nil {
		rows, err := q.claim(ctx)
		if err != nil {
			return unlessDone(ctx, err)
		}
		for _, r := range rows {
			handle(r.Payload)
			if _, err := q.pool.Exec(ctx, literalAck, r.ID); err != nil {
				return unlessDone(ctx, err)
			}
		}
		if len(rows) == 0 {
			pause(ctx, time.Second)
		}
	}
	return nil
}

func (q *literalQueue) claim(ctx context.Context) (claimed []literalRow, err error) {
	err = inTx(ctx, q.pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, literalClaim)
		if err != nil {
			return err
		}
		if claimed, err = pgx.CollectRows(rows, pgx.RowToStructByPos[literalRow]); err != nil {
			return err
		}
		ids := make([]uuid.UUID, len(claimed))
		for i, r := range claimed {
			ids[i] = r.ID
		}
		_, err = tx.Exec(ctx, literalLock, ids)
		return err
	})
	return claimed, err
}

// unlessDone drops the error of a statement that was interrupted on purpose.
func unlessDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
