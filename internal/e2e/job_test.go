package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/ops"
	"github.com/go-outbox/outbox/relay"
)

// A meter notes when it took which message.
type meter struct {
	mu       sync.Mutex
	replayed []time.Time
	live     []time.Duration // from creation to delivery
}

func (m *meter) Dispatch(_ context.Context, msg outbox.DispatchedMessage) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if msg.Meta.Replays > 0 {
		m.replayed = append(m.replayed, time.Now())
	} else {
		m.live = append(m.live, time.Since(msg.Meta.CreatedAt))
	}
	return nil
}

func (m *meter) counts() (replayed, live int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.replayed), len(m.live)
}

// busiest is the most replayed messages in any second.
func (m *meter) busiest() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	most, from := 0, 0
	for to, at := range m.replayed {
		for at.Sub(m.replayed[from]) >= time.Second {
			from++
		}
		most = max(most, to-from+1)
	}
	return most
}

// deadMessages fills a store with n messages that died, and starts a relay.
func deadMessages(t *testing.T, store fullStore, m *meter, n int) {
	t.Helper()
	var step outbox.Step
	for range n {
		sequence, err := store.EnqueueAutocommit(t.Context(), outbox.Message{Topic: "shop.order.placed.v1", Payload: []byte(`{"n":1}`)})
		if err != nil {
			t.Fatal(err)
		}
		step.Outcomes = append(step.Outcomes, outbox.Outcome{
			Sequence: sequence, Kind: outbox.Dead, Spent: 1, Reason: outbox.DeadPermanent, Error: "status 400",
		})
	}
	lease, err := store.Acquire(t.Context(), outbox.LeaseRequest{Instance: "undertaker", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(lease.Step(t.Context(), step), lease.Release(t.Context(), 0)); err != nil {
		t.Fatal(err)
	}
	start(t, store, m, relay.Config{Lease: time.Second})
}

func replayAll(expect, rate int) outbox.JobRequest {
	return outbox.JobRequest{
		Verb: outbox.VerbReplay, Filter: outbox.Filter{Status: outbox.StatusDead}, Expect: expect, Rate: rate, Actor: "ada", Reason: "a test",
	}
}

// Dead messages are replayed at a rate beside live traffic: the sink sees no more of
// them, live messages do not wait, and every count in the record is right.
func TestAReplayKeepsToItsRateBesideLiveTraffic(t *testing.T) {
	if testing.Short() {
		t.Skip("needs PostgreSQL and ten seconds")
	}
	const dead, rate = 2000, 500
	store := databases[1].open(t)
	m := &meter{}
	deadMessages(t, store, m, dead)
	job, err := store.StartJob(t.Context(), replayAll(dead, rate))
	if err != nil {
		t.Fatal(err)
	}

	var wg sync.WaitGroup
	live := 0
	done := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			enqueue(t, store, "shop.order.placed.v1", fmt.Sprint("k", live%20))
			live++
			pause(t.Context(), 5*time.Millisecond)
		}
	})
	job, err = ops.RunJob(t.Context(), store, job.ID, "test", nil)
	close(done)
	wg.Wait()

	if err != nil || job.State != outbox.JobDone || job.Done != dead {
		t.Fatalf("the job ended as %+v (%v)", job, err)
	}
	eventually(t, "everything is delivered", func() bool {
		replayed, fresh := m.counts()
		return replayed == dead && fresh == live
	})
	slices.Sort(m.live)
	limit := rate * 11 / 10
	if m.live[live-1] > 150*time.Millisecond {
		limit = rate * 3 / 2 // the relay itself lagged: this machine is busy with something else
	}
	if most := m.busiest(); most > limit {
		t.Errorf("the sink saw %d replayed messages in one second, want at most %d", most, limit)
	}
	t.Logf("busiest second %d; %d live messages, median %s, slowest %s", m.busiest(), live, m.live[live/2], m.live[live-1])
	trail, err := store.Audit(t.Context(), outbox.AuditFilter{EventID: job.ID})
	if err != nil || len(trail) != 2 || trail[0].Messages != dead {
		t.Errorf("the audit trail is %+v (%v)", trail, err)
	}
}

// Whoever drives a job may vanish: the next goes on where it stood, and the counts
// agree with what happened. A cancelled job stops within two seconds.
func TestAJobSurvivesItsDriverAndStopsWhenCancelled(t *testing.T) {
	for _, database := range databases {
		t.Run(database.name, func(t *testing.T) {
			const dead, rate, chunk = 300, 100, 10
			store := database.open(t)
			m := &meter{}
			deadMessages(t, store, m, dead)
			job, err := store.StartJob(t.Context(), replayAll(dead, rate))
			if err != nil {
				t.Fatal(err)
			}

			ctx, vanish := context.WithCancel(t.Context())
			job, err = ops.RunJob(ctx, store, job.ID, "first", func(j outbox.Job) {
				if j.Done > 0 {
					vanish()
				}
			})
			if !errors.Is(err, context.Canceled) || job.Done != chunk {
				t.Fatalf("the first driver left %+v (%v)", job, err)
			}
			var cancelled time.Time
			job, err = ops.RunJob(t.Context(), store, job.ID, "second", func(j outbox.Job) {
				if j.Done == 2*chunk && cancelled.IsZero() {
					cancelled = time.Now()
					if _, err := store.SetJob(t.Context(), j.ID, outbox.JobCancelled, "ada", "enough"); err != nil {
						t.Error(err)
					}
				}
			})
			if err != nil || job.State != outbox.JobCancelled || job.Done != 2*chunk {
				t.Fatalf("the job ended as %+v (%v)", job, err)
			}
			eventually(t, "what was replayed is delivered", func() bool { n, _ := m.counts(); return n == 2*chunk })
			if took := m.replayed[2*chunk-1].Sub(cancelled); took > 2*time.Second {
				t.Errorf("the last replayed message came %s after the cancellation", took)
			}
			stats, err := store.Stats(t.Context())
			if err != nil || stats.Dead != dead-2*chunk {
				t.Errorf("%d messages are dead, want %d (%v)", stats.Dead, dead-2*chunk, err)
			}
		})
	}
}
