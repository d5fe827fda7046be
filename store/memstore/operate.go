package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/bulk"
)

// Preview reports what Apply would do.
func (s *Store) Preview(ctx context.Context, a outbox.Action) (outbox.Effect, error) {
	return s.operate(ctx, a, func(change) {})
}

// Apply does a and audits it.
func (s *Store) Apply(ctx context.Context, a outbox.Action) (outbox.Effect, error) {
	return s.operate(ctx, a, func(c change) {
		s.nudge()
		c.do()
		s.note(bulk.Entry(a, c.effect, c.about))
	})
}

// A change is an action that has been thought through.
type change struct {
	effect outbox.Effect
	about  *outbox.Record // when it is about one message
	do     func()
}

func (s *Store) operate(ctx context.Context, a outbox.Action, carry func(change)) (outbox.Effect, error) {
	if err := a.Validate(); err != nil {
		return outbox.Effect{}, fmt.Errorf("operate: %w", err)
	}
	if err := s.enter(ctx); err != nil {
		return outbox.Effect{}, fmt.Errorf("%s: %w", a.Verb, err)
	}
	defer s.mu.Unlock()
	c, err := s.plan(a)
	if err != nil {
		return outbox.Effect{}, fmt.Errorf("%s: %w", a.Verb, err)
	}
	carry(c)
	return c.effect, nil
}

func (s *Store) plan(a outbox.Action) (change, error) {
	switch a.Verb {
	case outbox.VerbReplay, outbox.VerbDiscard, outbox.VerbReschedule:
		r, err := s.event(a.EventID)
		if err != nil {
			return change{}, err
		}
		return s.one(a, r)
	case outbox.VerbRetryHead, outbox.VerbSkipHead:
		r := s.head(a.Key)
		if r == nil {
			return change{}, bulk.NoHead(a.Key)
		}
		return s.one(a, r)
	case outbox.VerbReleaseKey:
		return s.releaseKey(a.Key)
	case outbox.VerbPause, outbox.VerbResume:
		return s.pause(a)
	case outbox.VerbReleaseLease:
		return s.releaseLease(a.Shard)
	default:
		return s.trigger(), nil
	}
}

// one is a change of a single message.
func (s *Store) one(a outbox.Action, r *row) (change, error) {
	now := s.clock.now()
	rec := r.summary(now)
	effect, err := bulk.Judge(a, rec, now)
	c := change{effect: effect, about: rec}
	switch a.Verb {
	case outbox.VerbReplay, outbox.VerbRetryHead:
		c.do = func() { s.replay(r, 0) }
	case outbox.VerbDiscard, outbox.VerbSkipHead:
		c.do = func() { s.discard(r) }
	default:
		c.do = func() { s.reschedule(r, a.At) }
	}
	return c, err
}

// head is the first message of a key that is dead or waits.
func (s *Store) head(key string) *row {
	for r := range s.heads.after(1, 0) {
		if r.Key == key {
			return r
		}
	}
	return nil
}

func (s *Store) releaseKey(key string) (change, error) {
	var rows []*row
	for r := range s.heads.after(1, 0) {
		if r.Key == key && !r.DeadAt.IsZero() && len(rows) < bulk.ReleaseCap {
			rows = append(rows, r)
		}
	}
	if len(rows) == 0 {
		return change{}, bulk.NoHead(key)
	}
	effect := outbox.Effect{Messages: len(rows), Before: outbox.StatusDead, After: outbox.StatusDiscarded}
	return change{effect: effect, do: func() {
		for _, r := range rows {
			s.discard(r)
		}
	}}, nil
}

func (s *Store) pause(a outbox.Action) (change, error) {
	was, paused := s.paused[a.Route]
	if err := bulk.PauseRefused(a, paused, was.By); err != nil {
		return change{}, err
	}
	return change{do: func() {
		if a.Verb == outbox.VerbResume {
			delete(s.paused, a.Route)
			return
		}
		s.paused[a.Route] = outbox.PausedRoute{Route: a.Route, At: s.clock.now(), By: a.Actor, Reason: a.Reason}
	}}, nil
}

func (s *Store) releaseLease(shard int) (change, error) {
	now := s.clock.now()
	for _, l := range s.leases {
		if l.shard == shard && l.held(now) {
			return change{do: func() {
				l.owner, l.expiresAt = uuid.Nil, time.Time{}
				l.draining = true // being fenced off is not a crash
			}}, nil
		}
	}
	return change{}, bulk.NotHeld(shard)
}

func (s *Store) trigger() change {
	now := s.clock.now()
	var rows []*row
	for r := range s.open.after(1, 0) {
		if len(rows) == bulk.TriggerCap {
			break
		}
		if r.Attempts > 0 && r.batch == nil && r.AvailableAt.After(now) {
			rows = append(rows, r)
		}
	}
	return change{effect: outbox.Effect{Messages: len(rows)}, do: func() {
		for _, r := range rows {
			r.AvailableAt = s.clock.after(now, r.CreatedAt)
			s.reindex(r)
		}
	}}
}

// nudge tells every relay that rows change behind its back.
func (s *Store) nudge() {
	for _, l := range s.leases {
		l.nudge++
	}
}

// replay begins a new generation of the message. What is in flight goes on, but its
// outcome no longer matches.
func (s *Store) replay(r *row, delay time.Duration) {
	r.Replays++
	r.Attempts, r.Crashes = 0, 0
	r.DeadAt, r.DeadReason = time.Time{}, ""
	r.PublishedAt = time.Time{}
	r.LastError = ""
	r.RoutesDone = nil
	r.AvailableAt = s.clock.after(s.clock.now(), r.CreatedAt).Add(delay)
	r.batch = nil
	s.reindex(r)
}

// discard gives a message up. It is a new generation too: what is in flight cannot
// bring it back.
func (s *Store) discard(r *row) {
	r.Replays++
	r.DeadAt, r.DeadReason = s.clock.now(), outbox.DeadDiscarded
	r.batch = nil
	s.reindex(r)
}

func (s *Store) reschedule(r *row, at time.Time) {
	at = at.UTC().Truncate(time.Microsecond)
	if now := s.clock.now(); at.Before(now) {
		at = now
	}
	r.AvailableAt = at
	if !at.After(r.CreatedAt) {
		r.AvailableAt = s.clock.after(at, r.CreatedAt)
	}
	s.reindex(r)
}
