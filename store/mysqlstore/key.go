package mysqlstore

import (
	"context"
	"database/sql"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/bulk"
)

// Ahead returns the message that holds back the one of a key and sequence.
func (s *Store) Ahead(ctx context.Context, key string, sequence int64, dead bool) (*outbox.Record, error) {
	var rec *outbox.Record
	err := s.snapshot(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		rec, err = inspection{s, tx}.ahead(ctx, key, sequence, dead)
		return err
	})
	return rec, s.explain("look ahead", err)
}

func (v inspection) ahead(ctx context.Context, key string, sequence int64, dead bool) (*outbox.Record, error) {
	ids, err := v.sequences(ctx, v.s.sql.Ahead, key, sequence, dead)
	if err != nil {
		return nil, err
	}
	if key == "" || len(ids) == 0 {
		return nil, bulk.NoHead(key)
	}
	records, err := v.summaries(ctx, ids)
	if err != nil {
		return nil, err
	}
	if len(records) == 0 { // deleted in between, outside of a snapshot
		return nil, bulk.NoHead(key)
	}
	return records[0], nil
}

// Keys lists held keys by the message at their head. It looks at no more than CountCap
// such messages.
func (s *Store) Keys(ctx context.Context, after int64, limit int) ([]outbox.HeldKey, error) {
	var keys []outbox.HeldKey
	err := s.snapshot(ctx, func(ctx context.Context, tx *sql.Tx) error {
		v := inspection{s, tx}
		heads, err := v.firstHeads(ctx, after, outbox.Filter{Limit: limit}.PageSize())
		if err != nil {
			return err
		}
		records, err := v.summaries(ctx, heads)
		if err != nil {
			return err
		}
		keys = make([]outbox.HeldKey, len(records))
		for i, rec := range records {
			keys[i] = outbox.HeldKey{Key: rec.Key, Head: rec}
		}
		return v.countWaiting(ctx, keys)
	})
	if err != nil {
		return nil, s.explain("list keys", err)
	}
	return keys, nil
}

// firstHeads finds the first message of each held key, and of those the ones above a
// sequence.
func (v inspection) firstHeads(ctx context.Context, after int64, limit int) ([]int64, error) {
	seen := map[string]bool{}
	var heads []int64
	err := each(ctx, v.tx, func(rows *sql.Rows) error {
		var h outbox.Head
		if err := rows.Scan(&h.Sequence, &h.Key, &h.Topic, &h.Dead); err != nil {
			return err
		}
		if !seen[h.Key] && h.Sequence > after && len(heads) < limit {
			heads = append(heads, h.Sequence)
		}
		seen[h.Key] = true
		return nil
	}, v.s.sql.Heads, 0, 0, slots-1, v.s.countCap)
	return heads, err
}

func (v inspection) countWaiting(ctx context.Context, keys []outbox.HeldKey) error {
	held := make(map[string]*outbox.HeldKey, len(keys))
	names := make([]string, len(keys))
	for i := range keys {
		held[keys[i].Key], names[i] = &keys[i], keys[i].Key
	}
	return each(ctx, v.tx, func(rows *sql.Rows) error {
		var key string
		var sequence int64
		if err := rows.Scan(&key, &sequence); err != nil {
			return err
		}
		if k := held[key]; k != nil && sequence > k.Head.Sequence && k.Waiting < outbox.HeldCap {
			k.Waiting++
		}
		return nil
	}, v.s.sql.Waiting, names, v.s.countCap)
}

// summaries reads messages by sequence without their payloads, in that order.
func (v inspection) summaries(ctx context.Context, ids []int64) ([]*outbox.Record, error) {
	recorded, err := v.recorded(ctx)
	if err != nil {
		return nil, err
	}
	found := make(map[int64]*outbox.Record, len(ids))
	err = inSlices(ids, func(ids []int64) error {
		records, err := v.s.shown(ctx, v.tx, v.s.sql.Summaries, ids)
		for _, r := range records {
			mark(r, recorded)
			found[r.Sequence] = r
		}
		return err
	})
	var list []*outbox.Record
	for _, id := range ids {
		if found[id] != nil {
			list = append(list, found[id])
		}
	}
	return list, err
}

// Groups sorts dead messages by what they have in common.
func (s *Store) Groups(ctx context.Context, f outbox.Filter) (outbox.Groups, error) {
	var groups outbox.Groups
	err := s.snapshot(ctx, func(ctx context.Context, tx *sql.Tx) error {
		o, err := s.operation(ctx, tx)
		if err != nil {
			return err
		}
		candidates, err := o.candidates(ctx, true, s.sql.ListHeldDesc, 0, endOfTable, outbox.GroupCap+1, heldDead)
		if err != nil {
			return err
		}
		g := bulk.NewGroups(f, o.at)
		for _, c := range candidates[:min(len(candidates), outbox.GroupCap)] {
			g.Add(c)
		}
		groups = g.Result(len(candidates) > outbox.GroupCap)
		return nil
	})
	if err != nil {
		return outbox.Groups{}, s.explain("group", err)
	}
	return groups, nil
}
