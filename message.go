package outbox

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// A Message is what an application enqueues. Topic and Payload are required;
// everything else has a sensible zero value. Stores validate and complete it with
// their [Gate] before any SQL runs.
type Message struct {
	// Topic routes the message: by default `module.aggregate.event.vN`.
	Topic string
	// Payload is stored and delivered byte for byte. It must be JSON unless
	// ContentType says otherwise.
	Payload json.RawMessage
	// Key orders messages: those that share a non-empty Key are first delivered
	// in the order they were committed. Empty means no order.
	Key string
	// EventID identifies the event for ever: on retries, replays and in the
	// consumer's deduplication. A UUIDv7 is made when it is zero. Give your own
	// to make the enqueue idempotent.
	EventID uuid.UUID
	// TenantID is audit data, not access control.
	TenantID string
	// AvailableAt delays the first dispatch. Zero means now.
	AvailableAt time.Time
	// Headers travel with the message. Names are lower-case tokens; values hold
	// no control characters.
	Headers map[string]string
	// ContentType defaults to application/json.
	ContentType string

	AggregateType string
	AggregateID   string
	EventType     string
	// EventVersion defaults to the N of a topic that ends in `.vN`.
	EventVersion int

	// TraceParent and TraceState are W3C Trace Context, captured by the gate
	// when they are empty.
	TraceParent string
	TraceState  string
}

// Meta is what a dispatcher learns about a message besides its payload. It is the
// same on every delivery of an event except for Attempts and Replays.
type Meta struct {
	Table    string
	TenantID string
	Topic    string
	Key      string
	EventID  uuid.UUID
	// Sequence is the message's number in its table: a cursor for people, not a
	// business order.
	Sequence int64
	// Attempts counts this dispatch: 1 on the first.
	Attempts int
	// Replays counts how often an operator sent the message again.
	Replays int

	AggregateType string
	AggregateID   string
	EventType     string
	EventVersion  int
	ContentType   string
	Headers       map[string]string
	TraceParent   string
	TraceState    string
	CreatedAt     time.Time
	// Routes are the routes to try now, of a message that goes to several (see
	// [FanOut]); nil for all others.
	Routes []string
}

// DedupID is the id a sink hands to a broker's deduplication window. It is the
// event id, except that a replay gets a fresh one: otherwise the window would
// swallow what an operator asked to be sent again.
func (m *Meta) DedupID() string {
	if m.Replays == 0 {
		return m.EventID.String()
	}
	return m.EventID.String() + "-r" + strconv.Itoa(m.Replays)
}

// OrderingKey is the partition or message key of a broker: the Key, or the event
// id when the message has none.
func (m *Meta) OrderingKey() string {
	if m.Key != "" {
		return m.Key
	}
	return m.EventID.String()
}

// A DispatchedMessage is what the relay hands to a dispatcher. Payload and Headers
// belong to the relay: a dispatcher that keeps them must copy them.
type DispatchedMessage struct {
	Meta    Meta
	Payload json.RawMessage
}
