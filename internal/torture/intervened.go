package torture

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

// asked says whether an operator has asked for a change that the witness saw. Whatever
// is written under the operator's name and nobody asked for is a bug.
func (c *checker) asked(t *Transition, verbs ...outbox.Verb) bool {
	at := c.mono(t.At)
	for _, i := range c.Interventions {
		if i.covers(t, c.keyOf(t.Event)) && i.during(at) && slices.Contains(verbs, i.Verb) {
			return true
		}
	}
	for _, r := range c.Replays {
		i := Intervention{Verb: outbox.VerbReplay, Event: r.Event, At: r.At, Done: r.Done, Error: r.Error}
		if i.covers(t, "") && i.during(at) && slices.Contains(verbs, i.Verb) {
			return true
		}
	}
	return false
}

func (c *checker) keyOf(event uuid.UUID) string {
	if f := c.fates[event]; f != nil {
		return f.Key
	}
	return ""
}

// covers: the change is of what the intervention was about.
func (i *Intervention) covers(t *Transition, key string) bool {
	switch {
	case i.Event != uuid.Nil:
		return i.Event == t.Event
	case i.Key != "":
		return i.Key == key
	case i.Status == outbox.StatusPublished:
		return t.WasPublished
	case i.Status != "": // dead or discarded
		return t.WasDead
	}
	return true
}

// wallError is how far the wall clock and the monotonic one may drift apart in a run.
const wallError = int64(100 * time.Millisecond)

// during: it can have happened at this moment.
func (i *Intervention) during(at int64) bool {
	until := i.Done
	if i.Error != "" {
		until += int64(10 * time.Second) // the server may still be at it
	}
	return at >= i.At-wallError && at <= until+wallError
}

// operated judges a change that was made under the operator's name, and says what is
// wrong with it.
func (c *checker) operated(t *Transition) string {
	again := t.IsReplays == t.WasReplays+1
	switch {
	case again && t.IsDead:
		return c.discarded(t)
	case again && (t.IsPublished || t.IsAttempts != 0):
		return "replayed a message into another state than the first"
	case again && !c.asked(t, outbox.VerbReplay, outbox.VerbRetryHead):
		return "replayed a message unasked"
	case again:
		return ""
	case t.WasPublished || t.IsPublished || t.WasDead || t.IsDead || t.IsReplays != t.WasReplays || t.IsAttempts != t.WasAttempts:
		return "did something else than replay, discard or reschedule"
	case !c.asked(t, outbox.VerbReschedule, outbox.VerbTrigger):
		return "rescheduled a message unasked"
	}
	return ""
}

func (c *checker) discarded(t *Transition) string {
	switch {
	case t.WasPublished:
		return "discarded a published message"
	case t.IsAttempts != t.WasAttempts:
		return "changed the attempts of a message that it discarded"
	case t.WasDead && !c.asked(t, outbox.VerbDiscard, outbox.VerbSkipHead, outbox.VerbReleaseKey):
		return "discarded a dead message unasked"
	case !t.WasDead && !c.asked(t, outbox.VerbDiscard, outbox.VerbSkipHead):
		return "discarded a message unasked"
	}
	return ""
}

// pauses: while the table is paused, and every relay has had the time to notice or to
// lose its lease, nothing is delivered.
func (c *checker) pauses() {
	for n, pause := range c.Interventions {
		if pause.Verb != outbox.VerbPause || pause.Error != "" {
			continue
		}
		from, to := pause.Done+int64(c.Limits.Lease)+pauseGrace, int64(0)
		for _, later := range c.Interventions[n:] {
			if later.Verb == outbox.VerbResume {
				to = later.At
				break
			}
		}
		for _, d := range c.Deliveries {
			if d.At > from && d.At < to {
				c.fail(Paused, "%s delivered sequence %d %s after the table was paused, and %s before it was resumed",
					d.Relay, d.Sequence, time.Duration(d.At-pause.Done), time.Duration(to-d.At))
				break
			}
		}
	}
}

// pauseGrace is for a busy machine, and for a group of suspects that is being delivered
// one after the other.
const pauseGrace = int64(3 * time.Second)
