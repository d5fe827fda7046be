package bulk

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

// A Job is an outbox.Job and what only the store needs to know about it.
type Job struct {
	outbox.Job
	// Cut is when it was started. Messages that died later were not counted, and
	// are not changed.
	Cut time.Time
	// Next is until when the rate is used up.
	Next time.Time
	// DrivenAt is when its driver made the last step.
	DrivenAt time.Time
}

// Messages is the table inside the transaction of a step.
type Messages interface {
	// Page returns the messages above a sequence, in order and at most limit:
	// those with a dead_at when the filter's status is dead or discarded, and
	// otherwise all. It need not filter any further.
	Page(ctx context.Context, f outbox.Filter, after int64, limit int) ([]Candidate, error)
	// Change applies a verb to messages that are still as they were found, and
	// returns how many. delays say when each replayed one is available, from now
	// on; nil means at once.
	Change(ctx context.Context, verb outbox.Verb, picks []Candidate, delays []time.Duration) (int, error)
	// Lagging counts replayed messages up to a sequence that are due and not
	// delivered, at most limit; none while nobody relays the table.
	Lagging(ctx context.Context, upTo int64, limit int) (int, error)
}

// New is the job for a request, as of now, after its messages were counted.
func New(req outbox.JobRequest, count int, now time.Time) (*Job, error) {
	if Drifted(req.Expect, count) {
		return nil, outbox.ErrDrift.With("expect", fmt.Sprintf("%d messages match now, %d were confirmed", count, req.Expect))
	}
	return &Job{
		Job: outbox.Job{
			ID: uuid.New(), JobRequest: Normal(req), State: outbox.JobRunning, Total: count,
			CreatedAt: now, UpdatedAt: now,
		},
		Cut: now,
	}, nil
}

// Normal is a request with its defaults filled in and paging left out.
func Normal(req outbox.JobRequest) outbox.JobRequest {
	if req.Cap == 0 {
		req.Cap = outbox.MaxJob
	}
	req.Filter = scope(req.Filter)
	return req
}

// Drifted reports whether a count has moved too far from what was confirmed.
func Drifted(expect, count int) bool {
	moved := count - expect
	if moved < 0 {
		moved = -moved
	}
	return float64(moved) > outbox.JobDrift*float64(expect)
}

// slack is how early a step may come: timers are not exact.
const slack = 20 * time.Millisecond

// Step makes the next chunk. It returns the audit entry that closes the job when this
// was the last one.
func (j *Job) Step(ctx context.Context, driver string, now time.Time, m Messages) (*outbox.AuditEntry, error) {
	if j.State != outbox.JobRunning {
		return nil, nil
	}
	if j.Driver != "" && j.Driver != driver && now.Sub(j.DrivenAt) < outbox.JobPatience {
		return nil, outbox.ErrLeaseHeld.With("driver", j.Driver+" drives this job")
	}
	j.Driver, j.DrivenAt, j.UpdatedAt, j.Wait = driver, now, now, 0
	if wait := j.Next.Sub(now); wait > slack {
		j.Wait = wait
		return nil, nil
	}
	if lags, err := j.lags(ctx, m); err != nil || lags {
		return nil, err
	}
	last, err := j.chunk(ctx, now, m)
	if err != nil || !last {
		return nil, err
	}
	j.State, j.Wait = outbox.JobDone, 0
	e := j.Entry(j.Verb, j.Actor, j.Reason)
	return &e, nil
}

// lags waits while the relay is behind with what was replayed before: it would catch up
// in a burst, and its sink would see more than the rate.
func (j *Job) lags(ctx context.Context, m Messages) (bool, error) {
	if j.Rate == 0 || j.Done == 0 {
		return false, nil
	}
	most := max(j.quota()/2, 1)
	n, err := m.Lagging(ctx, j.Cursor, most)
	if err != nil || n < most {
		return false, err
	}
	j.Wait = time.Second / perSecond
	return true, nil
}

