package memstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

// A leaseRow is the right to relay one shard, and the batches recorded under it.
type leaseRow struct {
	shard     int
	lo, hi    int // slots, inclusively
	owner     uuid.UUID
	instance  string
	epoch     int64
	expiresAt time.Time
	draining  bool
	nudge     int64
	low       int64
	batches   map[batchKey]*batch
}

func newLeases(n int) []*leaseRow {
	leases := make([]*leaseRow, n)
	for i := range leases {
		leases[i] = &leaseRow{
			shard: i, lo: i * slots / n, hi: (i+1)*slots/n - 1,
			batches: make(map[batchKey]*batch),
		}
	}
	return leases
}

func (l *leaseRow) held(now time.Time) bool {
	return l.owner != uuid.Nil && !l.expiresAt.Before(now)
}

func (l *leaseRow) owns(r *row) bool { return r.slot >= l.lo && r.slot <= l.hi }

// A lease is a leaseRow in the hands of one owner.
type lease struct {
	store *Store
	row   *leaseRow
	owner uuid.UUID
	ttl   time.Duration
	info  outbox.LeaseInfo
	// before is who had the lease last, to tell a crash from a stop.
	before predecessor
}

type predecessor struct {
	instance string
	draining bool
}

// Acquire takes the first lease that is free or has expired.
func (s *Store) Acquire(ctx context.Context, req outbox.LeaseRequest) (outbox.Lease, error) {
	if err := s.enter(ctx); err != nil {
		return nil, fmt.Errorf("acquire lease: %w", err)
	}
	defer s.mu.Unlock()
	now := s.clock.now()
	for _, l := range s.leases {
		if !l.held(now) {
			return s.grant(l, req, now), nil
		}
	}
	return nil, fmt.Errorf("acquire lease: %w", outbox.ErrLeaseHeld)
}

func (s *Store) grant(l *leaseRow, req outbox.LeaseRequest, now time.Time) *lease {
	before := predecessor{l.instance, l.draining}
	takeover := l.owner != uuid.Nil
	l.owner = uuid.New() // anew each time: an instance may lose the lease and get it again
	l.instance = req.Instance
	l.epoch++
	l.expiresAt = now.Add(req.TTL)
	l.draining = false
	return &lease{
		store: s, row: l, owner: l.owner, ttl: req.TTL, before: before,
		info: outbox.LeaseInfo{
			Shard: l.shard, Shards: len(s.leases), SlotLo: l.lo, SlotHi: l.hi,
			Epoch: l.epoch, Low: l.low, Top: s.top(), Nudge: l.nudge, Gapless: s.cfg.Gapless, Takeover: takeover,
			Paused: s.pausedTable(), PausedRoutes: s.pausedRoutes(),
		},
	}
}

func (s *Store) pausedTable() bool {
	_, paused := s.paused[""]
	return paused
}

func (s *Store) pausedRoutes() []string {
	var routes []string
	for _, route := range slices.Sorted(maps.Keys(s.paused)) {
		if route != "" {
			routes = append(routes, route)
		}
	}
	return routes
}

// top is the highest sequence that can be seen.
func (s *Store) top() int64 {
	for r := range s.all.before(1, s.sequence+1) {
		return r.Sequence
	}
	return 0
}

func (l *lease) Info() outbox.LeaseInfo { return l.info }

// enter locks the store for an operation of the lease, unless the lease is lost.
// Expiry alone does not lose it: nobody has taken it over.
func (l *lease) enter(ctx context.Context) error {
	if err := l.store.enter(ctx); err != nil {
		return err
	}
	if l.row.owner != l.owner || l.row.epoch != l.info.Epoch {
		l.store.mu.Unlock()
		return outbox.ErrLeaseLost
	}
	return nil
}

func (l *lease) Renew(ctx context.Context, r outbox.Renewal) (outbox.Renewed, error) {
	if err := l.enter(ctx); err != nil {
		return outbox.Renewed{}, fmt.Errorf("renew lease: %w", err)
	}
	defer l.store.mu.Unlock()
	l.row.expiresAt = l.store.clock.now().Add(l.ttl)
	l.row.low = r.Low
	l.row.draining = r.Draining
	return outbox.Renewed{Nudge: l.row.nudge, Paused: l.store.pausedTable(), PausedRoutes: l.store.pausedRoutes()}, nil
}

func (l *lease) Release(ctx context.Context, low int64) error {
	if err := l.enter(ctx); err != nil {
		return fmt.Errorf("release lease: %w", err)
	}
	defer l.store.mu.Unlock()
	l.row.owner = uuid.Nil
	l.row.expiresAt = time.Time{}
	l.row.low = low
	return nil
}

func (l *lease) Heads(ctx context.Context, after int64, limit int) ([]outbox.Head, error) {
	if err := l.enter(ctx); err != nil {
		return nil, fmt.Errorf("read heads: %w", err)
	}
	defer l.store.mu.Unlock()
	var heads []outbox.Head
	for r := range l.store.heads.after(1, after) {
		if len(heads) == limit {
			break
		}
		if l.row.owns(r) {
			heads = append(heads, outbox.Head{Sequence: r.Sequence, Key: r.Key, Topic: r.Topic, Dead: !r.DeadAt.IsZero()})
		}
	}
	return heads, nil
}
