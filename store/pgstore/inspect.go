package pgstore

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/bulk"
)

// Stats counts with a bounded cost: no count looks at more than outbox.CountCap
// rows.
func (s *Store) Stats(ctx context.Context) (outbox.Stats, error) {
	l, err := s.layout(ctx, s.pool)
	if err != nil {
		return outbox.Stats{}, s.explain("stats", err)
	}
	stats := outbox.Stats{Table: s.cfg.Table}
	// One snapshot for all of it, or a message that moves would be counted twice.
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, l.sql.Ordered, s.mode); err != nil {
			return err
		}
		v := inspection{s, &l.sql, tx}
		for _, part := range []func(context.Context, *outbox.Stats) error{v.counts, v.inFlight, v.leases, v.relays, v.paused} {
			if err := part(ctx, &stats); err != nil {
				return err
			}
		}
		return nil
	})
	return stats, s.explain("stats", err)
}

// inspection is one look at the store.
type inspection struct {
	s   *Store
	sql *statements
	tx  pgx.Tx
}

func (v inspection) counts(ctx context.Context, st *outbox.Stats) error {
	var oldest pgtype.Timestamptz
	err := v.tx.QueryRow(ctx, v.sql.Stats, v.s.mode, outbox.CountCap).
		Scan(&st.Now, &st.Pending, &st.Retrying, &st.Scheduled, &st.Dead, &st.Discarded, &st.Capped, &oldest)
	if oldest.Valid {
		st.OldestPending = max(st.Now.Sub(oldest.Time), 0)
	}
	st.Pending = min(st.Pending, outbox.CountCap)
	return err
}

// inFlight counts what the batches hold. A message in flight is not retrying.
func (v inspection) inFlight(ctx context.Context, st *outbox.Stats) error {
	rows, err := v.tx.Query(ctx, v.sql.InFlight, v.s.mode)
	if err != nil {
		return err
	}
	recorded := map[int64]time.Time{}
	var shard int16
	var ids pgtype.Multirange[pgtype.Range[pgtype.Int8]]
	var at time.Time
	_, err = pgx.ForEachRow(rows, []any{&shard, &ids, &at}, func() error {
		for _, id := range expand(ids) {
			recorded[id] = at
		}
		return nil
	})
	if err != nil || len(recorded) == 0 {
		return err
	}
	all := make([]int64, 0, len(recorded))
	for id := range recorded {
		all = append(all, id)
	}
	if rows, err = v.tx.Query(ctx, v.sql.Unsettled, v.s.mode, all); err != nil {
		return err
	}
	var sequence int64
	var attempts int
	_, err = pgx.ForEachRow(rows, []any{&sequence, &at, &attempts}, func() error {
		if at.After(recorded[sequence]) {
			return nil
		}
		st.InFlight++
		if attempts > 0 {
			st.Retrying = max(st.Retrying-1, 0)
		}
		return nil
	})
	return err
}

func (v inspection) leases(ctx context.Context, st *outbox.Stats) error {
	rows, err := v.tx.Query(ctx, v.sql.Leases, v.s.mode)
	if err != nil {
		return err
	}
	st.Leases, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (outbox.LeaseState, error) {
		var l outbox.LeaseState
		var expires pgtype.Timestamptz
		err := row.Scan(&l.Shard, &l.Instance, &l.Epoch, &expires, &l.Held, &l.Draining, &l.SlotLo, &l.SlotHi, &l.Low, &l.Batches)
		l.ExpiresAt = expires.Time
		return l, err
	})
	return err
}

func (v inspection) relays(ctx context.Context, st *outbox.Stats) error {
	rows, err := v.tx.Query(ctx, v.sql.Relays, v.s.mode)
	if err != nil {
		return err
	}
	st.Relays, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (outbox.RelayState, error) {
		var r outbox.RelayState
		var note string
		err := row.Scan(&r.Instance, &r.Version, &r.SeenAt, &r.Live, &note)
		r.Note = bulk.DecodeNote(note)
		return r, err
	})
	return err
}

func (v inspection) paused(ctx context.Context, st *outbox.Stats) (err error) {
	st.Paused, err = v.s.pausedRoutes(ctx, v.tx, v.sql)
	return err
}

func (s *Store) pausedRoutes(ctx context.Context, q querier, stmts *statements) ([]outbox.PausedRoute, error) {
	rows, err := q.Query(ctx, stmts.RoutesPaused, s.mode)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[outbox.PausedRoute])
}

// listScan is how many rows one page of List may look at.
const listScan = 50_000

