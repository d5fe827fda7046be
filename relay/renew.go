package relay

import (
	"context"
	"errors"
	"time"

	"github.com/go-outbox/outbox"
)

// renewLoop keeps the lease, independently of dispatch, so that a slow sink never
// costs it. The deadline counts from before the renewal was sent: the database may
// have granted it then, and not later. It returns why the lease is lost.
func (s *shift) renewLoop(ctx context.Context) error {
	every := s.cfg.Lease / 3
	next := every
	for {
		t := time.NewTimer(next)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-s.leaving:
			t.Stop()
			return nil
		case <-s.renewKick:
			t.Stop()
		case <-t.C:
		}
		err := s.renew(ctx)
		switch {
		case err == nil:
			next = every
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, outbox.ErrLeaseLost):
			return err
		case !time.Now().Before(s.leaseEnd()):
			return errExpired
		default:
			s.hooks.DatabaseError(s.table, "renew", err)
			next = min(every/8, time.Until(s.leaseEnd()))
		}
	}
}

func (s *shift) renew(ctx context.Context) error {
	s.mu.Lock()
	r := outbox.Renewal{Low: s.ledger.low(), Draining: s.draining}
	end := s.deadline
	s.mu.Unlock()
	sent := time.Now()
	ctx, cancel := context.WithTimeout(ctx, min(s.cfg.Lease/3, max(end.Sub(sent), time.Millisecond)))
	defer cancel()
	renewed, err := s.lease.Renew(ctx, r)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline = sent.Add(s.cfg.Lease)
	if sent.After(end) {
		s.workers.Broadcast() // they stopped when the deadline passed
	}
	if renewed.Nudge != s.nudge {
		s.nudge, s.nudged = renewed.Nudge, true
		s.ledger.scan.kicked = true
		kick(s.readKick)
	}
	if s.paused && !renewed.Paused {
		kick(s.readKick)
		s.workers.Broadcast()
	}
	s.paused = renewed.Paused
	s.ledger.setPaused(renewed.PausedRoutes, time.Now())
	if s.ledger.scan.rewind != nil {
		kick(s.readKick) // for what was parked
	}
	return nil
}

// halted reports whether the table is paused: nothing is read, and of what was read
// nothing is dispatched. Whoever publishes once by hand means it.
func (s *shift) halted() bool { return s.paused && !s.once }

func (s *shift) leaseEnd() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deadline
}
