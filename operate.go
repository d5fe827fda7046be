package outbox

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"
)

// An Operator changes a store on behalf of a person. Every change is audited in its
// own transaction and safe while the relay works: the leases are nudged before rows
// change, and a settle of an older generation no longer matches.
type Operator interface {
	// Preview reports what Apply would do, without doing it.
	Preview(ctx context.Context, a Action) (Effect, error)
	Apply(ctx context.Context, a Action) (Effect, error)

	// PreviewJob reports what a job would change, without changing it.
	PreviewJob(ctx context.Context, req JobRequest) (JobPreview, error)
	// StartJob records a job after counting again: ErrDrift means that the count
	// has moved by more than a tenth since it was confirmed. It changes no
	// message yet.
	StartJob(ctx context.Context, req JobRequest) (Job, error)
	// StepJob makes the next chunk of a running job and reports where it stands.
	// driver names the process that drives it: ErrLeaseHeld means that another
	// one did so within the last JobPatience.
	StepJob(ctx context.Context, id uuid.UUID, driver string) (Job, error)
	// SetJob pauses, resumes or cancels a job. What was changed stays.
	SetJob(ctx context.Context, id uuid.UUID, state JobState, actor, reason string) (Job, error)
}

// A Recorder is a store that keeps entries of others in its audit trail. The store
// fills in the id, the time and the table.
type Recorder interface {
	Record(ctx context.Context, e AuditEntry) error
}

// Verb is what an operator does.
type Verb string

const (
	// VerbReplay sends a message again: a dead one, a published one or one in
	// backoff. Its attempts start over and its deduplication id is new; its event
	// id is not.
	VerbReplay Verb = "replay"
	// VerbDiscard gives a message up that is not published. It stays, as
	// discarded, and no longer holds its key.
	VerbDiscard Verb = "discard"
	// VerbReschedule makes a message that is not published, dead or in flight
	// available at Action.At.
	VerbReschedule Verb = "reschedule"
	// VerbPause stops a route, or the whole table when Route is empty.
	VerbPause Verb = "pause"
	// VerbResume goes on with what VerbPause stopped.
	VerbResume Verb = "resume"
	// VerbRetryHead replays the message at the head of a key: the first that is
	// dead or waits.
	VerbRetryHead Verb = "retry_head"
	// VerbSkipHead discards that message.
	VerbSkipHead Verb = "skip_head"
	// VerbReleaseKey discards every dead message of a key.
	VerbReleaseKey Verb = "release_key"
	// VerbTrigger makes the relays look at the table at once and makes messages
	// that wait after a failure available now.
	VerbTrigger Verb = "trigger"
	// VerbReleaseLease ends the lease of a shard, so that another relay need not
	// wait for it to expire. Its owner, if it lives, is fenced off.
	VerbReleaseLease Verb = "release_lease"
	// VerbPurge deletes messages. It is for jobs only.
	VerbPurge Verb = "purge"
)

// Verbs that occur in the audit trail only. A job is audited when it is started and
// when it is done (as its own verb, with the count of what it changed) or cancelled.
const (
	VerbStartJob  Verb = "start_job"
	VerbPauseJob  Verb = "pause_job"
	VerbResumeJob Verb = "resume_job"
	VerbCancelJob Verb = "cancel_job"
	// VerbCircuitOpen is the begin of an outage of a route, recorded by the relay
	// that noticed.
	VerbCircuitOpen Verb = "circuit_open"
	// VerbCircuitClose is its end.
	VerbCircuitClose Verb = "circuit_close"
)

// An Action is one change with the person and the reason behind it.
type Action struct {
	Verb   Verb
	Actor  string
	Reason string

	EventID uuid.UUID // replay, discard, reschedule
	At      time.Time // reschedule
	Route   string    // pause, resume
	Key     string    // retry_head, skip_head, release_key
	Shard   int       // release_lease
}