// chunk changes some messages and reports whether they were the last.
func (j *Job) chunk(ctx context.Context, now time.Time, m Messages) (last bool, err error) {
	picks, last, err := j.pick(ctx, now, m)
	if err != nil || len(picks) == 0 {
		return last, err
	}
	changed, err := m.Change(ctx, j.Verb, picks, j.spread(len(picks), now))
	j.Done += changed
	return last || j.Done >= j.Cap, err
}

// pick looks at the next messages and moves the cursor behind those it looked at.
func (j *Job) pick(ctx context.Context, now time.Time, m Messages) (picks []Candidate, last bool, err error) {
	quota := j.quota()
	limit := outbox.JobChunk
	if j.Rate > 0 {
		limit = min(max(4*quota, 100), outbox.JobChunk)
	}
	page, err := m.Page(ctx, j.Filter, j.Cursor, limit)
	if err != nil {
		return nil, false, err
	}
	for _, c := range page {
		if len(picks) == quota {
			return picks, false, nil
		}
		j.Cursor = c.Sequence
		if j.takes(c, now) {
			picks = append(picks, c)
		}
	}
	return picks, len(page) < limit, nil
}

func (j *Job) takes(c Candidate, now time.Time) bool {
	return j.Filter.Matches(c.Record, c.Route, now) && !c.DeadAt.After(j.Cut)
}

// perSecond is how many chunks a job with a rate makes in a second: small ones, so that
// a relay that lags has little to catch up with.
const perSecond = 10

func (j *Job) quota() int {
	quota := min(outbox.JobChunk, j.Cap-j.Done)
	if j.Rate > 0 {
		quota = min(quota, max(j.Rate/perSecond, 1))
	}
	return quota
}

// spread says when each of n messages is available, so that no second has more of
// them than the rate, and how long to wait before the next step.
func (j *Job) spread(n int, now time.Time) []time.Duration {
	if j.Rate == 0 {
		return nil
	}
	start := max(j.Next.Sub(now), 0)
	delays := make([]time.Duration, n)
	for i := range delays {
		delays[i] = start + Takes(i, j.Rate)
	}
	j.Wait = start + Takes(n, j.Rate)
	j.Next = now.Add(j.Wait)
	return delays
}

// Takes is how long n messages take at a rate. A tenth of each second stays free: a
// relay that lags behind catches up in bursts, and its sink must not see more than the
// rate even then.
func Takes(n, rate int) time.Duration {
	return time.Duration(n) * 1100 * time.Millisecond / time.Duration(rate)
}

// Set changes the state of a job and returns the audit entry for it.
func (j *Job) Set(state outbox.JobState, actor, reason string, now time.Time) (outbox.AuditEntry, error) {
	verb := map[outbox.JobState]outbox.Verb{
		outbox.JobPaused: outbox.VerbPauseJob, outbox.JobRunning: outbox.VerbResumeJob, outbox.JobCancelled: outbox.VerbCancelJob,
	}[state]
	ends := j.State == outbox.JobDone || j.State == outbox.JobCancelled
	if verb == "" || ends || j.State == state {
		return outbox.AuditEntry{}, outbox.ErrNotApplicable.With("state", fmt.Sprintf("a job that is %s cannot become %s", j.State, state))
	}
	j.State, j.UpdatedAt = state, now
	return j.Entry(verb, actor, reason), nil
}

// CheckSet reports what a change of a job's state lacks.
func CheckSet(actor, reason string) error {
	return outbox.Action{Verb: outbox.VerbTrigger, Actor: actor, Reason: reason}.Validate()
}

// Entry is an audit entry about the job. Messages is how many it has changed.
func (j *Job) Entry(verb outbox.Verb, actor, reason string) outbox.AuditEntry {
	e := outbox.AuditEntry{
		Actor: actor, Verb: verb, Reason: reason, EventID: j.ID, Filter: EncodeFilter(j.Filter),
		Messages: j.Done, Before: j.Filter.Status,
	}
	switch j.Verb {
	case outbox.VerbReplay:
		e.After = outbox.StatusPending
	case outbox.VerbDiscard:
		e.After = outbox.StatusDiscarded
	}
	return e
}
