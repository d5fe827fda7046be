package pgstore

import (
	"context"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/bulk"
)

// PreviewJob counts what a job would change.
func (s *Store) PreviewJob(ctx context.Context, req outbox.JobRequest) (outbox.JobPreview, error) {
	var preview outbox.JobPreview
	err := s.count(ctx, req, func(o operation, count bulk.Count, _ time.Time) error {
		delivered, err := o.delivered(ctx, &count)
		preview = count.Preview(req, delivered)
		return err
	})
	return preview, s.explain("preview job", err)
}

// count counts what a request matches, and goes on in the same transaction.
func (s *Store) count(ctx context.Context, req outbox.JobRequest, then func(operation, bulk.Count, time.Time) error) error {
	if err := req.Validate(); err != nil {
		return err
	}
	return s.operate(ctx, func(o operation) error {
		if o.verbatim && req.Filter.Status == outbox.StatusPublished {
			return outbox.ErrNotApplicable.With("filter.status",
				"cannot be published: this table has no index to walk; `outbox migrate up --full` adds it, and retention works without")
		}
		now, err := o.now(ctx)
		if err != nil {
			return err
		}
		count, err := bulk.CountMatches(ctx, req, now, o)
		if err != nil {
			return err
		}
		return then(o, count, now)
	})
}

// delivered finds the highest delivered sequence of the keys of some messages.
func (o operation) delivered(ctx context.Context, count *bulk.Count) (map[string]int64, error) {
	first, keys := count.First()
	if len(keys) == 0 {
		return nil, nil
	}
	rows, err := o.tx.Query(ctx, o.sql.Delivered, o.s.mode, first, bulk.ConflictCap, keys)
	if err != nil {
		return nil, err
	}
	highest := make(map[string]int64, len(keys))
	var key string
	var sequence int64
	_, err = pgx.ForEachRow(rows, []any{&key, &sequence}, func() error {
		highest[key] = sequence
		return nil
	})
	return highest, err
}

// StartJob records a job.
func (s *Store) StartJob(ctx context.Context, req outbox.JobRequest) (outbox.Job, error) {
	var started outbox.Job
	err := s.count(ctx, req, func(o operation, count bulk.Count, now time.Time) error {
		job, err := bulk.New(req, count.N, now)
		if err != nil {
			return err
		}
		err = o.exec(ctx, o.sql.InsertJob, pgUUID(job.ID), string(job.Verb), bulk.EncodeFilter(job.Filter), job.Expect, job.Cap, job.Rate,
			job.Actor, job.Reason, string(job.State), job.Total, job.Cut)
		if err != nil {
			return err
		}
		started = job.Job
		return o.note(ctx, job.Entry(outbox.VerbStartJob, job.Actor, job.Reason))
	})
	if err != nil {
		return outbox.Job{}, s.explain("start job", err)
	}
	return started, nil
}

// StepJob makes the next chunk of a job.
func (s *Store) StepJob(ctx context.Context, id uuid.UUID, driver string) (outbox.Job, error) {
	job, err := s.change(ctx, id, func(o operation, job *bulk.Job, now time.Time) (*outbox.AuditEntry, error) {
		return job.Step(ctx, driver, now, o)
	})
	return job, s.explain("step job", err)
}

// SetJob pauses, resumes or cancels a job.
func (s *Store) SetJob(ctx context.Context, id uuid.UUID, state outbox.JobState, actor, reason string) (outbox.Job, error) {
	if err := bulk.CheckSet(actor, reason); err != nil {
		return outbox.Job{}, err
	}
	job, err := s.change(ctx, id, func(_ operation, job *bulk.Job, now time.Time) (*outbox.AuditEntry, error) {
		entry, err := job.Set(state, actor, reason, now)
		return &entry, err
	})
	return job, s.explain("set job", err)
}

// change changes a job and what belongs to it in one transaction that has the job
// locked: whoever cancels it waits for the step that runs, and the next one finds it
// cancelled.
func (s *Store) change(ctx context.Context, id uuid.UUID, fn func(operation, *bulk.Job, time.Time) (*outbox.AuditEntry, error)) (outbox.Job, error) {
	var changed outbox.Job
	err := s.operate(ctx, func(o operation) error {
		jobs, now, err := scanJobs(ctx, o.tx, o.sql.LockJob, s.mode, pgUUID(id))
		if err == nil && len(jobs) == 0 {
			err = bulk.NoJob(id)
		}
		if err != nil {
			return err
		}
		job := jobs[0]
		entry, err := fn(o, job, now)
		if err != nil {
			return err
		}
		err = o.exec(ctx, o.sql.UpdateJob, pgUUID(id), string(job.State), job.Done, job.Cursor, nullTime(job.Next), job.Driver,
			nullTime(job.DrivenAt), job.UpdatedAt)
		if err != nil {
			return err
		}
		changed = job.Job
		if entry == nil {
			return nil
		}
		return o.note(ctx, *entry)
	})
	if err != nil {
		return outbox.Job{}, err
	}
	return changed, nil
}

