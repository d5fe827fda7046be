package memstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/bulk"
)

// PreviewJob counts what a job would change.
func (s *Store) PreviewJob(ctx context.Context, req outbox.JobRequest) (outbox.JobPreview, error) {
	if err := req.Validate(); err != nil {
		return outbox.JobPreview{}, fmt.Errorf("preview job: %w", err)
	}
	if err := s.enter(ctx); err != nil {
		return outbox.JobPreview{}, fmt.Errorf("preview job: %w", err)
	}
	defer s.mu.Unlock()
	count, err := bulk.CountMatches(ctx, req, s.clock.now(), messages{s})
	if err != nil {
		return outbox.JobPreview{}, fmt.Errorf("preview job: %w", err)
	}
	return count.Preview(req, s.delivered(&count)), nil
}

// delivered finds the highest delivered sequence of the keys of some messages.
func (s *Store) delivered(count *bulk.Count) map[string]int64 {
	first, keys := count.First()
	highest := make(map[string]int64, len(keys))
	for _, key := range keys {
		highest[key] = 0
	}
	looked := 0
	for r := range s.all.after(1, first) {
		if looked++; looked > bulk.ConflictCap {
			break
		}
		if _, ok := highest[r.Key]; ok && !r.PublishedAt.IsZero() {
			highest[r.Key] = r.Sequence
		}
	}
	return highest
}

// StartJob records a job.
func (s *Store) StartJob(ctx context.Context, req outbox.JobRequest) (outbox.Job, error) {
	if err := req.Validate(); err != nil {
		return outbox.Job{}, fmt.Errorf("start job: %w", err)
	}
	if err := s.enter(ctx); err != nil {
		return outbox.Job{}, fmt.Errorf("start job: %w", err)
	}
	defer s.mu.Unlock()
	now := s.clock.now()
	count, err := bulk.CountMatches(ctx, req, now, messages{s})
	if err != nil {
		return outbox.Job{}, fmt.Errorf("start job: %w", err)
	}
	job, err := bulk.New(req, count.N, now)
	if err != nil {
		return outbox.Job{}, fmt.Errorf("start job: %w", err)
	}
	s.jobs = append(s.jobs, job)
	s.note(job.Entry(outbox.VerbStartJob, req.Actor, req.Reason))
	return job.Job, nil
}

// StepJob makes the next chunk of a job.
func (s *Store) StepJob(ctx context.Context, id uuid.UUID, driver string) (outbox.Job, error) {
	if err := s.enter(ctx); err != nil {
		return outbox.Job{}, fmt.Errorf("step job: %w", err)
	}
	defer s.mu.Unlock()
	job, err := s.job(id)
	if err != nil {
		return outbox.Job{}, fmt.Errorf("step job: %w", err)
	}
	closing, err := job.Step(ctx, driver, s.clock.now(), messages{s})
	if err != nil {
		return job.Job, fmt.Errorf("step job: %w", err)
	}
	if closing != nil {
		s.note(*closing)
	}
	return job.Job, nil
}

// SetJob pauses, resumes or cancels a job.
func (s *Store) SetJob(ctx context.Context, id uuid.UUID, state outbox.JobState, actor, reason string) (outbox.Job, error) {
	if err := bulk.CheckSet(actor, reason); err != nil {
		return outbox.Job{}, fmt.Errorf("set job: %w", err)
	}
	if err := s.enter(ctx); err != nil {
		return outbox.Job{}, fmt.Errorf("set job: %w", err)
	}
	defer s.mu.Unlock()
	job, err := s.job(id)
	if err != nil {
		return outbox.Job{}, fmt.Errorf("set job: %w", err)
	}
	entry, err := job.Set(state, actor, reason, s.clock.now())
	if err != nil {
		return job.Job, fmt.Errorf("set job: %w", err)
	}
	s.note(entry)
	return job.Job, nil
}

// Jobs lists bulk changes, newest first.
func (s *Store) Jobs(ctx context.Context, limit int) ([]outbox.Job, error) {
	if err := s.enter(ctx); err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	defer s.mu.Unlock()
	var list []outbox.Job
	for _, j := range slices.Backward(s.jobs) {
		if len(list) == (outbox.Filter{Limit: limit}).PageSize() {
			break
		}
		list = append(list, j.Job)
	}
	return list, nil
}

// Job returns one bulk change.
func (s *Store) Job(ctx context.Context, id uuid.UUID) (outbox.Job, error) {
	if err := s.enter(ctx); err != nil {
		return outbox.Job{}, fmt.Errorf("get job: %w", err)
	}
	defer s.mu.Unlock()
	job, err := s.job(id)
	if err != nil {
		return outbox.Job{}, fmt.Errorf("get job: %w", err)
	}
	return job.Job, nil
}

func (s *Store) job(id uuid.UUID) (*bulk.Job, error) {
	for _, j := range s.jobs {
		if j.ID == id {
			return j, nil
		}
	}
	return nil, bulk.NoJob(id)
}

// messages is the locked store as a job sees it.
type messages struct{ s *Store }

var _ bulk.Messages = messages{}

func (m messages) Page(_ context.Context, f outbox.Filter, after int64, limit int) ([]bulk.Candidate, error) {
	var page []bulk.Candidate
	for r := range m.s.all.after(1, after) {
		if len(page) == limit {
			break
		}
		if r.DeadAt.IsZero() && (f.Status == outbox.StatusDead || f.Status == outbox.StatusDiscarded) {
			continue
		}
		page = append(page, bulk.Candidate{Record: &r.Record, Route: r.route()})
	}
	return page, nil
}

func (m messages) Lagging(_ context.Context, upTo int64, limit int) (n int, err error) {
	relayed := slices.ContainsFunc(m.s.leases, func(l *leaseRow) bool { return l.owner != uuid.Nil })
	if !relayed {
		return 0, nil // nobody lags; whoever crashed still counts
	}
	now := m.s.clock.now()
	for r := range m.s.due.after(0, 0) {
		if n == limit {
			break
		}
		if r.Sequence <= upTo && r.Replays > 0 && !r.AvailableAt.After(now) {
			n++
		}
	}
	return n, nil
}

func (m messages) Change(_ context.Context, verb outbox.Verb, picks []bulk.Candidate, delays []time.Duration) (int, error) {
	m.s.nudge()
	for i, c := range picks {
		r := m.s.all.find(c.Sequence)
		switch verb {
		case outbox.VerbReplay:
			delay := time.Duration(0)
			if delays != nil {
				delay = delays[i]
			}
			m.s.replay(r, delay)
		case outbox.VerbDiscard:
			m.s.discard(r)
		default:
			m.s.remove(r)
		}
	}
	return len(picks), nil
}
