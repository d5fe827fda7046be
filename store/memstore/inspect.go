package memstore

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/bulk"
)

// Stats counts what is in the store, up to outbox.CountCap.
func (s *Store) Stats(ctx context.Context) (outbox.Stats, error) {
	if err := s.enter(ctx); err != nil {
		return outbox.Stats{}, fmt.Errorf("read stats: %w", err)
	}
	defer s.mu.Unlock()
	now := s.clock.now()
	stats := outbox.Stats{Table: s.cfg.Table, Now: now}
	s.countOpen(&stats)
	s.countDead(&stats)
	for _, l := range s.leases {
		stats.Leases = append(stats.Leases, l.state(now))
	}
	for instance, m := range s.members {
		stats.Relays = append(stats.Relays, outbox.RelayState{
			Instance: instance, Version: m.version, SeenAt: m.seenAt, Live: m.live(now), Note: m.note,
		})
	}
	stats.Paused = slices.SortedFunc(maps.Values(s.paused), func(a, b outbox.PausedRoute) int { return cmp.Compare(a.Route, b.Route) })
	slices.SortFunc(stats.Relays, func(a, b outbox.RelayState) int { return cmp.Compare(a.Instance, b.Instance) })
	return stats, nil
}

// Tenants counts messages by tenant.
func (s *Store) Tenants(ctx context.Context, limit int) (outbox.Tenants, error) {
	if err := s.enter(ctx); err != nil {
		return outbox.Tenants{}, fmt.Errorf("count tenants: %w", err)
	}
	defer s.mu.Unlock()
	now, looked := s.clock.now(), 0
	t := bulk.NewTenants(outbox.CountCap)
	for r := range s.open.after(1, 0) {
		if looked++; looked > outbox.CountCap {
			break
		}
		c := outbox.TenantCount{TenantID: r.TenantID, Pending: 1}
		if !r.AvailableAt.After(now) {
			c.OldestPending = now.Sub(r.CreatedAt)
		}
		t.Add("open", 1, c)
	}
	looked = 0
	for r := range s.dead.after(0, 0) {
		if looked++; looked > outbox.CountCap {
			break
		}
		c := outbox.TenantCount{TenantID: r.TenantID}
		if !r.discarded() {
			c.Dead = 1
		}
		t.Add("dead", 1, c)
	}
	return t.Top(limit), nil
}

func (s *Store) countOpen(stats *outbox.Stats) {
	for r := range s.open.after(1, 0) {
		if stats.Pending == outbox.CountCap {
			stats.Capped = true
			return
		}
		stats.Pending++
		switch r.summary(stats.Now).Status(stats.Now) {
		case outbox.StatusInFlight:
			stats.InFlight++
		case outbox.StatusRetrying:
			stats.Retrying++
		case outbox.StatusScheduled:
			stats.Scheduled++
		}
		if !r.AvailableAt.After(stats.Now) {
			stats.OldestPending = max(stats.OldestPending, stats.Now.Sub(r.CreatedAt))
		}
	}
}

func (s *Store) countDead(stats *outbox.Stats) {
	for r := range s.dead.after(0, 0) {
		switch {
		case stats.Dead+stats.Discarded == outbox.CountCap:
			stats.Capped = true
			return
		case r.discarded():
			stats.Discarded++
		default:
			stats.Dead++
		}
	}
}

func (l *leaseRow) state(now time.Time) outbox.LeaseState {
	return outbox.LeaseState{
		Shard: l.shard, Instance: l.instance, Epoch: l.epoch, ExpiresAt: l.expiresAt, Held: l.held(now),
		Draining: l.draining, SlotLo: l.lo, SlotHi: l.hi, Low: l.low, Batches: len(l.batches),
	}
}

// List returns one page of the messages that match f.
func (s *Store) List(ctx context.Context, f outbox.Filter) (outbox.List, error) {
	if err := s.enter(ctx); err != nil {
		return outbox.List{}, fmt.Errorf("list: %w", err)
	}
	defer s.mu.Unlock()
	list := outbox.List{Now: s.clock.now()}
	for r := range s.page(f) {
		rec := r.summary(list.Now)
		if !f.Matches(rec, r.route(), list.Now) {
			continue
		}
		if n := len(list.Records); n == f.PageSize() {
			list.Next = list.Records[n-1].Sequence
			break
		}
		list.Records = append(list.Records, rec)
	}
	return list, nil
}