var _ bulk.Messages = operation{}

// Page returns messages for a job to look at.
func (o operation) Page(ctx context.Context, f outbox.Filter, after int64, limit int) ([]bulk.Candidate, error) {
	var page []bulk.Candidate
	dead := f.Status == outbox.StatusDead || f.Status == outbox.StatusDiscarded
	err := o.candidates(ctx, o.sql.CandidatesAsc, func(c bulk.Candidate) { page = append(page, c) },
		after, int64(math.MaxInt64), limit, dead, f.Route != "")
	return page, err
}

// Change applies a verb to messages that still are what the job takes them for. The
// leases are locked from here to the end of the step.
func (o operation) Change(ctx context.Context, verb outbox.Verb, picks []bulk.Candidate, delays []time.Duration) (int, error) {
	ids, waits := make([]pgtype.UUID, len(picks)), make([]int64, len(picks))
	for i, c := range picks {
		ids[i] = pgUUID(c.EventID)
		if delays != nil {
			waits[i] = delays[i].Microseconds()
		}
	}
	if err := o.nudge(ctx); err != nil {
		return 0, err
	}
	switch verb {
	case outbox.VerbReplay:
		tag, err := o.tx.Exec(ctx, o.sql.ReplayDead, o.s.mode, ids, waits)
		return int(tag.RowsAffected()), err
	case outbox.VerbDiscard:
		tag, err := o.tx.Exec(ctx, o.sql.Discard, o.s.mode, ids, true)
		return int(tag.RowsAffected()), err
	}
	var n int
	status := picks[0].Status(time.Time{}) // published, dead or discarded: no clock decides
	err := o.tx.QueryRow(ctx, o.sql.Remove, o.s.mode, ids, string(status)).Scan(&n)
	return n, err
}

// Lagging counts what was replayed, is due and not delivered. A verbatim table does not
// say what was replayed.
func (o operation) Lagging(ctx context.Context, upTo int64, limit int) (n int, err error) {
	if o.verbatim {
		return 0, nil
	}
	err = o.tx.QueryRow(ctx, o.sql.Lagging, o.s.mode, upTo, limit).Scan(&n)
	return n, err
}

// Jobs lists bulk changes, newest first.
func (s *Store) Jobs(ctx context.Context, limit int) ([]outbox.Job, error) {
	jobs, err := s.jobs(ctx, pgtype.UUID{}, outbox.Filter{Limit: limit}.PageSize())
	return jobs, s.explain("list jobs", err)
}

// Job returns one bulk change.
func (s *Store) Job(ctx context.Context, id uuid.UUID) (outbox.Job, error) {
	jobs, err := s.jobs(ctx, pgUUID(id), 1)
	if err == nil && len(jobs) == 0 {
		err = bulk.NoJob(id)
	}
	if err != nil {
		return outbox.Job{}, s.explain("get job", err)
	}
	return jobs[0], nil
}

func (s *Store) jobs(ctx context.Context, id pgtype.UUID, limit int) ([]outbox.Job, error) {
	l, err := s.layout(ctx, s.pool)
	if err != nil {
		return nil, err
	}
	jobs, _, err := scanJobs(ctx, s.pool, l.sql.Jobs, s.mode, id, limit)
	list := make([]outbox.Job, len(jobs))
	for i, j := range jobs {
		list[i] = j.Job
	}
	return list, err
}

// scanJobs reads jobs and the database's clock.
func scanJobs(ctx context.Context, q querier, statement string, args ...any) (jobs []*bulk.Job, now time.Time, err error) {
	rows, err := q.Query(ctx, statement, args...)
	if err != nil {
		return nil, now, err
	}
	jobs, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (*bulk.Job, error) {
		j := &bulk.Job{}
		var id pgtype.UUID
		var filter string
		var next, driven pgtype.Timestamptz
		err := row.Scan(&id, &j.Verb, &filter, &j.Expect, &j.Cap, &j.Rate, &j.Actor, &j.Reason, &j.State, &j.Total, &j.Done, &j.Cursor,
			&j.Cut, &next, &j.Driver, &driven, &j.CreatedAt, &j.UpdatedAt, &now)
		if err != nil {
			return nil, err
		}
		j.ID, j.Next, j.DrivenAt = id.Bytes, next.Time, driven.Time
		j.Filter, err = bulk.DecodeFilter(filter)
		return j, err
	})
	return jobs, now, err
}
