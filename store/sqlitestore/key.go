package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"
	"math"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/bulk"
)

// Ahead returns the message that holds back the one of a key and sequence.
func (s *Store) Ahead(ctx context.Context, key string, sequence int64, dead bool) (*outbox.Record, error) {
	var rec *outbox.Record
	err := s.read(ctx, func(ctx context.Context, conn *sql.Conn) (err error) {
		rec, err = s.ahead(ctx, conn, key, sequence, dead, s.now())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look ahead: %w", err)
	}
	return rec, nil
}

func (s *Store) ahead(ctx context.Context, conn *sql.Conn, key string, sequence int64, dead bool, now int64) (*outbox.Record, error) {
	ids, err := operation{s, conn, now}.sequences(ctx, s.sql.Ahead, key, sequence, dead)
	if err != nil {
		return nil, err
	}
	if key == "" || len(ids) == 0 {
		return nil, bulk.NoHead(key)
	}
	recs, err := s.summaries(ctx, conn, ids, now)
	if err != nil {
		return nil, err
	}
	return recs[0], nil
}

// Keys lists held keys by the message at their head. It looks at no more than CountCap
// such messages.
func (s *Store) Keys(ctx context.Context, after int64, limit int) ([]outbox.HeldKey, error) {
	var keys []outbox.HeldKey
	err := s.read(ctx, func(ctx context.Context, conn *sql.Conn) error {
		heads, err := s.firstHeads(ctx, conn, after, outbox.Filter{Limit: limit}.PageSize())
		if err != nil {
			return err
		}
		recs, err := s.summaries(ctx, conn, heads, s.now())
		if err != nil {
			return err
		}
		keys = make([]outbox.HeldKey, len(recs))
		for i, rec := range recs {
			keys[i] = outbox.HeldKey{Key: rec.Key, Head: rec}
		}
		return s.countWaiting(ctx, conn, keys)
	})
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	return keys, nil
}

// firstHeads finds the first message of each held key, and of those the ones above a
// sequence.
func (s *Store) firstHeads(ctx context.Context, conn *sql.Conn, after int64, limit int) ([]int64, error) {
	seen := map[string]bool{}
	var heads []int64
	err := each(ctx, conn, func(rows *sql.Rows) error {
		var h outbox.Head
		if err := rows.Scan(&h.Sequence, &h.Key, &h.Topic, &h.Dead); err != nil {
			return err
		}
		if !seen[h.Key] && h.Sequence > after && len(heads) < limit {
			heads = append(heads, h.Sequence)
		}
		seen[h.Key] = true
		return nil
	}, s.sql.Heads, 0, s.countCap)
	return heads, err
}

func (s *Store) countWaiting(ctx context.Context, conn *sql.Conn, keys []outbox.HeldKey) error {
	held := make(map[string]*outbox.HeldKey, len(keys))
	names := make([]string, len(keys))
	for i := range keys {
		held[keys[i].Key], names[i] = &keys[i], keys[i].Key
	}
	return each(ctx, conn, func(rows *sql.Rows) error {
		var key string
		var sequence int64
		if err := rows.Scan(&key, &sequence); err != nil {
			return err
		}
		if k := held[key]; k != nil && sequence > k.Head.Sequence && k.Waiting < outbox.HeldCap {
			k.Waiting++
		}
		return nil
	}, s.sql.Waiting, jsonList(names), s.countCap)
}

// summaries reads messages by sequence without their payloads, in that order.
func (s *Store) summaries(ctx context.Context, conn *sql.Conn, ids []int64, now int64) ([]*outbox.Record, error) {
	found := make(map[int64]*outbox.Record, len(ids))
	err := each(ctx, conn, func(rows *sql.Rows) error {
		rec, err := scanRecord(rows, now)
		if err == nil {
			found[rec.Sequence] = rec
		}
		return err
	}, s.sql.Summaries, jsonList(ids))
	var recs []*outbox.Record
	for _, id := range ids {
		if found[id] != nil {
			recs = append(recs, found[id])
		}
	}
	return recs, err
}

// Groups sorts dead messages by what they have in common.
func (s *Store) Groups(ctx context.Context, f outbox.Filter) (outbox.Groups, error) {
	var groups outbox.Groups
	err := s.read(ctx, func(ctx context.Context, conn *sql.Conn) error {
		g := bulk.NewGroups(f, moment(s.now()))
		looked := 0
		err := s.slim(ctx, conn, s.list[false].SlimDead, func(c bulk.Candidate) {
			if looked++; looked <= outbox.GroupCap {
				g.Add(c)
			}
		}, 0, int64(math.MaxInt64), outbox.GroupCap+1, true)
		groups = g.Result(looked > outbox.GroupCap)
		return err
	})
	if err != nil {
		return outbox.Groups{}, fmt.Errorf("group: %w", err)
	}
	return groups, nil
}

// slim reads messages as a job looks at them.
func (s *Store) slim(ctx context.Context, conn *sql.Conn, query string, use func(bulk.Candidate), args ...any) error {
	return each(ctx, conn, func(rows *sql.Rows) error {
		c := bulk.Candidate{Record: &outbox.Record{}}
		var id string
		var created, published, dead int64
		err := rows.Scan(&c.Sequence, &id, &c.TenantID, &c.Topic, &c.Key, &created, &published, &dead, &c.DeadReason,
			&c.LastError, &c.Route)
		if err != nil {
			return err
		}
		c.EventID, _ = uuid.Parse(id) // a corrupt row can be discarded too
		c.CreatedAt, c.PublishedAt, c.DeadAt = moment(created), moment(published), moment(dead)
		use(c)
		return nil
	}, query, args...)
}
