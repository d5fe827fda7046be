package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/bulk"
)

// Stats counts, at a cost that CountCap bounds.
func (s *Store) Stats(ctx context.Context) (outbox.Stats, error) {
	var stats outbox.Stats
	err := s.read(ctx, func(ctx context.Context, conn *sql.Conn) error {
		now := s.now()
		stats = outbox.Stats{Table: s.cfg.Table, Now: moment(now)}
		if err := s.count(ctx, conn, &stats, now); err != nil {
			return err
		}
		if err := s.leases(ctx, conn, &stats, now); err != nil {
			return err
		}
		if err := s.relays(ctx, conn, &stats, now); err != nil {
			return err
		}
		var err error
		stats.Paused, err = s.paused(ctx, conn)
		return err
	})
	if err != nil {
		return outbox.Stats{}, fmt.Errorf("read stats: %w", err)
	}
	return stats, nil
}

func (s *Store) count(ctx context.Context, conn *sql.Conn, stats *outbox.Stats, now int64) error {
	limit := s.countCap
	var fresh, held, retriedInFlight int
	var oldestFresh, oldestHeld int64
	for _, q := range []struct {
		query string
		args  []any
		dest  []any
	}{
		{s.sql.CountFresh, []any{limit}, []any{&fresh, &oldestFresh}},
		{s.sql.CountHeld, []any{limit, now}, []any{&held, &stats.Retrying, &stats.Scheduled, &oldestHeld}},
		{s.sql.CountDead, []any{limit}, []any{&stats.Dead, &stats.Discarded}},
		{s.sql.CountInFlight, []any{limit}, []any{&stats.InFlight, &retriedInFlight}},
	} {
		if err := conn.QueryRowContext(ctx, q.query, q.args...).Scan(q.dest...); err != nil {
			return err
		}
	}
	stats.Pending = min(fresh+held, limit)
	stats.Retrying = max(stats.Retrying-retriedInFlight, 0)
	stats.Capped = fresh+held >= limit || stats.Dead+stats.Discarded >= limit || stats.InFlight >= limit
	for _, at := range []int64{oldestFresh, oldestHeld} {
		if at != 0 && at <= now {
			stats.OldestPending = max(stats.OldestPending, time.Duration(now-at)*time.Microsecond)
		}
	}
	return nil
}

func (s *Store) leases(ctx context.Context, conn *sql.Conn, stats *outbox.Stats, now int64) error {
	return each(ctx, conn, func(rows *sql.Rows) error {
		var l outbox.LeaseState
		var expires int64
		err := rows.Scan(&l.Shard, &l.Instance, &l.Epoch, &expires, &l.Held, &l.Draining, &l.SlotLo, &l.SlotHi, &l.Low, &l.Batches)
		l.ExpiresAt = moment(expires)
		stats.Leases = append(stats.Leases, l)
		return err
	}, s.sql.Leases, now)
}

func (s *Store) relays(ctx context.Context, conn *sql.Conn, stats *outbox.Stats, now int64) error {
	return each(ctx, conn, func(rows *sql.Rows) error {
		var r outbox.RelayState
		var seen int64
		var note string
		err := rows.Scan(&r.Instance, &r.Version, &seen, &r.Live, &note)
		r.SeenAt, r.Note = moment(seen), bulk.DecodeNote(note)
		stats.Relays = append(stats.Relays, r)
		return err
	}, s.sql.Relays, now)
}

// List returns a page of messages. At most CountCap rows are looked at for it: a
// rare match in a large table may come on a later page, with a short or even an empty
// one before it; Next is 0 at the end only.
func (s *Store) List(ctx context.Context, f outbox.Filter) (outbox.List, error) {
	var list outbox.List
	err := s.read(ctx, func(ctx context.Context, conn *sql.Conn) error {
		now := s.now()
		ids, next, err := s.candidates(ctx, conn, f, now)
		if err != nil {
			return err
		}
		list = outbox.List{Next: next, Now: moment(now)}
		err = each(ctx, conn, func(rows *sql.Rows) error {
			rec, err := scanRecord(rows, now)
			list.Records = append(list.Records, rec)
			return err
		}, s.sql.Summaries, jsonList(ids))
		return err
	})
	if err != nil {
		return outbox.List{}, fmt.Errorf("list: %w", err)
	}
	slices.SortFunc(list.Records, func(a, b *outbox.Record) int {
		if f.OldestFirst {
			return int(a.Sequence - b.Sequence)
		}
		return int(b.Sequence - a.Sequence)
	})
	return list, nil
}

