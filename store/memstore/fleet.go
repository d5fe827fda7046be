package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/go-outbox/outbox"
)

type member struct {
	version string
	seenAt  time.Time
	ttl     time.Duration
	note    outbox.RelayNote
}

func (m member) live(now time.Time) bool { return !m.seenAt.Add(m.ttl).Before(now) }

// memberMemory is for how long a process that is gone is still shown.
const memberMemory = time.Hour

func checkShards(n int) error {
	if n < 1 || n > slots {
		return outbox.ErrInvalidConfig.With("shards", fmt.Sprintf("must be between 1 and %d, got %d", slots, n))
	}
	return nil
}

// Heartbeat registers a relay process and forgets those that are gone.
func (s *Store) Heartbeat(ctx context.Context, m outbox.Member) (outbox.FleetView, error) {
	if err := s.enter(ctx); err != nil {
		return outbox.FleetView{}, fmt.Errorf("heartbeat: %w", err)
	}
	defer s.mu.Unlock()
	now := s.clock.now()
	s.members[m.Instance] = member{version: m.Version, seenAt: now, ttl: m.TTL, note: m.Note}
	view := outbox.FleetView{Shards: len(s.leases)}
	for instance, m := range s.members {
		switch {
		case m.live(now):
			view.Live++
		case m.seenAt.Add(max(m.ttl, memberMemory)).Before(now):
			delete(s.members, instance)
		}
	}
	return view, nil
}

// Leave removes a relay process.
func (s *Store) Leave(ctx context.Context, instance string) error {
	if err := s.enter(ctx); err != nil {
		return fmt.Errorf("leave fleet: %w", err)
	}
	defer s.mu.Unlock()
	delete(s.members, instance)
	return nil
}

// Resize changes the number of shards while no relay works.
func (s *Store) Resize(ctx context.Context, shards int) error {
	if err := checkShards(shards); err != nil {
		return fmt.Errorf("resize: %w", err)
	}
	if err := s.enter(ctx); err != nil {
		return fmt.Errorf("resize: %w", err)
	}
	defer s.mu.Unlock()
	now := s.clock.now()
	for _, l := range s.leases {
		if l.held(now) {
			return fmt.Errorf("resize: shard %d: %w", l.shard, outbox.ErrLeaseHeld)
		}
	}
	s.resize(shards)
	return nil
}

func (s *Store) resize(shards int) {
	old := s.leases
	s.leases = newLeases(shards)
	low := old[0].low
	var epoch, nudge int64
	for _, l := range old {
		low = min(low, l.low)
		epoch = max(epoch, l.epoch)
		nudge = max(nudge, l.nudge)
		l.owner = [16]byte{} // whoever still holds it has lost it
	}
	for _, l := range s.leases {
		l.low, l.epoch, l.nudge = low, epoch+1, nudge+1
	}
	for _, l := range old {
		for _, b := range l.left(epoch + 1) {
			b.inFlight = b.inFlight && !l.draining
			s.split(b, epoch)
		}
	}
}

// split hands the messages of an old batch to the new owners of their slots.
func (s *Store) split(b *batch, epoch int64) {
	for _, l := range s.leases {
		part := *b
		part.key = batchKey{epoch, int64(len(l.batches)) + 1}
		part.rows = nil
		for _, r := range b.unsettled() {
			if l.owns(r) {
				part.rows = append(part.rows, r)
			}
		}
		for _, r := range part.rows {
			r.batch = &part
		}
		if len(part.rows) > 0 {
			l.batches[part.key] = &part
		}
	}
}