// page yields the rows between f.After and f.Before in the order asked for.
func (s *Store) page(f outbox.Filter) iter.Seq[*row] {
	before := cmp.Or(f.Before, s.sequence+1)
	rows := s.all.before(1, before)
	past := func(r *row) bool { return r.Sequence <= f.After }
	if f.OldestFirst {
		rows = s.all.after(1, f.After)
		past = func(r *row) bool { return r.Sequence >= before }
	}
	return func(yield func(*row) bool) {
		for r := range rows {
			if past(r) || !yield(r) {
				return
			}
		}
	}
}

// Get returns one message with its payload.
func (s *Store) Get(ctx context.Context, id uuid.UUID) (*outbox.Record, error) {
	if err := s.enter(ctx); err != nil {
		return nil, fmt.Errorf("get: %w", err)
	}
	defer s.mu.Unlock()
	r, err := s.event(id)
	if err != nil {
		return nil, fmt.Errorf("get: %w", err)
	}
	rec := r.record(s.clock.now())
	if rec.InFlight {
		rec.Flight = &outbox.Flight{Instance: r.batch.instance, Since: r.batch.recordedAt}
	}
	return rec, nil
}

// event finds a committed row by event id.
func (s *Store) event(id uuid.UUID) (*row, error) {
	r := s.events[id]
	if r == nil || r.tx != nil {
		return nil, outbox.ErrNotFound.With("event_id", id.String()+" does not exist")
	}
	return r, nil
}

// Attempts returns the failures of a message, newest first.
func (s *Store) Attempts(ctx context.Context, sequence int64) ([]outbox.Attempt, error) {
	if err := s.enter(ctx); err != nil {
		return nil, fmt.Errorf("read attempts: %w", err)
	}
	defer s.mu.Unlock()
	r := s.all.find(sequence)
	if r == nil {
		return nil, nil
	}
	attempts := slices.Clone(r.history)
	slices.Reverse(attempts)
	return attempts, nil
}

// Ahead returns the message that holds back the one of a key and sequence.
func (s *Store) Ahead(ctx context.Context, key string, sequence int64, dead bool) (*outbox.Record, error) {
	if err := s.enter(ctx); err != nil {
		return nil, fmt.Errorf("look ahead: %w", err)
	}
	defer s.mu.Unlock()
	for r := range s.heads.after(1, 0) {
		if r.Sequence >= sequence {
			break
		}
		if r.Key == key && key != "" && (dead || r.DeadAt.IsZero()) {
			return r.summary(s.clock.now()), nil
		}
	}
	return nil, fmt.Errorf("look ahead: %w", bulk.NoHead(key))
}

// Keys lists held keys by the message at their head.
func (s *Store) Keys(ctx context.Context, after int64, limit int) ([]outbox.HeldKey, error) {
	if err := s.enter(ctx); err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	defer s.mu.Unlock()
	limit = outbox.Filter{Limit: limit}.PageSize()
	seen := map[string]bool{}
	var keys []outbox.HeldKey
	for r := range s.heads.after(1, 0) {
		if len(keys) == limit {
			break
		}
		if !seen[r.Key] && r.Sequence > after {
			keys = append(keys, outbox.HeldKey{Key: r.Key, Head: r.summary(s.clock.now())})
		}
		seen[r.Key] = true
	}
	s.countWaiting(keys)
	return keys, nil
}

func (s *Store) countWaiting(keys []outbox.HeldKey) {
	held := make(map[string]*outbox.HeldKey, len(keys))
	for i := range keys {
		held[keys[i].Key] = &keys[i]
	}
	looked := 0
	for r := range s.open.after(1, 0) {
		if looked++; looked > outbox.CountCap {
			return
		}
		if k := held[r.Key]; k != nil && r.Sequence > k.Head.Sequence && k.Waiting < outbox.HeldCap {
			k.Waiting++
		}
	}
}

// Groups sorts dead messages by what they have in common.
func (s *Store) Groups(ctx context.Context, f outbox.Filter) (outbox.Groups, error) {
	if err := s.enter(ctx); err != nil {
		return outbox.Groups{}, fmt.Errorf("group: %w", err)
	}
	defer s.mu.Unlock()
	groups := bulk.NewGroups(f, s.clock.now())
	looked := 0
	for r := range s.dead.before(math.MaxInt64, 0) {
		if looked++; looked > outbox.GroupCap {
			return groups.Result(true), nil
		}
		groups.Add(bulk.Candidate{Record: &r.Record, Route: r.route()})
	}
	return groups.Result(false), nil
}