// candidates finds the sequences of a page and where the next one begins.
func (s *Store) candidates(ctx context.Context, conn *sql.Conn, f outbox.Filter, now int64) ([]int64, int64, error) {
	after, before := f.After, f.Before
	if before == 0 {
		before = math.MaxInt64
	}
	prefix, _, _ := strings.Cut(f.Topic, "*")
	prefix = strings.TrimSuffix(prefix, ".") // a.** matches a as well
	var ids []int64
	var sequence int64
	looked, full := 0, false
	err := each(ctx, conn, func(rows *sql.Rows) error {
		var topic, text string
		var fits bool
		if err := rows.Scan(&sequence, &topic, &text, &fits); err != nil {
			return err
		}
		looked++
		if !fits || (f.Topic != "" && !outbox.MatchTopic(f.Topic, topic)) || (f.Error != "" && outbox.Fingerprint(text) != f.Error) {
			return nil
		}
		if full = len(ids) == f.PageSize(); full {
			return errEnough // there is at least one more
		}
		ids = append(ids, sequence)
		return nil
	}, s.listStatement(f), now, after, before, f.TenantID, f.Key, prefix, string(f.Status), s.countCap,
		f.Reason, f.Route, micros(f.Since), micros(f.Until), f.Error != "")
	switch {
	case full:
		return ids, ids[len(ids)-1], nil
	case looked == s.countCap:
		return ids, sequence, nil
	case err != nil:
		return nil, 0, err
	}
	return ids, 0, nil
}

// listStatement chooses the smallest set that holds every message of a status.
func (s *Store) listStatement(f outbox.Filter) string {
	l := s.list[f.OldestFirst]
	switch f.Status {
	case outbox.StatusDead, outbox.StatusDiscarded:
		return l.Dead
	case outbox.StatusRetrying, outbox.StatusScheduled:
		return l.Held
	case outbox.StatusInFlight:
		return l.InFlight
	default:
		return l.All
	}
}

// Get returns one message with its payload.
func (s *Store) Get(ctx context.Context, id uuid.UUID) (*outbox.Record, error) {
	var rec *outbox.Record
	err := s.read(ctx, func(ctx context.Context, conn *sql.Conn) (err error) {
		if rec, err = s.get(ctx, conn, id, s.now()); err == nil && rec.InFlight {
			rec.Flight, err = s.flight(ctx, conn, rec)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", id, err)
	}
	return rec, nil
}

func (s *Store) get(ctx context.Context, conn *sql.Conn, id uuid.UUID, now int64) (*outbox.Record, error) {
	var rec *outbox.Record
	err := each(ctx, conn, func(rows *sql.Rows) (err error) {
		rec, err = scanRecord(rows, now)
		return err
	}, s.sql.Get, id.String())
	if err == nil && rec == nil {
		err = outbox.ErrNotFound
	}
	return rec, err
}

// flight finds the batch that a message is in.
func (s *Store) flight(ctx context.Context, conn *sql.Conn, rec *outbox.Record) (*outbox.Flight, error) {
	var flight *outbox.Flight
	err := each(ctx, conn, func(rows *sql.Rows) error {
		var f outbox.Flight
		var since int64
		err := rows.Scan(&f.Instance, &since)
		f.Since = moment(since)
		flight = &f
		return err
	}, s.sql.Flight, rec.Sequence, micros(rec.AvailableAt))
	return flight, err
}

// Attempts returns the history of a message, newest first.
func (s *Store) Attempts(ctx context.Context, sequence int64) ([]outbox.Attempt, error) {
	var attempts []outbox.Attempt
	err := s.read(ctx, func(ctx context.Context, conn *sql.Conn) error {
		attempts = nil
		return each(ctx, conn, func(rows *sql.Rows) error {
			var a outbox.Attempt
			var at, took int64
			err := rows.Scan(&at, &a.Attempt, &a.Route, &a.Outcome, &a.Error, &took)
			a.At, a.Took = moment(at), time.Duration(took)*time.Microsecond
			attempts = append(attempts, a)
			return err
		}, s.sql.Attempts, sequence)
	})
	if err != nil {
		return nil, fmt.Errorf("read attempts: %w", err)
	}
	return attempts, nil
}
