package bulk_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/bulk"
)

// table is a table in memory that notes what happened to it.
type table struct {
	rows    []bulk.Candidate
	changed map[int64]int
	at      []time.Time // when each replayed message is available
	now     time.Time
	changes int
	lagging int
}

func (m *table) Page(_ context.Context, _ outbox.Filter, after int64, limit int) ([]bulk.Candidate, error) {
	var page []bulk.Candidate
	for _, r := range m.rows {
		if r.Sequence > after && len(page) < limit {
			page = append(page, r)
		}
	}
	return page, nil
}

func (m *table) Change(_ context.Context, _ outbox.Verb, picks []bulk.Candidate, delays []time.Duration) (int, error) {
	for i, p := range picks {
		m.changed[p.Sequence]++
		if delays != nil {
			m.at = append(m.at, m.now.Add(delays[i]))
		}
	}
	m.changes++
	return len(picks), nil
}

// Lagging counts what is due while the relay stands still.
func (m *table) Lagging(_ context.Context, _ int64, limit int) (int, error) {
	return min(m.lagging, limit), nil
}

func newTable(n int, dead func(i int) bool) *table {
	m := &table{changed: map[int64]int{}, now: time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)}
	for i := range n {
		r := &outbox.Record{Sequence: int64(i + 1), EventID: uuid.New(), Topic: "shop.order.placed.v1", CreatedAt: m.now.Add(-time.Hour)}
		if dead(i) {
			r.DeadAt, r.DeadReason = m.now.Add(-time.Minute), outbox.DeadAttempts
		}
		m.rows = append(m.rows, bulk.Candidate{Record: r})
	}
	return m
}

// Whatever the table, the rate, the cap and the pauses between steps: each match is
// changed once, none more than the cap, and no second has more of them than the rate.
func TestAJobChangesEachMatchOnceAndKeepsToItsRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		every := rapid.IntRange(1, 5).Draw(t, "every")
		m := newTable(rapid.IntRange(0, 3000).Draw(t, "rows"), func(i int) bool { return i%every == 0 })
		req := outbox.JobRequest{
			Verb: outbox.VerbReplay, Filter: outbox.Filter{Status: outbox.StatusDead}, Actor: "ada", Reason: "why",
			Cap: rapid.IntRange(1, 4000).Draw(t, "cap"), Rate: rapid.IntRange(0, 2000).Draw(t, "rate"),
		}
		count, err := bulk.CountMatches(t.Context(), req, m.now, m)
		if err != nil {
			t.Fatal(err)
		}
		req.Expect = count.N
		job, err := bulk.New(req, count.N, m.now)
		if err != nil {
			t.Fatal(err)
		}
		for steps := 0; job.State == outbox.JobRunning; steps++ {
			if steps > 20_000 {
				t.Fatal("it does not end")
			}
			if _, err := job.Step(t.Context(), "me", m.now, m); err != nil {
				t.Fatal(err)
			}
			m.now = m.now.Add(max(job.Wait+time.Duration(rapid.IntRange(-30, 500).Draw(t, "late"))*time.Millisecond, 0))
		}
		if job.Done != count.N || len(m.changed) != count.N || job.Done > req.Cap {
			t.Fatalf("done %d, changed %d, matching %d", job.Done, len(m.changed), count.N)
		}
		for seq, n := range m.changed {
			if n != 1 {
				t.Fatalf("message %d was changed %d times", seq, n)
			}
		}
		for i := range m.at {
			if j := i + req.Rate; req.Rate > 0 && j < len(m.at) && m.at[j].Sub(m.at[i]) < time.Second {
				t.Fatalf("%d messages in %s at a rate of %d", req.Rate+1, m.at[j].Sub(m.at[i]), req.Rate)
			}
		}
	})
}

func TestAJobWaitsForARelayThatLagsBehind(t *testing.T) {
	m := newTable(100, func(int) bool { return true })
	job, err := bulk.New(outbox.JobRequest{
		Verb: outbox.VerbReplay, Filter: outbox.Filter{Status: outbox.StatusDead}, Expect: 100, Rate: 100, Actor: "ada", Reason: "why",
	}, 100, m.now)
	if err != nil {
		t.Fatal(err)
	}
	step := func(lagging int) int {
		m.lagging, m.now = lagging, m.now.Add(time.Second)
		if _, err := job.Step(t.Context(), "me", m.now, m); err != nil {
			t.Fatal(err)
		}
		return job.Done
	}
	if a, b, c, d := step(0), step(5), step(4), step(100); a != 10 || b != 10 || c != 20 || d != 20 {
		t.Errorf("done %d, %d, %d, %d", a, b, c, d)
	}
}

func TestTheLastStepClosesTheRecord(t *testing.T) {
	m := newTable(3, func(int) bool { return true })
	job, err := bulk.New(outbox.JobRequest{
		Verb: outbox.VerbDiscard, Filter: outbox.Filter{Status: outbox.StatusDead}, Expect: 3, Actor: "ada", Reason: "why",
	}, 3, m.now)
	if err != nil {
		t.Fatal(err)
	}
	entry, err := job.Step(t.Context(), "me", m.now, m)
	if err != nil || entry == nil {
		t.Fatal(entry, err)
	}
	if entry.Messages != 3 || entry.Verb != outbox.VerbDiscard || entry.After != outbox.StatusDiscarded || entry.EventID != job.ID {
		t.Errorf("got %+v", entry)
	}
	if entry, err := job.Step(t.Context(), "me", m.now, m); entry != nil || err != nil || m.changes != 1 {
		t.Errorf("a finished job went on: %v %v", entry, err)
	}
}

func TestDriftIsATenth(t *testing.T) {
	for _, c := range []struct {
		expect, count int
		want          bool
	}{{0, 0, false}, {0, 1, true}, {100, 110, false}, {100, 111, true}, {100, 90, false}, {100, 89, true}, {1, 2, true}} {
		if got := bulk.Drifted(c.expect, c.count); got != c.want {
			t.Errorf("%d expected, %d counted: got %v", c.expect, c.count, got)
		}
	}
}

func TestAJobThatIsOverStaysSo(t *testing.T) {
	for _, over := range []outbox.JobState{outbox.JobDone, outbox.JobCancelled} {
		for _, state := range []outbox.JobState{outbox.JobRunning, outbox.JobPaused, outbox.JobCancelled, outbox.JobDone} {
			job := &bulk.Job{Job: outbox.Job{State: over}}
			if _, err := job.Set(state, "ada", "why", time.Now()); !errors.Is(err, outbox.ErrNotApplicable) {
				t.Errorf("%s to %s: got %v", over, state, err)
			}
		}
	}
}
