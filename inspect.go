package outbox

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// A Record is a message as it stands in its table. Zero times are NULL.
type Record struct {
	Sequence int64
	EventID  uuid.UUID
	TenantID string
	Topic    string
	Key      string
	Payload  json.RawMessage

	AggregateType string
	AggregateID   string
	EventType     string
	EventVersion  int
	ContentType   string
	Headers       map[string]string
	TraceParent   string
	TraceState    string

	CreatedAt   time.Time
	AvailableAt time.Time
	PublishedAt time.Time
	DeadAt      time.Time
	DeadReason  string
	LastError   string
	// Attempts counts dispatches that failed or ended unknown, plus the one that
	// succeeded.
	Attempts   int
	Crashes    int
	Replays    int
	RoutesDone []string

	// InFlight is derived from the batches; only an Inspector fills it.
	InFlight bool
	// Due: available as of the snapshot that read it.
	Due bool
	// Corrupt says why the row cannot be read as a message. Such a row is never
	// dispatched.
	Corrupt string
}

// Meta is what a dispatcher is told about the record's next dispatch.
func (r *Record) Meta(table string) Meta {
	return Meta{
		Table: table, TenantID: r.TenantID, Topic: r.Topic, Key: r.Key, EventID: r.EventID,
		Sequence: r.Sequence, Attempts: r.Attempts + 1, Replays: r.Replays,
		AggregateType: r.AggregateType, AggregateID: r.AggregateID, EventType: r.EventType,
		EventVersion: r.EventVersion, ContentType: r.ContentType, Headers: r.Headers,
		TraceParent: r.TraceParent, TraceState: r.TraceState, CreatedAt: r.CreatedAt,
	}
}

// An Inspector reads a store for people: counts, lists, single messages, leases. Its
// queries have a bounded cost whatever the backlog.
type Inspector interface {
	Stats(ctx context.Context) (Stats, error)
	// List returns messages that match f in descending or ascending sequence
	// order. Payloads are not read.
	List(ctx context.Context, f Filter) (List, error)
	// Get returns one message with its payload, or ErrNotFound.
	Get(ctx context.Context, id uuid.UUID) (*Record, error)
	// Attempts returns the recorded history of a message, newest first.
	Attempts(ctx context.Context, sequence int64) ([]Attempt, error)
}

// Stats is the state of a store at a glance.
type Stats struct {
	Table string
	Now   time.Time
	// Pending counts messages that are neither published nor dead, all others
	// of these are parts of it. Counts stop at CountCap: a capped count means
	// "at least".
	Pending, InFlight, Retrying, Scheduled int
	Dead, Discarded                        int
	Capped                                 bool
	// OldestPending is the age of the oldest message that is due and not
	// published; zero when there is none.
	OldestPending time.Duration
	Leases        []LeaseState
	Relays        []RelayState
}

// CountCap bounds every count of Stats, so that looking at a large backlog costs no
// more than looking at a small one.
const CountCap = 100_000

// LeaseState is a lease as an inspector sees it.
type LeaseState struct {
	Shard     int
	Instance  string
	Epoch     int64
	ExpiresAt time.Time
	// Held: it has an owner and has not expired.
	Held     bool
	Draining bool
	SlotLo   int
	SlotHi   int
	Low      int64
	Batches  int
}

// RelayState is a relay process as an inspector sees it.
type RelayState struct {
	Instance string
	Version  string
	SeenAt   time.Time
}

// An Attempt is one dispatch in the history of a message. Failures are recorded;
// successes only where routes diverge.
type Attempt struct {
	At      time.Time
	Attempt int
	Route   string
	Outcome string
	Error   string
	Took    time.Duration
}

// A Filter selects messages. The zero value selects all, newest first.
type Filter struct {
	Status Status
	// Topic is a pattern of [MatchTopic], or empty.
	Topic    string
	Key      string
	TenantID string
	// Before and After page through the result by sequence, exclusively.
	Before, After int64
	// OldestFirst reverses the order.
	OldestFirst bool
	// Limit is at most MaxPage, and 50 when it is 0.
	Limit int
}

// MaxPage is the largest page of List.
const MaxPage = 200

// PageSize is the limit that applies to f.
func (f Filter) PageSize() int {
	if f.Limit <= 0 {
		return 50
	}
	return min(f.Limit, MaxPage)
}

// A List is one page of messages.
type List struct {
	Records []*Record
	// Next continues the listing: set it as Before (or After, oldest first).
	// Zero means the end.
	Next int64
	Now  time.Time
}

// An Operator changes messages on behalf of a person. Every change is audited in
// its own transaction and safe while the relay works: the leases are nudged before
// rows change, and a settle of an older generation no longer matches.
type Operator interface {
	// Preview reports what Apply would do, without doing it.
	Preview(ctx context.Context, a Action) (Effect, error)
	Apply(ctx context.Context, a Action) (Effect, error)
}

// Verb is what an operator does.
type Verb string

// VerbReplay sends a message again: a dead one, a published one or one in backoff.
// Its attempts start over and its deduplication id is new; its event id is not.
const VerbReplay Verb = "replay"

// An Action is one change with the person and the reason behind it.
type Action struct {
	Verb    Verb
	EventID uuid.UUID
	Actor   string
	Reason  string
}

// Validate reports what an action lacks.
func (a Action) Validate() error {
	switch {
	case a.Verb != VerbReplay:
		return ErrNotApplicable.With("verb", "unknown verb "+string(a.Verb))
	case a.EventID == uuid.Nil:
		return ErrInvalidConfig.With("event_id", "is required")
	case a.Actor == "":
		return ErrInvalidConfig.With("actor", "is required: who does this?")
	case a.Reason == "":
		return ErrInvalidConfig.With("reason", "is required: why?")
	}
	return nil
}

// An Effect is what an action does or did.
type Effect struct {
	Messages int
	Before   Status
	After    Status
}
