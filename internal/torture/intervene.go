package torture

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

// An Intervention is something that an operator did besides a replay of one message.
// What it was about bounds what it explains: a message, a key, or all of a status.
type Intervention struct {
	Verb   outbox.Verb
	Event  uuid.UUID     `json:",omitzero"`
	Key    string        `json:",omitempty"`
	Status outbox.Status `json:",omitempty"` // of a job
	// At is when it was asked for, Done when it was answered.
	At, Done int64
	// Error: it may have happened, also later than Done.
	Error string `json:",omitempty"`
}

// intervene does one of the things that people do to a working outbox.
func (r *Run) intervene(ctx context.Context, dice *rand.Rand) {
	working := ctx
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	switch n := dice.IntN(100); {
	case n < 25:
		r.applyToSomeone(ctx, dice, outbox.Action{Verb: outbox.VerbDiscard})
	case n < 50:
		r.applyToSomeone(ctx, dice, outbox.Action{Verb: outbox.VerbReschedule, At: time.Now().Add(between(dice, 0, time.Second))})
	case n < 60:
		r.applyToKey(ctx, dice, outbox.VerbSkipHead)
	case n < 70:
		r.applyToKey(ctx, dice, outbox.VerbReleaseKey)
	case n < 78:
		r.apply(ctx, outbox.Action{Verb: outbox.VerbTrigger})
	case n < 83:
		r.apply(ctx, outbox.Action{Verb: outbox.VerbReleaseLease, Shard: dice.IntN(r.history.Limits.Shards)})
	case n < 93:
		status := []outbox.Status{outbox.StatusPublished, outbox.StatusDead, outbox.StatusDiscarded}[dice.IntN(3)]
		r.job(ctx, outbox.JobRequest{Verb: outbox.VerbPurge, Filter: outbox.Filter{Status: status, Until: time.Now()}})
	case n < 98:
		verb := []outbox.Verb{outbox.VerbReplay, outbox.VerbDiscard}[dice.IntN(2)]
		r.job(ctx, outbox.JobRequest{Verb: verb, Filter: outbox.Filter{Status: outbox.StatusDead}})
	default:
		r.pauseTable(working, dice)
	}
}

func (r *Run) applyToSomeone(ctx context.Context, dice *rand.Rand, a outbox.Action) {
	var err error
	if a.EventID, err = Someone(ctx, r.db.SQL(), dice.Float64()); err == nil { // else no message yet, or no database
		r.apply(ctx, a)
	}
}

func (r *Run) applyToKey(ctx context.Context, dice *rand.Rand, verb outbox.Verb) {
	key, err := HeldKey(ctx, r.db.SQL(), dice.Float64())
	if err == nil { // else nothing is held, or there is no database
		r.apply(ctx, outbox.Action{Verb: verb, Key: key})
	}
}

func (r *Run) apply(ctx context.Context, a outbox.Action) {
	a.Actor, a.Reason = coordinator, "torture"
	at := now()
	_, err := r.operator().Apply(ctx, a)
	r.note(Intervention{Verb: a.Verb, Event: a.EventID, Key: a.Key, At: at}, err)
}

func (r *Run) operator() outbox.Operator { return r.db.Store().(outbox.Operator) }

// note writes down what was done. What was refused was not done.
func (r *Run) note(i Intervention, err error) {
	if errors.Is(err, outbox.ErrNotFound) || errors.Is(err, outbox.ErrNotApplicable) || errors.Is(err, outbox.ErrDrift) {
		return
	}
	i.Done = now()
	if err != nil {
		i.Error = err.Error()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.interventions = append(r.interventions, i)
}

// job changes all messages of a status, as bulk actions of the console do.
func (r *Run) job(ctx context.Context, req outbox.JobRequest) {
	req.Actor, req.Reason, req.Cap = coordinator, "torture", 500
	at := now()
	r.note(Intervention{Verb: req.Verb, Status: req.Filter.Status, At: at}, r.driveJob(ctx, req))
}

func (r *Run) driveJob(ctx context.Context, req outbox.JobRequest) error {
	preview, err := r.operator().PreviewJob(ctx, req)
	if err != nil {
		return err
	}
	req.Expect = preview.Count
	job, err := r.operator().StartJob(ctx, req)
	for err == nil && job.State == outbox.JobRunning {
		job, err = r.operator().StepJob(ctx, job.ID, coordinator)
	}
	return err
}

// pauseTable stops the whole table for a while: often for longer than any relay may take to
// notice.
func (r *Run) pauseTable(ctx context.Context, dice *rand.Rand) {
	r.apply(ctx, outbox.Action{Verb: outbox.VerbPause})
	wait(ctx, between(dice, 0, 8*time.Second))
	r.resume() //nolint:contextcheck // see its comment
}

// resume ends a pause, whatever is broken just now and also when the operator is being
// called off: nobody else would.
func (r *Run) resume() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		at := now()
		_, err := r.operator().Apply(ctx, outbox.Action{Verb: outbox.VerbResume, Actor: coordinator, Reason: "torture"})
		if err == nil || errors.Is(err, outbox.ErrNotApplicable) { // the pause did not happen, or an earlier attempt has ended it
			r.note(Intervention{Verb: outbox.VerbResume, At: at}, nil)
			return
		}
		if !wait(ctx, 100*time.Millisecond) {
			r.t.Errorf("the table stays paused: %v", err)
			return
		}
	}
}
