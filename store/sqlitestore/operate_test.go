package sqlitestore_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/go-outbox/outbox"
)

// kill makes the oldest message dead after one failure.
func kill(t *testing.T, store outbox.Store) {
	t.Helper()
	lease := acquire(t, store, "one")
	for i, o := range []outbox.Outcome{
		{Sequence: 1, Kind: outbox.Retry, Spent: 1, Error: "refused", Route: "main"},
		{Sequence: 1, Kind: outbox.Dead, Attempts: 1, Spent: 1, Reason: outbox.DeadAttempts, Error: "refused again", Route: "main"},
	} {
		if err := lease.Step(t.Context(), outbox.Step{Outcomes: []outbox.Outcome{o}}); err != nil {
			t.Fatal(i, err)
		}
	}
}

func TestAnActionThatCannotBeAuditedIsNotDone(t *testing.T) {
	store, db := newMigrated(t)
	if _, err := store.EnqueueAutocommit(t.Context(), message("a")); err != nil {
		t.Fatal(err)
	}
	kill(t, store)
	mustExec(t, db, "CREATE TRIGGER refuse BEFORE INSERT ON outbox_audit BEGIN SELECT RAISE(ABORT, 'disk full'); END")

	_, err := store.Apply(t.Context(), outbox.Action{Verb: outbox.VerbRetryHead, Key: "a", Actor: "ada", Reason: "a test"})

	if err == nil {
		t.Fatal("it was done")
	}
	stats, err := store.Stats(t.Context())
	if err != nil || stats.Dead != 1 {
		t.Errorf("%d messages are dead, want 1 (%v)", stats.Dead, err)
	}
}

func TestTheAuditTrailIsAppendOnly(t *testing.T) {
	store, db := newMigrated(t)
	if err := store.Record(t.Context(), outbox.AuditEntry{Verb: outbox.VerbCircuitOpen, Actor: "relay", Route: "main"}); err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{"DELETE FROM outbox_audit", "UPDATE outbox_audit SET actor = 'nobody'"} {
		if _, err := db.ExecContext(t.Context(), statement); err == nil || !strings.Contains(err.Error(), "append-only") {
			t.Errorf("%s: %v", statement, err)
		}
	}
}

func TestFailuresAreAuditActions(t *testing.T) {
	store, db := newMigrated(t)
	if _, err := store.EnqueueAutocommit(t.Context(), message("a")); err != nil {
		t.Fatal(err)
	}
	kill(t, store)

	rows, err := db.QueryContext(t.Context(), "SELECT action || ' ' || attempts || ' ' || last_error FROM "+table+"_audit_actions ORDER BY attempts")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var got []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		got = append(got, line)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if want := []string{"outbox-send-failed 1 refused", "outbox-failed-permanent 2 refused again"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAnIncompleteSchemaIsNoticed(t *testing.T) {
	for _, statement := range []string{
		"DROP TABLE outbox_job", "ALTER TABLE outbox_audit DROP COLUMN messages", "ALTER TABLE " + table + "_relay DROP COLUMN note",
	} {
		store, db := newMigrated(t)
		mustExec(t, db, statement)
		if err := store.CheckSchema(t.Context()); !errors.Is(err, outbox.ErrSchema) {
			t.Errorf("%s: got %v, want ErrSchema", statement, err)
		}
	}
}
