package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"
	"math"
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
	var preview outbox.JobPreview
	err := s.read(ctx, func(ctx context.Context, conn *sql.Conn) error {
		o := s.operation(conn)
		count, err := bulk.CountMatches(ctx, req, moment(o.at), o)
		if err != nil {
			return err
		}
		delivered, err := o.delivered(ctx, &count)
		preview = count.Preview(req, delivered)
		return err
	})
	if err != nil {
		return outbox.JobPreview{}, fmt.Errorf("preview job: %w", err)
	}
	return preview, nil
}

// delivered finds the highest delivered sequence of the keys of some messages.
func (o operation) delivered(ctx context.Context, count *bulk.Count) (map[string]int64, error) {
	first, keys := count.First()
	highest := make(map[string]int64, len(keys))
	if len(keys) == 0 {
		return highest, nil
	}
	err := each(ctx, o.conn, func(rows *sql.Rows) error {
		var key string
		var sequence int64
		err := rows.Scan(&key, &sequence)
		highest[key] = sequence
		return err
	}, o.sql.Delivered, first, bulk.ConflictCap, jsonList(keys))
	return highest, err
}

// StartJob records a job.
func (s *Store) StartJob(ctx context.Context, req outbox.JobRequest) (outbox.Job, error) {
	if err := req.Validate(); err != nil {
		return outbox.Job{}, fmt.Errorf("start job: %w", err)
	}
	var job *bulk.Job
	// Counting must not keep writers out.
	err := s.read(ctx, func(ctx context.Context, conn *sql.Conn) error {
		o := s.operation(conn)
		count, err := bulk.CountMatches(ctx, req, moment(o.at), o)
		if err != nil {
			return err
		}
		job, err = bulk.New(req, count.N, moment(o.at))
		return err
	})
	if err != nil {
		return outbox.Job{}, fmt.Errorf("start job: %w", err)
	}
	err = s.write(ctx, func(ctx context.Context, conn *sql.Conn) error {
		err := exec(ctx, conn, s.sql.JobInsert, job.ID.String(), string(job.Verb), bulk.EncodeFilter(job.Filter), job.Expect,
			job.Cap, job.Rate, job.Actor, job.Reason, string(job.State), job.Total, micros(job.Cut))
		if err != nil {
			return err
		}
		return s.note(ctx, conn, job.Entry(outbox.VerbStartJob, job.Actor, job.Reason))
	})
	if err != nil {
		return outbox.Job{}, fmt.Errorf("start job: %w", err)
	}
	return job.Job, nil
}

// StepJob makes the next chunk of a job.
func (s *Store) StepJob(ctx context.Context, id uuid.UUID, driver string) (outbox.Job, error) {
	return s.change(ctx, "step job", id, func(o operation, job *bulk.Job) (*outbox.AuditEntry, error) {
		return job.Step(ctx, driver, moment(o.at), o)
	})
}

// SetJob pauses, resumes or cancels a job.
func (s *Store) SetJob(ctx context.Context, id uuid.UUID, state outbox.JobState, actor, reason string) (outbox.Job, error) {
	if err := bulk.CheckSet(actor, reason); err != nil {
		return outbox.Job{}, fmt.Errorf("set job: %w", err)
	}
	return s.change(ctx, "set job", id, func(o operation, job *bulk.Job) (*outbox.AuditEntry, error) {
		entry, err := job.Set(state, actor, reason, moment(o.at))
		return &entry, err
	})
}

// change changes a job and what belongs to it in one transaction.
func (s *Store) change(ctx context.Context, op string, id uuid.UUID, fn func(operation, *bulk.Job) (*outbox.AuditEntry, error)) (outbox.Job, error) {
	var job *bulk.Job
	err := s.write(ctx, func(ctx context.Context, conn *sql.Conn) (err error) {
		if job, err = s.job(ctx, conn, id); err != nil {
			return err
		}
		entry, err := fn(s.operation(conn), job)
		if err != nil {
			return err
		}
		err = exec(ctx, conn, s.sql.JobUpdate, id.String(), string(job.State), job.Done, job.Cursor, stored(job.Next), job.Driver,
			stored(job.DrivenAt), micros(job.UpdatedAt))
		if err != nil || entry == nil {
			return err
		}
		return s.note(ctx, conn, *entry)
	})
	if err != nil {
		return outbox.Job{}, fmt.Errorf("%s: %w", op, err)
	}
	return job.Job, nil
}

