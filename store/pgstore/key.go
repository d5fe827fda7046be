package pgstore

import (
	"context"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/bulk"
)

// Ahead returns the message that holds back the one of a key and sequence.
func (s *Store) Ahead(ctx context.Context, key string, sequence int64, dead bool) (*outbox.Record, error) {
	var rec *outbox.Record
	err := s.operate(ctx, func(o operation) (err error) {
		rec, _, err = o.ahead(ctx, key, sequence, dead)
		return err
	})
	return rec, s.explain("look ahead", err)
}

func (o operation) ahead(ctx context.Context, key string, sequence int64, dead bool) (*outbox.Record, time.Time, error) {
	if key == "" {
		return nil, time.Time{}, bulk.NoHead(key)
	}
	recs, now, err := o.records(ctx, o.sql.Ahead, key, sequence, dead)
	if err == nil && len(recs) == 0 {
		err = bulk.NoHead(key)
	}
	if err != nil {
		return nil, now, err
	}
	return recs[0], now, nil
}

// records reads messages without their payloads, and the clock of the snapshot.
func (o operation) records(ctx context.Context, statement string, args ...any) ([]*outbox.Record, time.Time, error) {
	rows, err := o.tx.Query(ctx, statement, append([]any{o.s.mode, binaryResults}, args...)...)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer rows.Close()
	var recs []*outbox.Record
	var at time.Time
	var sc scanner
	for rows.Next() {
		r, now, err := sc.scanShown(rows.RawValues(), pgtype.ByteaOID)
		if err != nil {
			return nil, now, err
		}
		recs, at = append(recs, r), now
	}
	return recs, at, rows.Err()
}

// Keys lists held keys by the message at their head. It looks at the first GroupCap
// messages that can hold one.
func (s *Store) Keys(ctx context.Context, after int64, limit int) ([]outbox.HeldKey, error) {
	var keys []outbox.HeldKey
	err := s.operate(ctx, func(o operation) error {
		heads, err := o.firstHeads(ctx, after, outbox.Filter{Limit: limit}.PageSize())
		if err != nil || len(heads) == 0 {
			return err
		}
		recs, _, err := o.records(ctx, o.sql.Listed, heads)
		if err != nil {
			return err
		}
		keys = make([]outbox.HeldKey, len(recs))
		for i, rec := range recs {
			keys[i] = outbox.HeldKey{Key: rec.Key, Head: rec}
		}
		return o.countWaiting(ctx, keys)
	})
	return keys, s.explain("list keys", err)
}

// firstHeads finds the first message of each held key, and of those the ones above a
// sequence.
func (o operation) firstHeads(ctx context.Context, after int64, limit int) ([]int64, error) {
	rows, err := o.tx.Query(ctx, o.sql.KeyHeads, o.s.mode, outbox.GroupCap)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	var heads []int64
	var sequence int64
	var key string
	_, err = pgx.ForEachRow(rows, []any{&sequence, &key}, func() error {
		if !seen[key] && sequence > after && len(heads) < limit {
			heads = append(heads, sequence)
		}
		seen[key] = true
		return nil
	})
	return heads, err
}

func (o operation) countWaiting(ctx context.Context, keys []outbox.HeldKey) error {
	held := make(map[string]*outbox.HeldKey, len(keys))
	names := make([]string, len(keys))
	for i := range keys {
		held[keys[i].Key], names[i] = &keys[i], keys[i].Key
	}
	rows, err := o.tx.Query(ctx, o.sql.Waiting, o.s.mode, names, outbox.CountCap)
	if err != nil {
		return err
	}
	var key string
	var sequence int64
	_, err = pgx.ForEachRow(rows, []any{&key, &sequence}, func() error {
		if k := held[key]; k != nil && sequence > k.Head.Sequence && k.Waiting < outbox.HeldCap {
			k.Waiting++
		}
		return nil
	})
	return err
}

// Groups sorts dead messages by what they have in common.
func (s *Store) Groups(ctx context.Context, f outbox.Filter) (outbox.Groups, error) {
	var groups outbox.Groups
	err := s.operate(ctx, func(o operation) error {
		now, err := o.now(ctx)
		if err != nil {
			return err
		}
		g := bulk.NewGroups(f, now)
		looked := 0
		err = o.candidates(ctx, o.sql.CandidatesDesc, func(c bulk.Candidate) {
			if looked++; looked <= outbox.GroupCap {
				g.Add(c)
			}
		}, int64(0), int64(math.MaxInt64), outbox.GroupCap+1, true, true)
		groups = g.Result(looked > outbox.GroupCap)
		return err
	})
	return groups, s.explain("group", err)
}

// candidates reads messages as a filter in the program looks at them.
func (o operation) candidates(ctx context.Context, statement string, use func(bulk.Candidate), args ...any) error {
	rows, err := o.tx.Query(ctx, statement, append([]any{o.s.mode}, args...)...)
	if err != nil {
		return err
	}
	var r outbox.Record
	var id pgtype.UUID
	var route string
	var published, dead pgtype.Timestamptz
	_, err = pgx.ForEachRow(rows, []any{
		&r.Sequence, &id, &r.TenantID, &r.Topic, &r.Key, &r.CreatedAt, &published, &dead, &r.DeadReason, &r.LastError, &route,
	}, func() error {
		rec := r
		rec.EventID, rec.PublishedAt, rec.DeadAt = id.Bytes, published.Time, dead.Time
		use(bulk.Candidate{Record: &rec, Route: route})
		return nil
	})
	return err
}
