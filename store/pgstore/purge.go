package pgstore

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/go-outbox/outbox"
)

// purgePosition is where the last purge stopped. It is only an economy: a process
// that starts anew begins at the bottom.
type purgePosition struct {
	mu      sync.Mutex
	table   int64
	history int64
}

const (
	// purgeSlice is how many rows one statement of a purge looks at, purgeSlices
	// how many such statements one purge may run.
	purgeSlice  = 10_000
	purgeSlices = 64
)

// Purge deletes what retention allows, at most req.Limit messages. It walks the
// primary key in slices from where the last purge stopped and looks at no more than
// 640,000 rows per call.
func (s *Store) Purge(ctx context.Context, req outbox.PurgeRequest) (outbox.PurgeResult, error) {
	var result outbox.PurgeResult
	l, err := s.layout(ctx, s.pool)
	if err != nil {
		return result, s.explain("purge", err)
	}
	s.purge.mu.Lock()
	defer s.purge.mu.Unlock()
	p := purge{s, l, req}
	if req.Dead > 0 {
		result.Dead, err = p.dead(ctx)
	}
	if err == nil {
		result.Published, err = p.published(ctx, req.Limit-result.Dead)
	}
	if err == nil {
		err = p.history(ctx)
	}
	result.More = result.Published+result.Dead >= req.Limit
	return result, s.explain("purge", err)
}

// purge is one call of Purge.
type purge struct {
	s *Store
	*layout
	req outbox.PurgeRequest
}

// published walks the table at most once around.
func (p purge) published(ctx context.Context, limit int) (int, error) {
	if p.verbatim { // its own index leads to the oldest
		deleted, _, err := p.slice(ctx, 0, math.MaxInt64, limit)
		return deleted, err
	}
	deleted := 0
	start := p.s.purge.table
	wrapped := start == 0
	for range purgeSlices {
		if deleted >= limit {
			break
		}
		from := p.s.purge.table
		var rows, end int64
		var now time.Time
		err := p.s.pool.QueryRow(ctx, p.sql.SliceAsc, p.s.mode, from, int64(math.MaxInt64), purgeSlice, false).Scan(&rows, &end, &now)
		if err != nil {
			return deleted, err
		}
		if rows > 0 {
			n, stop, err := p.slice(ctx, from, end, limit-deleted)
			deleted += n
			if err != nil {
				return deleted, err
			}
			end = stop
		}
		switch {
		case rows == purgeSlice || deleted >= limit:
			p.s.purge.table = end
		case wrapped:
			p.s.purge.table = 0
			return deleted, nil
		default:
			p.s.purge.table, wrapped = 0, true
		}
		if wrapped && start > 0 && p.s.purge.table >= start {
			return deleted, nil
		}
	}
	return deleted, nil
}

// slice deletes in one slice and says how far it came.
func (p purge) slice(ctx context.Context, from, to int64, limit int) (deleted int, end int64, err error) {
	var ids []int64
	if p.req.Archive != nil {
		records, err := p.records(ctx, p.sql.PurgeCandidates, from, to, p.req.Published.Microseconds(), limit)
		if err != nil {
			return 0, from, err
		}
		if ids = p.archive(records); len(ids) == 0 {
			return 0, to, nil
		}
	}
	var last int64
	err = p.s.pool.QueryRow(ctx, p.sql.PurgeDelete, p.s.mode, from, to, p.req.Published.Microseconds(), limit, ids).Scan(&deleted, &last)
	if deleted >= limit {
		return deleted, last, err
	}
	return deleted, to, err
}

// archive hands messages over and returns those that may go.
func (p purge) archive(records []*outbox.Record) []int64 {
	ids := make([]int64, 0, len(records))
	for _, r := range records {
		if p.req.Archive == nil || p.req.Archive(r) == nil {
			ids = append(ids, r.Sequence)
		}
	}
	return ids
}

// dead deletes dead messages. The relays are told first, because a dead message
// may hold its key in their memory.
func (p purge) dead(ctx context.Context) (deleted int, err error) {
	records, err := p.records(ctx, p.sql.PurgeDeadCandidates, p.req.Dead.Microseconds(), p.req.Limit)
	if err != nil {
		return 0, err
	}
	ids := p.archive(records)
	if len(ids) == 0 {
		return 0, nil
	}
	err = pgx.BeginFunc(ctx, p.s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, p.sql.Timeouts, p.s.mode, operatorTimeout); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, p.sql.NudgeLeases, p.s.mode); err != nil {
			return err
		}
		return tx.QueryRow(ctx, p.sql.PurgeDead, p.s.mode, ids, p.req.Dead.Microseconds()).Scan(&deleted)
	})
	return deleted, err
}

// history forgets attempts of messages that no longer exist.
func (p purge) history(ctx context.Context) error {
	return p.s.pool.QueryRow(ctx, p.sql.PurgeHistory, p.s.mode, p.s.purge.history, purgeSlice).Scan(&p.s.purge.history)
}

func (p purge) records(ctx context.Context, statement string, args ...any) ([]*outbox.Record, error) {
	rows, err := p.s.pool.Query(ctx, statement, append([]any{p.s.mode, binaryResults}, args...)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var records []*outbox.Record
	var sc scanner
	for rows.Next() {
		r, _, err := sc.scanShown(rows.RawValues(), rows.FieldDescriptions()[colPayload].DataTypeOID)
		if err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	return records, rows.Err()
}
