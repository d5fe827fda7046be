package memstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-outbox/outbox"
)

// Audit is one entry of the audit trail.
type Audit struct {
	At     time.Time
	Action outbox.Action
	Effect outbox.Effect
}

// Trail returns the audit trail, oldest first.
func (s *Store) Trail() []Audit {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.audit)
}

// Preview reports what Apply would do.
func (s *Store) Preview(ctx context.Context, a outbox.Action) (outbox.Effect, error) {
	return s.operate(ctx, a, func(*row, outbox.Effect) {})
}

// Apply replays a message and audits it.
func (s *Store) Apply(ctx context.Context, a outbox.Action) (outbox.Effect, error) {
	return s.operate(ctx, a, func(r *row, effect outbox.Effect) {
		for _, l := range s.leases {
			l.nudge++
		}
		s.replay(r)
		s.audit = append(s.audit, Audit{At: s.clock.now(), Action: a, Effect: effect})
	})
}

func (s *Store) operate(ctx context.Context, a outbox.Action, apply func(*row, outbox.Effect)) (outbox.Effect, error) {
	if err := a.Validate(); err != nil {
		return outbox.Effect{}, fmt.Errorf("operate: %w", err)
	}
	if err := s.enter(ctx); err != nil {
		return outbox.Effect{}, fmt.Errorf("%s: %w", a.Verb, err)
	}
	defer s.mu.Unlock()
	r, err := s.event(a.EventID)
	if err != nil {
		return outbox.Effect{}, fmt.Errorf("%s: %w", a.Verb, err)
	}
	now := s.clock.now()
	effect := outbox.Effect{Messages: 1, Before: r.summary(now).Status(now), After: outbox.StatusPending}
	apply(r, effect)
	return effect, nil
}

// replay begins a new generation of the message. What is in flight goes on, but its
// outcome no longer matches.
func (s *Store) replay(r *row) {
	r.Replays++
	r.Attempts, r.Crashes = 0, 0
	r.DeadAt, r.DeadReason = time.Time{}, ""
	r.PublishedAt = time.Time{}
	r.LastError = ""
	r.RoutesDone = nil
	r.AvailableAt = s.clock.after(s.clock.now(), r.CreatedAt)
	r.batch = nil
	s.reindex(r)
}
