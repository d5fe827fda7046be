// Package ops answers what people ask about an outbox and does what takes more than
// one call: why a message has not been delivered, driving a job to its end, reviving
// what died in an outage. The command line and the console are two faces of it.
//
// Everything goes through outbox.Inspector and outbox.Operator. An explanation is as
// true as what they report: it names the one cause that has to go first, as of one
// moment, and does not promise that no other waits behind it. [RunJob] may be ended
// at any time; the job stays and whoever drives it next goes on.
package ops

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

// poll is how long a driver waits before it looks again at a job that is paused or
// driven by somebody else, and the longest that it sleeps at all: whoever cancels a
// job from another process does not wait longer.
const poll = time.Second

// SetJob pauses, resumes or cancels a job. A RunJob of this process takes notice at
// once, one of another process within a second.
func SetJob(ctx context.Context, op outbox.Operator, id uuid.UUID, state outbox.JobState, actor, reason string) (outbox.Job, error) {
	job, err := op.SetJob(ctx, id, state, actor, reason)
	if err == nil {
		bells.ring(id)
	}
	return job, err
}

// RunJob drives a job until it is done or cancelled, and returns it. driver names this
// process. progress, unless nil, hears of every step. While the job is paused it waits.
// While another process drives it, it waits until that one has been silent for
// outbox.JobPatience, and returns outbox.ErrLeaseHeld if it is not.
//
// When ctx ends the job stays as it is, and any process can go on with it.
func RunJob(ctx context.Context, op outbox.Operator, id uuid.UUID, driver string, progress func(outbox.Job)) (outbox.Job, error) {
	var job outbox.Job
	bell := bells.hang(id)
	defer bells.takeDown(id, bell)
	held := time.Duration(0)
	for {
		next, err := op.StepJob(ctx, id, driver)
		wait := poll
		switch {
		case err == nil:
			job, held = next, 0
			if progress != nil {
				progress(job)
			}
			if job.State == outbox.JobDone || job.State == outbox.JobCancelled {
				return job, nil
			}
			if job.State == outbox.JobRunning {
				wait = min(job.Wait, poll)
			}
		case errors.Is(err, outbox.ErrLeaseHeld) && held <= outbox.JobPatience+poll:
			held += poll
		default:
			return job, fmt.Errorf("run job %s: %w", id, err)
		}
		if err := sleep(ctx, wait, bell); err != nil {
			return job, fmt.Errorf("run job %s: %w", id, err)
		}
	}
}

// sleep waits for d, or until the bell rings.
func sleep(ctx context.Context, d time.Duration, bell <-chan struct{}) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-bell:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