// Validate reports what an action lacks.
func (a Action) Validate() error {
	switch {
	case a.Actor == "":
		return ErrInvalidConfig.With("actor", "is required: who does this?")
	case strings.TrimSpace(a.Reason) == "":
		return ErrInvalidConfig.With("reason", "is required: why?")
	}
	switch a.Verb {
	case VerbReplay, VerbDiscard, VerbReschedule:
		if a.EventID == uuid.Nil {
			return ErrInvalidConfig.With("event_id", "is required")
		}
		if a.Verb == VerbReschedule && a.At.IsZero() {
			return ErrInvalidConfig.With("at", "is required: until when?")
		}
	case VerbRetryHead, VerbSkipHead, VerbReleaseKey:
		if a.Key == "" {
			return ErrInvalidConfig.With("key", "is required")
		}
	case VerbPause, VerbResume, VerbTrigger:
	case VerbReleaseLease:
		if a.Shard < 0 || a.Shard > 255 {
			return ErrInvalidConfig.With("shard", "must be between 0 and 255")
		}
	default:
		return ErrNotApplicable.With("verb", "unknown verb "+string(a.Verb))
	}
	return nil
}

// An Effect is what an action does or did.
type Effect struct {
	Messages int
	// Before and After are the statuses when it is about one message.
	Before Status
	After  Status
}

// A JobRequest is one change to many messages.
type JobRequest struct {
	// Verb is VerbReplay, VerbDiscard or VerbPurge.
	Verb Verb `json:"verb"`
	// Filter selects them. Replay and discard are for dead messages only; a
	// purge names its status (published, dead or discarded) and an Until.
	Filter Filter `json:"filter"`
	// Expect is the count that a person has confirmed.
	Expect int `json:"expect"`
	// Cap bounds how many messages are changed. Defaults to MaxJob.
	Cap int `json:"cap,omitempty"`
	// Rate spreads a replay: at most so many a second, and a tenth less than that
	// as long as the relay keeps up. Zero is as fast as it goes.
	Rate   int    `json:"rate,omitempty"`
	Actor  string `json:"actor"`
	Reason string `json:"reason"`
}

// Bounds of jobs.
const (
	MaxJob = 1_000_000
	// JobChunk is how many messages one step of a job looks at.
	JobChunk = 1000
	// JobPatience is after how long without a step another process may drive a
	// job.
	JobPatience = 10 * time.Second
	// JobDrift is by how much the count may move between its confirmation and
	// the start, as a fraction.
	JobDrift = 0.1
)

// Validate reports what a request lacks.
func (r JobRequest) Validate() error {
	switch {
	case r.Actor == "":
		return ErrInvalidConfig.With("actor", "is required: who does this?")
	case strings.TrimSpace(r.Reason) == "":
		return ErrInvalidConfig.With("reason", "is required: why?")
	case r.Cap < 0 || r.Cap > MaxJob:
		return ErrInvalidConfig.With("cap", "must be between 1 and 1000000")
	case r.Rate < 0 || r.Rate > 100_000:
		return ErrInvalidConfig.With("rate", "must be between 1 and 100000 a second")
	}
	return r.scope()
}

func (r JobRequest) scope() error {
	switch r.Verb {
	case VerbReplay, VerbDiscard:
		if r.Filter.Status != StatusDead {
			return ErrInvalidConfig.With("filter.status", "must be dead: other messages are changed one by one")
		}
	case VerbPurge:
		switch r.Filter.Status {
		case StatusPublished, StatusDead, StatusDiscarded:
		default:
			return ErrInvalidConfig.With("filter.status", "must be published, dead or discarded: others are not delivered yet")
		}
		if r.Filter.Until.IsZero() {
			return ErrInvalidConfig.With("filter.until", "is required: delete what is older than when?")
		}
	default:
		return ErrNotApplicable.With("verb", "no job can "+string(r.Verb))
	}
	return nil
}

// A JobPreview is what a job would change.
type JobPreview struct {
	// Count is how many messages match, up to the request's cap; Capped says
	// that there are more.
	Count  int
	Capped bool
	// Topics splits the count, the largest first.
	Topics []TopicCount
	// KeyConflicts counts matching messages with a key whose later messages were
	// already delivered: replaying them delivers out of order. It looks at the
	// first GroupCap, and for each at a bounded part of what follows.
	KeyConflicts int
	// Takes is how long the rate makes it.
	Takes time.Duration
}

