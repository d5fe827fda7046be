package pgstore_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/store/pgstore"
)

// killed makes n messages and lets them die after two attempts.
func killed(t *testing.T, store *pgstore.Store, n int) []outbox.Record {
	t.Helper()
	lease := acquire(t, store)
	for range n {
		if _, err := store.EnqueueAutocommit(t.Context(), message("")); err != nil {
			t.Fatal(err)
		}
	}
	var dead []outbox.Record
	for _, rec := range read(t, lease) {
		dead = append(dead, *rec)
		for _, o := range []outbox.Outcome{
			{Sequence: rec.Sequence, Kind: outbox.Retry, Spent: 1, Error: "refused", Route: "main"},
			{Sequence: rec.Sequence, Kind: outbox.Dead, Attempts: 1, Spent: 1, Reason: outbox.DeadAttempts, Error: "refused again", Route: "main"},
		} {
			if err := lease.Step(t.Context(), outbox.Step{Outcomes: []outbox.Outcome{o}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := lease.Release(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	return dead
}

func TestAnActionThatCannotBeAuditedIsNotDone(t *testing.T) {
	pool := testenv.Postgres(t).Pool(t)
	store := newStore(t, pool, pgstore.Config{Table: "shop_outbox"})
	dead := killed(t, store, 1)
	exec(t, pool, `ALTER TABLE outbox_audit ADD CONSTRAINT full_disk CHECK (actor <> 'ada')`)
	act := outbox.Action{Verb: outbox.VerbDiscard, EventID: dead[0].EventID, Actor: "ada", Reason: "a test"}

	if _, err := store.Apply(t.Context(), act); err == nil {
		t.Error("it was done")
	}
	job := outbox.JobRequest{Verb: outbox.VerbReplay, Filter: outbox.Filter{Status: outbox.StatusDead}, Expect: 1, Actor: "ada", Reason: "a test"}
	if _, err := store.StartJob(t.Context(), job); err == nil {
		t.Error("a job was started")
	}
	if n := count(t, pool, `SELECT count(*) FROM shop_outbox WHERE dead_reason = 'attempts' AND replays = 0`); n != 1 {
		t.Error("the message has changed")
	}
	if n := count(t, pool, `SELECT count(*) FROM outbox_job`); n != 0 {
		t.Error("the job is recorded")
	}
}

func auditActions(t *testing.T, pool *pgxpool.Pool) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT action || ' ' || attempts || ' ' || last_error FROM shop_outbox_audit_actions ORDER BY at, attempts`)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestFailuresAreAuditActions(t *testing.T) {
	pool := testenv.Postgres(t).Pool(t)
	store := newStore(t, pool, pgstore.Config{Table: "shop_outbox"})
	killed(t, store, 1)

	if got, want := auditActions(t, pool), []string{"outbox-send-failed 1 refused", "outbox-failed-permanent 2 refused again"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAnIncompleteSchemaIsNoticed(t *testing.T) {
	for _, statement := range []string{
		`DROP TABLE outbox_job`, `ALTER TABLE outbox_audit DROP COLUMN messages`, `ALTER TABLE shop_outbox_relay DROP COLUMN note`,
	} {
		pool := testenv.Postgres(t).Pool(t)
		store := newStore(t, pool, pgstore.Config{Table: "shop_outbox"})
		exec(t, pool, statement)
		if err := store.CheckSchema(t.Context()); !errors.Is(err, outbox.ErrSchema) {
			t.Errorf("%s: got %v, want ErrSchema", statement, err)
		}
	}
}

// Everything but what needs a key or an index on sequence works on a table that
// another tool owns, and the rest says what would help.
func TestOperatorsWorkOnTheVerbatimLayout(t *testing.T) {
	pool := testenv.Postgres(t).Pool(t)
	verbatim(t, pool, "shop_outbox", "")
	store := newStore(t, pool, pgstore.Config{Table: "shop_outbox"})
	dead := killed(t, store, 6)
	act := func(a outbox.Action) outbox.Effect {
		t.Helper()
		a.Actor, a.Reason = "ada", "a test"
		preview, err := store.Preview(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		effect, err := store.Apply(t.Context(), a)
		if err != nil || effect != preview {
			t.Fatalf("%s: %+v (%v), preview %+v", a.Verb, effect, err, preview)
		}
		return effect
	}
	status := func(i int) outbox.Status {
		t.Helper()
		rec, err := store.Get(t.Context(), dead[i].EventID)
		if errors.Is(err, outbox.ErrNotFound) {
			return "gone"
		}
		if err != nil {
			t.Fatal(err)
		}
		return rec.Status(time.Now())
	}
	run := func(verb outbox.Verb, f outbox.Filter, want int) {
		t.Helper()
		job, err := store.StartJob(t.Context(), outbox.JobRequest{Verb: verb, Filter: f, Expect: want, Actor: "ada", Reason: "a test"})
		if err != nil {
			t.Fatal(err)
		}
		if job, err = store.StepJob(t.Context(), job.ID, "me"); err != nil || job.State != outbox.JobDone || job.Done != want {
			t.Fatalf("%s: %+v (%v), want %d done", verb, job, err, want)
		}
	}

	act(outbox.Action{Verb: outbox.VerbReplay, EventID: dead[0].EventID})
	act(outbox.Action{Verb: outbox.VerbReschedule, EventID: dead[0].EventID, At: time.Now().Add(time.Hour)})
	act(outbox.Action{Verb: outbox.VerbDiscard, EventID: dead[1].EventID})
	if status(0) != outbox.StatusScheduled || status(1) != outbox.StatusDiscarded {
		t.Errorf("replayed and rescheduled: %s; discarded: %s", status(0), status(1))
	}
	groups, err := store.Groups(t.Context(), outbox.Filter{})
	if err != nil || len(groups.Groups) != 1 || groups.Groups[0].Count != 4 || groups.Groups[0].Route != "main" {
		t.Errorf("groups %+v (%v)", groups, err)
	}
	list, err := store.List(t.Context(), outbox.Filter{Status: outbox.StatusDead, Route: "main", Error: "refused again", Reason: outbox.DeadAttempts})
	if err != nil || len(list.Records) != 4 {
		t.Errorf("%d dead messages listed (%v), want 4", len(list.Records), err)
	}
	run(outbox.VerbReplay, outbox.Filter{Status: outbox.StatusDead, Route: "main", Since: time.Now().Add(-time.Hour)}, 4)
	lease := acquire(t, store)
	if n := len(read(t, lease)); n != 4 {
		t.Errorf("%d messages are due, want 4", n)
	}
	for _, rec := range read(t, lease) {
		o := outbox.Outcome{Sequence: rec.Sequence, Kind: outbox.Dead, Replays: rec.Replays, Spent: 1, Reason: outbox.DeadAttempts, Error: "again"}
		if err := lease.Step(t.Context(), outbox.Step{Outcomes: []outbox.Outcome{o}}); err != nil {
			t.Fatal(err)
		}
	}
	run(outbox.VerbDiscard, outbox.Filter{Status: outbox.StatusDead}, 4)
	run(outbox.VerbPurge, outbox.Filter{Status: outbox.StatusDiscarded, Until: time.Now().Add(time.Hour)}, 5)
	if status(1) != "gone" || count(t, pool, `SELECT count(*) FROM shop_outbox_state WHERE dead_at IS NOT NULL`) != 0 {
		t.Error("what was purged is still there")
	}
	act(outbox.Action{Verb: outbox.VerbPause, Route: "main"})
	renewed, err := lease.Renew(t.Context(), outbox.Renewal{})
	if err != nil || !slices.Equal(renewed.PausedRoutes, []string{"main"}) {
		t.Errorf("paused routes %v (%v)", renewed.PausedRoutes, err)
	}
	act(outbox.Action{Verb: outbox.VerbTrigger})
	act(outbox.Action{Verb: outbox.VerbReleaseLease})

	keys, err := store.Keys(t.Context(), 0, 10)
	if err != nil || len(keys) != 0 {
		t.Errorf("held keys %v (%v)", keys, err)
	}
	_, err = store.PreviewJob(t.Context(), outbox.JobRequest{
		Verb: outbox.VerbPurge, Filter: outbox.Filter{Status: outbox.StatusPublished, Until: time.Now()}, Actor: "ada", Reason: "a test",
	})
	if !errors.Is(err, outbox.ErrNotApplicable) || !strings.Contains(err.Error(), "migrate up --full") {
		t.Errorf("purging published messages: %v", err)
	}
}
