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

	// InFlight is derived from the batches; only an Inspector fills it. Flight
	// says more, and only Get fills it.
	InFlight bool
	Flight   *Flight
	// Due: available as of the snapshot that read it.
	Due bool
	// Corrupt says why the row cannot be read as a message. Such a row is never
	// dispatched.
	Corrupt string
}

// A Flight is where a message is being dispatched.
type Flight struct {
	Instance string
	Since    time.Time
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
	// Tenants counts what waits and what is dead by tenant, those with the most
	// first. It looks at no more than Stats does: at the first CountCap messages
	// that wait, and as many dead ones. limit is as in Filter.
	Tenants(ctx context.Context, limit int) (Tenants, error)
	// Attempts returns the recorded history of a message, newest first.
	Attempts(ctx context.Context, sequence int64) ([]Attempt, error)
	// Ahead returns the message that holds the given one back: the first earlier
	// one of its key that waits after a failure or for its time, or that is dead
	// when dead ones count too (they do where the relay blocks on them).
	// ErrNotFound means that none does.
	Ahead(ctx context.Context, key string, sequence int64, dead bool) (*Record, error)
	// Keys lists keys by the message at their head that is dead or put back, in
	// sequence order after the given one.
	Keys(ctx context.Context, after int64, limit int) ([]HeldKey, error)
	// Groups sorts dead messages that match f by what they have in common, the
	// largest group first. It looks at the newest GroupCap of them.
	Groups(ctx context.Context, f Filter) (Groups, error)
	// Audit lists what was changed, newest first.
	Audit(ctx context.Context, f AuditFilter) ([]AuditEntry, error)
	// Jobs lists bulk changes, newest first; Job returns one, or ErrNotFound.
	Jobs(ctx context.Context, limit int) ([]Job, error)
	Job(ctx context.Context, id uuid.UUID) (Job, error)
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
	// Paused are the routes that an operator has paused; the route "" is the
	// whole table.
	Paused []PausedRoute
}

// Tenants are counts by tenant.
type Tenants struct {
	Tenants []TenantCount
	// Others is how many tenants there are beyond the limit.
	Others int
	// Capped: there are more messages than were looked at.
	Capped bool
}

// A TenantCount is what there is of one tenant, the messages without one included.
type TenantCount struct {
	TenantID string
	// Pending counts messages that are neither published nor dead, Dead those
	// that were given up and not discarded.
	Pending, Dead int
	// OldestPending is the age of the oldest message that is due and not
	// published; zero when there is none.
	OldestPending time.Duration
}

// A PausedRoute is a route that delivers nothing until it is resumed.
type PausedRoute struct {
	Route  string
	At     time.Time
	By     string
	Reason string
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
	// Live: it was seen within its own time limit.
	Live bool
	Note RelayNote
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
	Status Status `json:"status,omitempty"`
	// Topic is a pattern of [MatchTopic], or empty.
	Topic    string `json:"topic,omitempty"`
	Key      string `json:"key,omitempty"`
	TenantID string `json:"tenant_id,omitempty"`
	// Reason and Error select dead messages: their dead_reason, and the
	// [Fingerprint] of their last error.
	Reason string `json:"reason,omitempty"`
	Error  string `json:"error,omitempty"`
	// Route selects messages whose last recorded attempt went there.
	Route string `json:"route,omitempty"`
	// Since and Until bound created_at, or dead_at when Status is dead or
	// discarded; Since is inclusive, Until exclusive.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// Before and After page through the result by sequence, exclusively.
	Before int64 `json:"before,omitempty"`
	After  int64 `json:"after,omitempty"`
	// OldestFirst reverses the order.
	OldestFirst bool `json:"oldest_first,omitempty"`
	// Limit is at most MaxPage, and 50 when it is 0.
	Limit int `json:"limit,omitempty"`
}

// Matches reports whether f selects a message as of now, paging aside. It is the one
// definition; where a store filters in SQL, that computes the same. route is where
// the last recorded attempt of the message went.
func (f Filter) Matches(r *Record, route string, now time.Time) bool {
	at := r.CreatedAt
	if f.Status == StatusDead || f.Status == StatusDiscarded {
		at = r.DeadAt
	}
	return (f.Status == "" || r.Status(now) == f.Status) &&
		(f.Key == "" || r.Key == f.Key) &&
		(f.TenantID == "" || r.TenantID == f.TenantID) &&
		(f.Reason == "" || r.DeadReason == f.Reason) &&
		(f.Route == "" || route == f.Route) &&
		(f.Since.IsZero() || !at.Before(f.Since)) &&
		(f.Until.IsZero() || at.Before(f.Until)) &&
		(f.Topic == "" || MatchTopic(f.Topic, r.Topic)) &&
		(f.Error == "" || Fingerprint(r.LastError) == f.Error)
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
