package mysqlstore

import (
	"context"
	"database/sql"
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/bulk"
)

const (
	endOfTable = int64(math.MaxInt64)
	// heldDead is what held says about dead and discarded messages.
	heldDead = 2
)

// PreviewJob counts what a job would change.
func (s *Store) PreviewJob(ctx context.Context, req outbox.JobRequest) (outbox.JobPreview, error) {
	if err := req.Validate(); err != nil {
		return outbox.JobPreview{}, s.explain("preview job", err)
	}
	var preview outbox.JobPreview
	err := s.snapshot(ctx, func(ctx context.Context, tx *sql.Tx) error {
		o, err := s.operation(ctx, tx)
		if err != nil {
			return err
		}
		count, err := bulk.CountMatches(ctx, req, o.at, o)
		if err != nil {
			return err
		}
		delivered, err := o.delivered(ctx, &count)
		preview = count.Preview(req, delivered)
		return err
	})
	if err != nil {
		return outbox.JobPreview{}, s.explain("preview job", err)
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
	err := each(ctx, o.tx, func(rows *sql.Rows) error {
		var key string
		var sequence int64
		err := rows.Scan(&key, &sequence)
		highest[key] = sequence
		return err
	}, o.s.sql.Delivered, first, bulk.ConflictCap, keys)
	return highest, err
}

// StartJob records a job.
func (s *Store) StartJob(ctx context.Context, req outbox.JobRequest) (outbox.Job, error) {
	if err := req.Validate(); err != nil {
		return outbox.Job{}, s.explain("start job", err)
	}
	var job *bulk.Job
	err := s.write(ctx, operatorPatience, func(ctx context.Context, tx *sql.Tx) error {
		o, err := s.operation(ctx, tx)
		if err != nil {
			return err
		}
		count, err := bulk.CountMatches(ctx, req, o.at, o)
		if err != nil {
			return err
		}
		if job, err = bulk.New(req, count.N, o.at); err != nil {
			return err
		}
		err = exec(ctx, tx, s.sql.JobInsert, job.ID.String(), string(job.Verb), bulk.EncodeFilter(job.Filter), job.Expect,
			job.Cap, job.Rate, job.Actor, job.Reason, string(job.State), job.Total, o.at)
		if err != nil {
			return err
		}
		return s.note(ctx, tx, job.Entry(outbox.VerbStartJob, job.Actor, job.Reason))
	})
	if err != nil {
		return outbox.Job{}, s.explain("start job", err)
	}
	return job.Job, nil
}

// StepJob makes the next chunk of a job. It holds the leases from the beginning: what it
// finds stays as it is until it has changed it.
func (s *Store) StepJob(ctx context.Context, id uuid.UUID, driver string) (outbox.Job, error) {
	return s.change(ctx, "step job", id, func(o operation, job *bulk.Job) (*outbox.AuditEntry, error) {
		return job.Step(ctx, driver, o.at, o)
	})
}

// SetJob pauses, resumes or cancels a job.
func (s *Store) SetJob(ctx context.Context, id uuid.UUID, state outbox.JobState, actor, reason string) (outbox.Job, error) {
	if err := bulk.CheckSet(actor, reason); err != nil {
		return outbox.Job{}, s.explain("set job", err)
	}
	return s.change(ctx, "set job", id, func(o operation, job *bulk.Job) (*outbox.AuditEntry, error) {
		entry, err := job.Set(state, actor, reason, o.at)
		return &entry, err
	})
}

// change changes a job and what belongs to it in one transaction.
func (s *Store) change(ctx context.Context, op string, id uuid.UUID, fn func(operation, *bulk.Job) (*outbox.AuditEntry, error)) (outbox.Job, error) {
	var job *bulk.Job
	err := s.write(ctx, operatorPatience, func(ctx context.Context, tx *sql.Tx) (err error) {
		if _, err := s.lockLeases(ctx, tx); err != nil {
			return err
		}
		if job, err = s.job(ctx, tx, s.sql.Job, id); err != nil {
			return err
		}
		o, err := s.operation(ctx, tx)
		if err != nil {
			return err
		}
		entry, err := fn(o, job)
		if err != nil {
			return err
		}
		err = exec(ctx, tx, s.sql.JobUpdate, id.String(), string(job.State), job.Done, job.Cursor, stored(job.Next), job.Driver,
			stored(job.DrivenAt), job.UpdatedAt)
		if err != nil || entry == nil {
			return err
		}
		return s.note(ctx, tx, *entry)
	})
	if err != nil {
		return outbox.Job{}, s.explain(op, err)
	}
	return job.Job, nil
}

// stored is a time that may be NULL.
func stored(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}

var _ bulk.Messages = operation{}

// Page returns messages for a job to look at.
func (o operation) Page(ctx context.Context, f outbox.Filter, after int64, limit int) ([]bulk.Candidate, error) {
	if f.Status == outbox.StatusDead || f.Status == outbox.StatusDiscarded {
		return o.candidates(ctx, f.Route != "", o.s.sql.ListHeldAsc, after, endOfTable, limit, heldDead)
	}
	return o.candidates(ctx, f.Route != "", o.s.sql.ListAsc, after, endOfTable, limit)
}

func (o operation) candidates(ctx context.Context, withRoutes bool, statement string, args ...any) ([]bulk.Candidate, error) {
	records, err := o.s.shown(ctx, o.tx, statement, args...)
	if err != nil {
		return nil, err
	}
	var routes map[int64]string
	if withRoutes {
		if routes, err = o.lastRoutes(ctx, records); err != nil {
			return nil, err
		}
	}
	list := make([]bulk.Candidate, len(records))
	for i, r := range records {
		list[i] = bulk.Candidate{Record: r, Route: routes[r.Sequence]}
	}
	return list, nil
}

// Lagging counts what was replayed, is due and not delivered.
func (o operation) Lagging(ctx context.Context, upTo int64, limit int) (n int, err error) {
	err = one(ctx, o.tx, []any{&n}, o.s.sql.Lagging, upTo, limit)
	return n, err
}

// Change applies a verb to messages. Nobody but the cleaner can have changed them since
// Page, and it only deletes.
func (o operation) Change(ctx context.Context, verb outbox.Verb, picks []bulk.Candidate, delays []time.Duration) (int, error) {
	ids := make([]int64, len(picks))
	for i, c := range picks {
		ids[i] = c.Sequence
	}
	if err := exec(ctx, o.tx, o.s.sql.Nudge); err != nil {
		return 0, err
	}
	switch verb {
	case outbox.VerbReplay:
		return len(ids), o.replay(ctx, ids, delays)
	case outbox.VerbDiscard:
		return len(ids), o.discard(ctx, ids)
	}
	return o.remove(ctx, ids)
}

// remove deletes messages with their history.
func (o operation) remove(ctx context.Context, ids []int64) (removed int, err error) {
	err = inSlices(ids, func(ids []int64) error {
		n, err := affected(ctx, o.tx, o.s.sql.Remove, ids)
		removed += int(n)
		if err != nil {
			return err
		}
		return exec(ctx, o.tx, o.s.sql.ForgetHistory, ids)
	})
	return removed, err
}

// Jobs lists bulk changes, newest first.
func (s *Store) Jobs(ctx context.Context, limit int) ([]outbox.Job, error) {
	var list []outbox.Job
	err := s.snapshot(ctx, func(ctx context.Context, tx *sql.Tx) error {
		jobs, err := s.jobs(ctx, tx, s.sql.Jobs, nil, outbox.Filter{Limit: limit}.PageSize())
		for _, j := range jobs {
			list = append(list, j.Job)
		}
		return err
	})
	return list, s.explain("list jobs", err)
}

// Job returns one bulk change.
func (s *Store) Job(ctx context.Context, id uuid.UUID) (outbox.Job, error) {
	var job *bulk.Job
	err := s.snapshot(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		job, err = s.job(ctx, tx, s.sql.Jobs, id)
		return err
	})
	if err != nil {
		return outbox.Job{}, s.explain("get job", err)
	}
	return job.Job, nil
}

func (s *Store) job(ctx context.Context, tx *sql.Tx, statement string, id uuid.UUID) (*bulk.Job, error) {
	jobs, err := s.jobs(ctx, tx, statement, id.String(), 1)
	if err == nil && len(jobs) == 0 {
		err = bulk.NoJob(id)
	}
	if err != nil {
		return nil, err
	}
	return jobs[0], nil
}

func (s *Store) jobs(ctx context.Context, tx *sql.Tx, statement string, args ...any) ([]*bulk.Job, error) {
	var list []*bulk.Job
	err := each(ctx, tx, func(rows *sql.Rows) error {
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
	}, statement, args...)
	return list, err
}