// List returns a page of messages without payloads. A page may be short, even
// empty, and still have a Next: then the filter matched little of what it was
// allowed to look at.
func (s *Store) List(ctx context.Context, f outbox.Filter) (outbox.List, error) {
	l, err := s.layout(ctx, s.pool)
	if err != nil {
		return outbox.List{}, s.explain("list", err)
	}
	before := f.Before
	if before <= 0 {
		before = math.MaxInt64
	}
	list, slice := l.sql.ListDesc, l.sql.SliceDesc
	if f.OldestFirst {
		list, slice = l.sql.ListAsc, l.sql.SliceAsc
	}
	dead := f.Status == outbox.StatusDead || f.Status == outbox.StatusDiscarded
	limit := f.PageSize()
	if f.Error != "" {
		limit = errorScan
	}
	page, err := s.listPage(ctx, list, f.After, before, listScan, limit, dead, string(f.Status), topicRegexp(f.Topic), f.Key, f.TenantID,
		f.Reason, f.Route, nullTime(f.Since), nullTime(f.Until))
	if err != nil {
		return page.List, s.explain("list", err)
	}
	if len(page.Records) == limit {
		page.Next = page.Records[limit-1].Sequence
	}
	if f.Error != "" {
		page.likeError(f)
	}
	if page.Next != 0 {
		return page.List, nil
	}
	var looked, end int64
	err = s.pool.QueryRow(ctx, slice, s.mode, f.After, before, listScan, dead).Scan(&looked, &end, &page.Now)
	if looked == listScan {
		page.Next = end
	}
	return page.List, s.explain("list", err)
}

// errorScan is how many messages a page of List compares errors of.
const errorScan = 5000

// listed is a page under construction.
type listed struct{ outbox.List }

// likeError keeps what has the error of f, as much as fits on a page.
func (l *listed) likeError(f outbox.Filter) {
	all := l.Records
	l.Records = nil
	for _, r := range all {
		if outbox.Fingerprint(r.LastError) != f.Error {
			continue
		}
		l.Records = append(l.Records, r)
		if len(l.Records) == f.PageSize() {
			l.Next = r.Sequence
			return
		}
	}
}

func (s *Store) listPage(ctx context.Context, statement string, args ...any) (listed, error) {
	var page listed
	rows, err := s.pool.Query(ctx, statement, append([]any{s.mode, binaryResults}, args...)...)
	if err != nil {
		return page, err
	}
	defer rows.Close()
	var sc scanner
	for rows.Next() {
		r, now, err := sc.scanShown(rows.RawValues(), pgtype.ByteaOID)
		if err != nil {
			return page, err
		}
		page.Records, page.Now = append(page.Records, r), now
	}
	return page, rows.Err()
}

// topicRegexp is outbox.MatchTopic as a regular expression, or "" for all.
func topicRegexp(pattern string) string {
	if pattern == "" || pattern == "**" {
		return ""
	}
	pattern, rest := strings.CutSuffix(pattern, ".**")
	segments := strings.Split(pattern, ".")
	for i, segment := range segments {
		segments[i] = regexp.QuoteMeta(segment)
		if segment == "*" {
			segments[i] = "[^.]*"
		}
	}
	expr := "^" + strings.Join(segments, `\.`)
	if rest {
		expr += `(\..*)?`
	}
	return expr + "$"
}

// Get returns one message with its payload.
func (s *Store) Get(ctx context.Context, id uuid.UUID) (*outbox.Record, error) {
	r, _, err := s.get(ctx, s.pool, id)
	if err == nil && r.InFlight {
		r.Flight, err = s.flight(ctx, r)
	}
	return r, s.explain("get", err)
}

// flight finds the batch that a message is in. It may have ended meanwhile.
func (s *Store) flight(ctx context.Context, r *outbox.Record) (*outbox.Flight, error) {
	l, err := s.layout(ctx, s.pool)
	if err != nil {
		return nil, err
	}
	rows, err := s.pool.Query(ctx, l.sql.Flight, s.mode, r.Sequence, r.AvailableAt)
	if err != nil {
		return nil, err
	}
	flights, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByPos[outbox.Flight])
	if err != nil || len(flights) == 0 {
		return nil, err
	}
	return flights[0], nil
}

func (s *Store) get(ctx context.Context, q querier, id uuid.UUID) (*outbox.Record, time.Time, error) {
	l, err := s.layout(ctx, q)
	if err != nil {
		return nil, time.Time{}, err
	}
	rows, err := q.Query(ctx, l.sql.Get, s.mode, binaryResults, pgUUID(id))
	if err != nil {
		return nil, time.Time{}, err
	}
	defer rows.Close()
	var sc scanner
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return nil, time.Time{}, err
		}
		return nil, time.Time{}, outbox.ErrNotFound.With("event_id", fmt.Sprintf("%s is not in %s", id, s.cfg.Table))
	}
	r, now, err := sc.scanShown(rows.RawValues(), rows.FieldDescriptions()[colPayload].DataTypeOID)
	if err != nil {
		return nil, now, err
	}
	rows.Close()
	return r, now, rows.Err()
}

// Attempts returns the recorded history of a message, newest first.
func (s *Store) Attempts(ctx context.Context, sequence int64) ([]outbox.Attempt, error) {
	l, err := s.layout(ctx, s.pool)
	if err != nil {
		return nil, s.explain("attempts", err)
	}
	rows, err := s.pool.Query(ctx, l.sql.History, s.mode, sequence)
	if err != nil {
		return nil, s.explain("attempts", err)
	}
	attempts, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (outbox.Attempt, error) {
		var a outbox.Attempt
		var took int64
		err := row.Scan(&a.At, &a.Attempt, &a.Route, &a.Outcome, &a.Error, &took)
		a.Took = time.Duration(took) * time.Microsecond
		return a, err
	})
	return attempts, s.explain("attempts", err)
}
