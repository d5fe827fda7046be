package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// limit is what PostgreSQL itself needs for our guarantees: the same table, a
// durable attempt before each batch, a settle under the same fence. One connection
// reads, another writes. There is no dispatcher, no order, no retry, no recovery.
var (
	limitKeepSystem   = limitSystem("rows kept", `UPDATE `+table+` SET published_at = clock_timestamp(), attempts = attempts + 1`)
	limitDeleteSystem = limitSystem("rows deleted", `DELETE FROM `+table)
)

const (
	limitBatch = 1000
	limitAhead = 7 // pages that wait for the writer
)

func limitSystem(mode, settle string) system {
	return system{
		name: "limit",
		settings: "written by us: a bare SQL loop on our table, reads of 1000, one reader and one writer connection, up to eight reads recorded before and " +
			"settled after under the same fence; no dispatcher; " + mode,
		settles: true, yardstick: true,
		open: func(ctx context.Context, pool *pgxpool.Pool) (queue, error) {
			q, err := openOurs(ctx, pool, oursConfig{})
			return &limitQueue{oursQueue: q, step: fmt.Sprintf(limitStep, settle)}, err
		},
	}
}

const (
	limitRead = `SELECT sequence, event_id, topic, msg_key, tenant_id, payload, attempts, replays, created_at, available_at
FROM ` + table + ` WHERE sequence > $1 AND num_nonnulls(published_at, dead_at) < 1 ORDER BY sequence LIMIT $2`

	// limitStep settles one batch ($4 to $5, a dense run) and records the next.
	limitStep = `WITH f AS MATERIALIZED (
  SELECT 1 FROM ` + table + `_lease WHERE shard = 0 AND owner = $1 AND epoch = $2 FOR NO KEY UPDATE
), u AS (
  %s WHERE sequence BETWEEN $4 AND $5 AND published_at IS NULL AND dead_at IS NULL AND replays = 0 AND (SELECT count(*) FROM f) = 1
), d AS (
  DELETE FROM ` + table + `_batch WHERE shard = 0 AND epoch = $2 AND no = $3::bigint - 1 AND (SELECT count(*) FROM f) = 1
), i AS (
  INSERT INTO ` + table + `_batch (shard, epoch, no, ids)
  SELECT 0, $2, $3, $6::text::int8multirange WHERE $6 <> '{}' AND (SELECT count(*) FROM f) = 1
)
SELECT (SELECT count(*) FROM f), set_config('synchronous_commit', 'off', true)`
)

type limitQueue struct {
	*oursQueue
	step string
}

// A stretch is a batch of consecutive sequences.
type stretch struct{ lo, hi int64 }

func (q *limitQueue) relay(ctx context.Context, handle func(payload []byte)) error {
	whole := context.WithoutCancel(ctx)
	owner := pgtype.UUID{Bytes: uuid.New(), Valid: true}
	var epoch int64
	err := q.pool.QueryRow(whole, `UPDATE `+table+`_lease SET owner = $1, epoch = epoch + 1, expires_at = now() + interval '1 h'
WHERE shard = 0 RETURNING epoch`, owner).Scan(&epoch)
	if err != nil {
		return err
	}
	pages := make(chan []page, limitAhead)
	failed := make(chan error, 1)
	reading, stop := context.WithCancel(whole)
	go func() {
		defer close(pages)
		failed <- q.read(reading, pages)
	}()
	err = q.write(ctx, pages, owner, epoch, handle)
	stop()
	for range pages { // let the reader see that it is over
	}
	if readErr := <-failed; readErr != nil && !errors.Is(readErr, context.Canceled) {
		err = errors.Join(err, readErr)
	}
	return err
}

// A page is one message as the limit sees it.
type page struct {
	sequence int64
	payload  []byte
}

func (q *limitQueue) read(ctx context.Context, pages chan<- []page) error {
	after := int64(0)
	for {
		found, err := q.next(ctx, after)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			if !pause(ctx, 2*time.Millisecond) {
				return nil
			}
			continue
		}
		after = found[len(found)-1].sequence
		select {
		case pages <- found:
		case <-ctx.Done():
			return nil
		}
	}
}

// next copies payloads out of the connection's buffer and parses nothing else.
func (q *limitQueue) next(ctx context.Context, after int64) ([]page, error) {
	rows, err := q.pool.Query(ctx, limitRead, pgx.QueryExecModeCacheDescribe, after, limitBatch)
	if err != nil {
		return nil, err
	}
	found := make([]page, 0, limitBatch)
	for rows.Next() {
		p := page{payload: append([]byte(nil), rows.RawValues()[5]...)}
		if err := rows.Scan(&p.sequence, nil, nil, nil, nil, nil, nil, nil, nil, nil); err != nil {
			return nil, err
		}
		found = append(found, p)
	}
	return found, rows.Err()
}

// take waits for a page and adds those that are there already, so that a slow step
// is followed by a larger one.
func take(ctx context.Context, pages <-chan []page) []page {
	var all []page
	select {
	case all = <-pages:
	case <-ctx.Done():
		return nil
	}
	for {
		select {
		case more := <-pages:
			all = append(all, more...)
		default:
			return all
		}
	}
}

// write records a batch, hands it out once that is durable, and settles it with the
// record of the next.
func (q *limitQueue) write(ctx context.Context, pages <-chan []page, owner pgtype.UUID, epoch int64, handle func([]byte)) error {
	finished := stretch{0, -1}
	for no := int64(1); ; no++ {
		next := take(ctx, pages)
		ids := "{}"
		r := stretch{0, -1}
		if len(next) > 0 {
			r = stretch{next[0].sequence, next[len(next)-1].sequence}
			if r.hi-r.lo+1 != int64(len(next)) {
				return fmt.Errorf("limit: the backlog is not dense between %d and %d", r.lo, r.hi)
			}
			ids = fmt.Sprintf("{[%d,%d)}", r.lo, r.hi+1)
		}
		var held int
		var off string
		err := q.pool.QueryRow(context.WithoutCancel(ctx), q.step, pgx.QueryExecModeCacheDescribe, owner, epoch, no, finished.lo, finished.hi, ids).
			Scan(&held, &off)
		switch {
		case err != nil:
			return err
		case held != 1:
			return errors.New("limit: lease lost")
		case len(next) == 0:
			return nil
		}
		for _, p := range next {
			handle(p.payload)
		}
		finished = r
	}
}