// stored is a time that may be NULL.
func stored(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return micros(t)
}

// Page returns messages for a job to look at.
func (o operation) Page(ctx context.Context, f outbox.Filter, after int64, limit int) ([]bulk.Candidate, error) {
	query := o.list[true].SlimAll
	if f.Status == outbox.StatusDead || f.Status == outbox.StatusDiscarded {
		query = o.list[true].SlimDead
	}
	var page []bulk.Candidate
	err := o.slim(ctx, o.conn, query, func(c bulk.Candidate) { page = append(page, c) },
		after, int64(math.MaxInt64), limit, f.Route != "")
	return page, err
}

// Lagging counts what was replayed, is due and not delivered.
func (o operation) Lagging(ctx context.Context, upTo int64, limit int) (n int, err error) {
	err = o.conn.QueryRowContext(ctx, o.sql.Lagging, upTo, o.at, limit).Scan(&n)
	return n, err
}

// Change applies a verb to messages. Nobody else can have changed them since Page: the
// transaction has held the write lock from its beginning.
func (o operation) Change(ctx context.Context, verb outbox.Verb, picks []bulk.Candidate, delays []time.Duration) (int, error) {
	ids := make([]int64, len(picks))
	for i, c := range picks {
		ids[i] = c.Sequence
	}
	if err := exec(ctx, o.conn, o.sql.Nudge); err != nil {
		return 0, err
	}
	switch verb {
	case outbox.VerbReplay:
		return len(ids), o.replay(ctx, ids, delays)
	case outbox.VerbDiscard:
		return len(ids), o.discard(ctx, ids)
	}
	if err := exec(ctx, o.conn, o.sql.Forget, jsonList(ids)); err != nil {
		return 0, err
	}
	return len(ids), exec(ctx, o.conn, o.sql.Remove, jsonList(ids))
}

var _ bulk.Messages = operation{}

// Jobs lists bulk changes, newest first.
func (s *Store) Jobs(ctx context.Context, limit int) ([]outbox.Job, error) {
	var list []outbox.Job
	err := s.read(ctx, func(ctx context.Context, conn *sql.Conn) error {
		list = nil
		jobs, err := s.jobs(ctx, conn, nil, outbox.Filter{Limit: limit}.PageSize())
		for _, j := range jobs {
			list = append(list, j.Job)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	return list, nil
}

// Job returns one bulk change.
func (s *Store) Job(ctx context.Context, id uuid.UUID) (outbox.Job, error) {
	var job *bulk.Job
	err := s.read(ctx, func(ctx context.Context, conn *sql.Conn) (err error) {
		job, err = s.job(ctx, conn, id)
		return err
	})
	if err != nil {
		return outbox.Job{}, fmt.Errorf("get job: %w", err)
	}
	return job.Job, nil
}

func (s *Store) job(ctx context.Context, conn *sql.Conn, id uuid.UUID) (*bulk.Job, error) {
	jobs, err := s.jobs(ctx, conn, id.String(), 1)
	if err == nil && len(jobs) == 0 {
		err = bulk.NoJob(id)
	}
	if err != nil {
		return nil, err
	}
	return jobs[0], nil
}

func (s *Store) jobs(ctx context.Context, conn *sql.Conn, id any, limit int) ([]*bulk.Job, error) {
	var list []*bulk.Job
	err := each(ctx, conn, func(rows *sql.Rows) error {
		j := &bulk.Job{}
		var id, filter string
		var cut, next, driven, created, updated int64
		err := rows.Scan(&id, &j.Verb, &filter, &j.Expect, &j.Cap, &j.Rate, &j.Actor, &j.Reason, &j.State, &j.Total, &j.Done,
			&j.Cursor, &cut, &next, &j.Driver, &driven, &created, &updated)
		if err != nil {
			return err
		}
		if j.ID, err = uuid.Parse(id); err != nil {
			return err
		}
		if j.Filter, err = bulk.DecodeFilter(filter); err != nil {
			return err
		}
		j.Cut, j.Next, j.DrivenAt = moment(cut), moment(next), moment(driven)
		j.CreatedAt, j.UpdatedAt = moment(created), moment(updated)
		list = append(list, j)
		return nil
	}, s.sql.Jobs, id, limit)
	return list, err
}
