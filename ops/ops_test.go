package ops_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/ops"
	"github.com/go-outbox/outbox/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// deadStore is a store with n messages that died at the route "main".
func deadStore(t *testing.T, n int) *memstore.Store {
	t.Helper()
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	kill(t, store, n, "main")
	return store
}

func kill(t *testing.T, store *memstore.Store, n int, route string) {
	t.Helper()
	var step outbox.Step
	for i := range n {
		sequence, err := store.EnqueueAutocommit(t.Context(), outbox.Message{
			Topic: "shop.order.placed.v1", Key: fmt.Sprint(i), Payload: []byte(`1`),
		})
		if err != nil {
			t.Fatal(err)
		}
		step.Outcomes = append(step.Outcomes, outbox.Outcome{
			Sequence: sequence, Kind: outbox.Dead, Spent: 1, Reason: outbox.DeadAttempts, Error: "refused", Route: route,
		})
	}
	lease, err := store.Acquire(t.Context(), outbox.LeaseRequest{Instance: "undertaker", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(lease.Step(t.Context(), step), lease.Release(t.Context(), 0)); err != nil {
		t.Fatal(err)
	}
}

func startJob(t *testing.T, store outbox.Operator, expect, rate int) outbox.Job {
	t.Helper()
	job, err := store.StartJob(t.Context(), outbox.JobRequest{
		Verb: outbox.VerbReplay, Filter: outbox.Filter{Status: outbox.StatusDead}, Expect: expect, Rate: rate, Actor: "ada", Reason: "why",
	})
	if err != nil {
		t.Fatal(err)
	}
	return job
}

func TestAJobRunsToItsEndAtItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := deadStore(t, 1000)
		job := startJob(t, store, 1000, 100)
		began, steps := time.Now(), 0

		job, err := ops.RunJob(t.Context(), store, job.ID, "me", func(outbox.Job) { steps++ })

		if err != nil || job.State != outbox.JobDone || job.Done != 1000 {
			t.Fatalf("got %+v (%v)", job, err)
		}
		if took := time.Since(began); took < 9*time.Second || took > 12*time.Second {
			t.Errorf("a thousand at 100 a second took %s", took)
		}
		if steps < 10 {
			t.Errorf("progress was reported %d times", steps)
		}
	})
}

func TestAJobStaysWhenItsDriverLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := deadStore(t, 300)
		id := startJob(t, store, 300, 100).ID
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()

		first, err := ops.RunJob(ctx, store, id, "first", nil)
		if !errors.Is(err, context.DeadlineExceeded) || first.State != outbox.JobRunning || first.Done == 0 {
			t.Fatalf("got %+v (%v)", first, err)
		}
		second, err := ops.RunJob(t.Context(), store, id, "second", nil)
		if err != nil || second.Done != 300 || second.Driver != "second" {
			t.Fatalf("got %+v (%v)", second, err)
		}
	})
}

func TestAJobHasOneDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := deadStore(t, 5000)
		id := startJob(t, store, 5000, 100).ID
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := ops.RunJob(ctx, store, id, "first", nil)
			done <- err
		}()
		synctest.Wait()

		_, err := ops.RunJob(t.Context(), store, id, "second", nil)

		if !errors.Is(err, outbox.ErrLeaseHeld) {
			t.Errorf("got %v, want ErrLeaseHeld", err)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestAPausedJobWaitsAndACancelledOneEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := deadStore(t, 1000)
		id := startJob(t, store, 1000, 100).ID
		ended := make(chan outbox.Job)
		go func() {
			job, err := ops.RunJob(t.Context(), store, id, "me", nil)
			if err != nil {
				t.Error(err)
			}
			ended <- job
		}()
		set := func(state outbox.JobState) outbox.Job {
			job, err := store.SetJob(t.Context(), id, state, "ada", "why")
			if err != nil {
				t.Fatal(err)
			}
			return job
		}
		<-time.After(2500 * time.Millisecond)
		paused := set(outbox.JobPaused)
		<-time.After(time.Minute)
		if now := set(outbox.JobRunning); now.Done != paused.Done {
			t.Errorf("a paused job went from %d to %d", paused.Done, now.Done)
		}
		<-time.After(2500 * time.Millisecond)
		cancelled := time.Now()
		set(outbox.JobCancelled)
		if job := <-ended; job.State != outbox.JobCancelled || job.Done <= paused.Done {
			t.Errorf("got %+v", job)
		}
		if took := time.Since(cancelled); took > 2*time.Second {
			t.Errorf("it took %s to stop", took)
		}
	})
}

func TestADriverOfThisProcessTakesNoticeAtOnce(t *testing.T) {
	for _, c := range []struct {
		name string
		rate int
		set  []outbox.JobState
	}{
		{"resumed and done", 0, []outbox.JobState{outbox.JobRunning}},
		{"cancelled while paused", 100, []outbox.JobState{outbox.JobCancelled}},
		{"cancelled while the rate makes it wait", 1, []outbox.JobState{outbox.JobRunning, outbox.JobCancelled}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := deadStore(t, 10)
				id := startJob(t, store, 10, c.rate).ID
				set := func(state outbox.JobState) {
					t.Helper()
					if _, err := ops.SetJob(t.Context(), store, id, state, "ada", "why"); err != nil {
						t.Fatal(err)
					}
				}
				set(outbox.JobPaused)
				ended := make(chan error, 1)
				go func() {
					_, err := ops.RunJob(t.Context(), store, id, "me", nil)
					ended <- err
				}()
				synctest.Wait()
				began := time.Now()

				for _, state := range c.set {
					set(state)
					synctest.Wait()
				}

				if err := <-ended; err != nil || time.Since(began) != 0 {
					t.Errorf("it took the driver %s to notice (%v)", time.Since(began), err)
				}
			})
		})
	}
}

func TestWhatDiedInAnOutageIsRevived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := deadStore(t, 2) // long before
		record := func(actor string, verb outbox.Verb, route string) {
			t.Helper()
			if err := store.Record(t.Context(), outbox.AuditEntry{Actor: actor, Verb: verb, Route: route, Reason: "refused"}); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(time.Hour)
		record("r1", outbox.VerbCircuitOpen, "main")
		<-time.After(time.Minute)
		record("r2", outbox.VerbCircuitOpen, "main")
		kill(t, store, 3, "main")
		kill(t, store, 4, "other")
		<-time.After(time.Minute)
		record("r1", outbox.VerbCircuitClose, "main")
		<-time.After(time.Minute)
		record("r2", outbox.VerbCircuitClose, "main")
		<-time.After(time.Hour)
		kill(t, store, 5, "main") // long after
		record("r1", outbox.VerbCircuitOpen, "main")

		outages, err := ops.Outages(t.Context(), store, "main")
		if err != nil || len(outages) != 2 {
			t.Fatalf("got %+v (%v), want two outages", outages, err)
		}
		if !outages[0].Until.IsZero() || outages[1].Until.Sub(outages[1].Since) != 3*time.Minute || outages[1].Error != "refused" {
			t.Errorf("got %+v", outages)
		}
		req := ops.Revive(outages[1], 10*time.Second)
		req.Expect, req.Actor, req.Reason = 3, "ada", "the outage is over"
		job, err := store.StartJob(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if job, err = ops.RunJob(t.Context(), store, job.ID, "me", nil); err != nil || job.Done != 3 {
			t.Errorf("got %+v (%v)", job, err)
		}
	})
}

func TestWhyReportsWhatItCannotRead(t *testing.T) {
	store := deadStore(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ops.Why(ctx, store, uuid.New(), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
