package memstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-outbox/outbox"
)

// purgeLimit applies when a request has no limit.
const purgeLimit = 1000

// Purge deletes what retention allows, oldest first.
func (s *Store) Purge(ctx context.Context, req outbox.PurgeRequest) (outbox.PurgeResult, error) {
	if req.Limit <= 0 {
		req.Limit = purgeLimit
	}
	expired, err := s.expired(ctx, req)
	if err != nil {
		return outbox.PurgeResult{}, fmt.Errorf("purge: %w", err)
	}
	result := outbox.PurgeResult{More: len(expired) == req.Limit}
	var errs []error
	for _, r := range expired {
		// Archive is the caller's code: it must not run under the lock.
		if req.Archive != nil {
			if err := req.Archive(s.copyOf(r)); err != nil {
				errs = append(errs, fmt.Errorf("archive message %d: %w", r.Sequence, err))
				continue
			}
		}
		s.purge(r, req, &result)
	}
	if err := errors.Join(errs...); err != nil {
		return result, fmt.Errorf("purge: %w", err)
	}
	return result, nil
}

func (s *Store) expired(ctx context.Context, req outbox.PurgeRequest) ([]*row, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	now := s.clock.now()
	var rows []*row
	for _, x := range []*index{&s.published, &s.dead} {
		for r := range x.after(0, 0) {
			if len(rows) == req.Limit || !expired(r, req, now) {
				break
			}
			rows = append(rows, r)
		}
	}
	return rows, nil
}

func expired(r *row, req outbox.PurgeRequest, now time.Time) bool {
	switch {
	case r.deleted:
		return false
	case !r.PublishedAt.IsZero():
		return r.PublishedAt.Add(req.Published).Before(now)
	case !r.DeadAt.IsZero():
		return req.Dead > 0 && r.DeadAt.Add(req.Dead).Before(now)
	default:
		return false
	}
}

func (s *Store) copyOf(r *row) *outbox.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.record(s.clock.now())
}

// purge deletes one row, if it is still expired: it may have been replayed.
func (s *Store) purge(r *row, req outbox.PurgeRequest, result *outbox.PurgeResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !expired(r, req, s.clock.now()) {
		return
	}
	if r.PublishedAt.IsZero() {
		result.Dead++
		s.nudge() // it may hold its key in a relay's memory
	} else {
		result.Published++
	}
	s.remove(r)
}