// TopicCount is a part of a count.
type TopicCount struct {
	Topic string
	Count int
}

// JobState is where a job stands.
type JobState string

// The states of a job. A running one whose process is gone is resumed by any other
// that drives it.
const (
	JobRunning   JobState = "running"
	JobPaused    JobState = "paused"
	JobCancelled JobState = "cancelled"
	JobDone      JobState = "done"
)

// A Job is a bulk change and how far it is. It is a permanent record.
type Job struct {
	ID uuid.UUID
	JobRequest
	State JobState
	// Total was counted at the start; Done is how many were changed.
	Total, Done int
	// Cursor is the last sequence looked at.
	Cursor    int64
	CreatedAt time.Time
	UpdatedAt time.Time
	// Driver is the process that drives it.
	Driver string
	// Wait is how long the rate asks to wait before the next step.
	Wait time.Duration
}

// GroupCap bounds how many dead messages Groups looks at.
const GroupCap = 20_000

// Groups are dead messages sorted by what they have in common.
type Groups struct {
	Groups []Group
	// Capped: there are more dead messages than were looked at.
	Capped bool
	Now    time.Time
}

// A Group is a set of dead messages that failed alike.
type Group struct {
	Topic  string
	Route  string
	Reason string
	// Error is the fingerprint that they share; Sample is the newest of them.
	Error       string
	Count       int
	First, Last time.Time
	Sample      uuid.UUID
}

// A HeldKey is a key by the message at its head.
type HeldKey struct {
	Key  string
	Head *Record
	// Waiting counts the later messages of the key that are not delivered, up to
	// HeldCap and among the first CountCap that wait at all.
	Waiting int
}

// HeldCap bounds HeldKey.Waiting.
const HeldCap = 1000

// An AuditFilter selects audit entries. The zero value selects all.
type AuditFilter struct {
	// EventID is of a message or of a job.
	EventID uuid.UUID
	Verb    Verb
	Actor   string
	// Before pages by id, exclusively.
	Before int64
	// Limit is at most MaxPage, and 50 when it is 0.
	Limit int
}

// PageSize is the limit that applies to f.
func (f AuditFilter) PageSize() int { return Filter{Limit: f.Limit}.PageSize() }

// An AuditEntry says who changed what, when and why.
type AuditEntry struct {
	ID       int64
	At       time.Time
	Table    string
	Actor    string
	Verb     Verb
	Reason   string
	EventID  uuid.UUID // of one message, or of the job
	Sequence int64
	// Route, Key and Filter (as JSON) say what it was about.
	Route, Key, Filter string
	Messages           int
	Before, After      Status
}

// Fingerprint reduces an error text to what errors of one cause share: numbers,
// quoted parts, addresses and ids become #, and it is cut at 120 bytes.
func Fingerprint(text string) string {
	var b strings.Builder
	for _, word := range strings.Fields(text) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(fingerprintWord(word))
		if b.Len() >= 120 {
			break
		}
	}
	s := b.String()
	if len(s) > 120 {
		s = strings.ToValidUTF8(s[:120], "")
	}
	return s
}

// fingerprintWord replaces the parts of a word that hold digits; what separates the
// parts stays.
func fingerprintWord(word string) string {
	if !strings.ContainsAny(word, "0123456789") {
		return word
	}
	var b strings.Builder
	for word != "" {
		end := strings.IndexAny(word, separators)
		if end < 0 {
			end = len(word)
		}
		if part := word[:end]; strings.ContainsAny(part, "0123456789") {
			b.WriteByte('#')
		} else {
			b.WriteString(part)
		}
		b.WriteString(word[end:min(end+1, len(word))])
		word = word[min(end+1, len(word)):]
	}
	return b.String()
}

const separators = "=:,;()[]{}/\"'"
