package memstore

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
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
		stats.Relays = append(stats.Relays, outbox.RelayState{Instance: instance, Version: m.version, SeenAt: m.seenAt})
	}
	slices.SortFunc(stats.Relays, func(a, b outbox.RelayState) int { return cmp.Compare(a.Instance, b.Instance) })
	return stats, nil
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
		if !matches(rec, f, list.Now) {
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

func matches(rec *outbox.Record, f outbox.Filter, now time.Time) bool {
	return (f.Status == "" || rec.Status(now) == f.Status) &&
		(f.Topic == "" || outbox.MatchTopic(f.Topic, rec.Topic)) &&
		(f.Key == "" || rec.Key == f.Key) &&
		(f.TenantID == "" || rec.TenantID == f.TenantID)
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
	return r.record(s.clock.now()), nil
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
