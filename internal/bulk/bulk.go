// Package bulk holds what the operator's side of every store has in common: which
// verb fits which message, how a job advances, how dead messages are sorted into
// groups. It computes and touches no database; a store brings the rows and writes
// what comes out, in one transaction.
//
// It knows nothing about locks: that nobody else changes a job or its messages
// meanwhile is for the store to see to.
package bulk

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/go-outbox/outbox"
)

// A Candidate is a message as a filter looks at it: without its payload, and with the
// route of its last recorded attempt.
type Candidate struct {
	*outbox.Record
	Route string
}

// Judge says what a verb on one message does, or ErrNotApplicable.
func Judge(a outbox.Action, rec *outbox.Record, now time.Time) (outbox.Effect, error) {
	effect := outbox.Effect{Messages: 1, Before: rec.Status(now)}
	switch a.Verb {
	case outbox.VerbReplay, outbox.VerbRetryHead:
		effect.After = outbox.StatusPending
		return effect, nil
	case outbox.VerbDiscard, outbox.VerbSkipHead:
		effect.After = outbox.StatusDiscarded
		if effect.Before == outbox.StatusPublished || effect.Before == outbox.StatusDiscarded {
			return effect, refuse(a, effect.Before)
		}
		return effect, nil
	default: // reschedule
		switch effect.Before {
		case outbox.StatusPending, outbox.StatusScheduled, outbox.StatusRetrying:
		default:
			return effect, refuse(a, effect.Before)
		}
		effect.After = outbox.StatusScheduled
		switch {
		case rec.Attempts > 0:
			effect.After = outbox.StatusRetrying
		case !a.At.After(now):
			effect.After = outbox.StatusPending
		}
		return effect, nil
	}
}

func refuse(a outbox.Action, status outbox.Status) error {
	return outbox.ErrNotApplicable.With("event_id", fmt.Sprintf("cannot %s a message that is %s", a.Verb, status))
}

// NoHead is the error of a verb for a key that nothing holds.
func NoHead(key string) error {
	return outbox.ErrNotFound.With("key", fmt.Sprintf("nothing holds the key %q", key))
}

// NoJob is the error for a job that does not exist.
func NoJob(id fmt.Stringer) error {
	return outbox.ErrNotFound.With("job", id.String()+" does not exist")
}

// NotHeld is the error of releasing a lease that nobody holds.
func NotHeld(shard int) error {
	return outbox.ErrNotApplicable.With("shard", fmt.Sprintf("the lease of shard %d is not held", shard))
}

// PauseRefused says why a route cannot be paused or resumed, or is nil. paused says
// whether it is, by whom.
func PauseRefused(a outbox.Action, paused bool, by string) error {
	what := "route " + a.Route
	if a.Route == "" {
		what = "table"
	}
	switch {
	case a.Verb == outbox.VerbPause && paused:
		return outbox.ErrNotApplicable.With("route", fmt.Sprintf("the %s is already paused by %s", what, by))
	case a.Verb == outbox.VerbResume && !paused:
		return outbox.ErrNotApplicable.With("route", fmt.Sprintf("the %s is not paused", what))
	}
	return nil
}

// Entry is the audit entry of an action.
func Entry(a outbox.Action, e outbox.Effect, rec *outbox.Record) outbox.AuditEntry {
	entry := outbox.AuditEntry{
		Actor: a.Actor, Verb: a.Verb, Reason: a.Reason, EventID: a.EventID, Route: a.Route, Key: a.Key,
		Messages: e.Messages, Before: e.Before, After: e.After,
	}
	switch {
	case rec != nil:
		entry.EventID, entry.Sequence, entry.Key = rec.EventID, rec.Sequence, rec.Key
	case a.Verb == outbox.VerbReleaseLease:
		entry.Filter = fmt.Sprintf(`{"shard":%d}`, a.Shard)
	}
	if a.Verb == outbox.VerbReschedule {
		entry.Filter = fmt.Sprintf(`{"at":%q}`, a.At.UTC().Format(time.RFC3339Nano))
	}
	return entry
}

// TriggerCap bounds how many messages a trigger makes available, and ReleaseCap how
// many a released key discards.
const (
	TriggerCap = 10 * outbox.JobChunk
	ReleaseCap = 10 * outbox.JobChunk
)

// EncodeFilter writes a filter as it is stored. Paging is not part of it.
func EncodeFilter(f outbox.Filter) string {
	text, err := json.Marshal(scope(f))
	if err != nil { // a filter is strings and times
		return "{}"
	}
	return string(text)
}

// DecodeFilter reads what EncodeFilter wrote.
func DecodeFilter(text string) (outbox.Filter, error) {
	var f outbox.Filter
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		return f, fmt.Errorf("read filter of job: %w", err)
	}
	return f, nil
}

func scope(f outbox.Filter) outbox.Filter {
	f.Before, f.After, f.Limit, f.OldestFirst = 0, 0, 0, false
	return f
}

// EncodeNote writes a relay's note as it is stored.
func EncodeNote(n outbox.RelayNote) string {
	text, err := json.Marshal(n)
	if err != nil { // a note is strings and times
		return "{}"
	}
	return string(text)
}

// DecodeNote reads a note. One that cannot be read (of a newer program) is empty: it
// only informs.
func DecodeNote(text string) outbox.RelayNote {
	var n outbox.RelayNote
	if json.Unmarshal([]byte(text), &n) != nil {
		return outbox.RelayNote{}
	}
	return n
}
