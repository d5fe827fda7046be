package torture

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/go-outbox/outbox"
)

// Operate lets a person work until the returned function is called: replay messages, any
// messages, also in flight, and do whatever else an operator may.
func (r *Run) Operate(longest time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		dice := dice(r.Seed, "operator")
		for wait(ctx, between(dice, 0, longest)) {
			if dice.IntN(2) == 0 {
				r.replaySome(ctx, dice)
			} else {
				r.intervene(ctx, dice)
			}
		}
	}()
	return func() { cancel(); <-done }
}

func (r *Run) replaySome(ctx context.Context, dice *rand.Rand) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	event, err := Someone(ctx, r.db.SQL(), dice.Float64())
	if err != nil {
		return // no message yet, or no database
	}
	replay := Replay{Event: event, At: now()}
	_, err = r.operator().Apply(ctx, outbox.Action{
		Verb: outbox.VerbReplay, EventID: event, Actor: coordinator, Reason: "torture",
	})
	if errors.Is(err, outbox.ErrNotFound) {
		return // the cleaner was faster
	}
	replay.Done = now()
	if err != nil {
		replay.Error = err.Error() // it may have happened
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.replays = append(r.replays, replay)
}

// Watch looks now and then how much is waiting, so that producers pause when it is more
// than that, and how many connections each process has to the server, until the returned
// function is called.
func (r *Run) Watch(backlog int) (stop func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for wait(ctx, 250*time.Millisecond) {
			r.watchBacklog(ctx, backlog)
			if r.Place.Driver.remote() {
				r.countConnections(ctx)
			}
		}
	}()
	return func() { cancel(); <-done }
}

func (r *Run) watchBacklog(ctx context.Context, most int) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if n, err := Crowd(ctx, r.db.SQL()); err == nil { // else the database is down
		r.changeWeather(func(now *Weather) { now.Crowded = n > most })
	}
}

func (r *Run) countConnections(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	counts, err := Connections(ctx, r.db.SQL(), r.Place.Driver)
	if err != nil {
		return // the database may be down
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, n := range counts {
		r.connections[name] = max(r.connections[name], n)
	}
}
