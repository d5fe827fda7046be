// Package wire is the one mapping between a message and the headers that travel with
// it, in both directions. Every sink writes these names and every parser reads them,
// so a consumer can move from one broker to another.
//
// What is written comes back as it was: values are percent-encoded where a header
// could not hold them. A message that cannot be sent safely is refused, whoever wrote
// its row; nothing is dropped or rewritten in silence but a malformed trace.
package wire

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

// The names of the headers.
const (
	EventID       = "outbox-event-id"
	DedupID       = "outbox-id"
	Table         = "outbox-table"
	Topic         = "outbox-topic"
	Key           = "outbox-key"
	Tenant        = "outbox-tenant"
	Sequence      = "outbox-sequence"
	Attempt       = "outbox-attempt"
	Replay        = "outbox-replay"
	AggregateType = "outbox-aggregate-type"
	AggregateID   = "outbox-aggregate-id"
	Type          = "outbox-type"
	Version       = "outbox-version"
	Created       = "outbox-created"
	ContentType   = "content-type"
	TraceParent   = "traceparent"
	TraceState    = "tracestate"
)

const (
	maxTopic   = 255
	maxName    = 64
	maxHeaders = 8 << 10 // bytes of the message's own, as at Enqueue

	defaultContentType = "application/json"
)

// A Header is one name and its value.
type Header struct{ Name, Value string }

// Headers returns what travels with a message: its metadata and then its own headers,
// each in a fixed order. Its errors name the field; they are permanent.
func Headers(m *outbox.Meta) ([]Header, error) {
	if m.EventID == uuid.Nil {
		return nil, outbox.Permanent(outbox.ErrInvalidMessage.With("event_id", "is missing; receivers deduplicate on it"))
	}
	if err := CheckTopic(m.Topic); err != nil {
		return nil, err
	}
	contentType := m.ContentType
	if contentType == "" {
		contentType = defaultContentType
	}
	if !isText(contentType) {
		return nil, outbox.Permanent(outbox.ErrInvalidMessage.With("content_type", "holds control characters"))
	}
	own, err := ownHeaders(m.Headers)
	if err != nil {
		return nil, err
	}
	return append(metaHeaders(m, contentType, len(own)), own...), nil
}

func metaHeaders(m *outbox.Meta, contentType string, room int) []Header {
	all := make([]Header, 0, 17+room)
	add := func(name, value string) {
		if value != "" {
			all = append(all, Header{name, value})
		}
	}
	add(EventID, m.EventID.String())
	add(DedupID, m.DedupID())
	add(ContentType, contentType)
	add(Table, Escape(m.Table))
	add(Topic, m.Topic)
	add(Key, Escape(m.Key))
	add(Tenant, Escape(m.TenantID))
	add(Sequence, strconv.FormatInt(m.Sequence, 10))
	add(Attempt, strconv.Itoa(m.Attempts))
	add(Replay, positive(m.Replays))
	add(AggregateType, Escape(m.AggregateType))
	add(AggregateID, Escape(m.AggregateID))
	add(Type, Escape(m.EventType))
	add(Version, positive(m.EventVersion))
	if !m.CreatedAt.IsZero() {
		add(Created, m.CreatedAt.UTC().Format(time.RFC3339Nano))
	}
	// A trace that cannot be sent is not worth a message.
	if isText(m.TraceParent) && isText(m.TraceState) {
		add(TraceParent, m.TraceParent)
		if m.TraceParent != "" {
			add(TraceState, m.TraceState)
		}
	}
	return all
}

func positive(n int) string {
	if n <= 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// CheckTopic refuses what no broker should be asked for. Its error is permanent.
func CheckTopic(topic string) error {
	if topic == "" || len(topic) > maxTopic {
		return outbox.Permanent(outbox.ErrInvalidTopic.With("topic", fmt.Sprintf("has %d bytes, want 1 to %d", len(topic), maxTopic)))
	}
	for i := range len(topic) {
		if c := topic[i]; c <= ' ' || c >= 0x7f {
			return outbox.Permanent(outbox.ErrInvalidTopic.With("topic", "may only hold printable ASCII without spaces"))
		}
	}
	return nil
}

// reserved are names that a message must not set: they are ours, or a protocol's.
var reserved = map[string]bool{
	ContentType: true, TraceParent: true, TraceState: true,
	"host": true, "content-length": true, "content-encoding": true, "transfer-encoding": true,
	"connection": true, "keep-alive": true, "upgrade": true, "te": true, "trailer": true, "expect": true,
	"accept-encoding": true, "authorization": true, "cookie": true, "set-cookie": true,
}

var reservedPrefixes = [...]string{"outbox-", "webhook-", "proxy-", "nats-"}

// cloudEvents is how an envelope names its attributes for AMQP: the only capital
// letter there is.
const cloudEvents = "cloudEvents_"

func ownHeaders(headers map[string]string) ([]Header, error) {
	own := make([]Header, 0, len(headers))
	total := 0
	for name, value := range headers {
		total += len(name) + len(value)
		switch {
		case !isName(name):
			return nil, badHeader(fmt.Sprintf("name %.80q cannot be sent", name))
		case isReserved(name):
			return nil, badHeader(fmt.Sprintf("name %q is reserved", name))
		case !isText(value):
			return nil, badHeader(fmt.Sprintf("value of %q holds control characters", name))
		}
		own = append(own, Header{name, value})
	}
	if total > maxHeaders {
		return nil, badHeader(fmt.Sprintf("are %d bytes together, at most %d are allowed", total, maxHeaders))
	}
	slices.SortFunc(own, func(a, b Header) int { return strings.Compare(a.Name, b.Name) })
	return own, nil
}

func badHeader(detail string) error {
	return outbox.Permanent(outbox.ErrInvalidHeader.With("headers", detail))
}

func isReserved(name string) bool {
	if reserved[name] {
		return true
	}
	for _, p := range reservedPrefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

func isName(name string) bool {
	rest := strings.TrimPrefix(name, cloudEvents)
	return rest != "" && len(name) <= maxName && strings.Trim(rest, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == ""
}

// isText reports whether a value may be a header's: UTF-8 without control characters.
func isText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// Escape makes any text a header value that arrives as it was: percent-encoded as
// CloudEvents does it, which leaves printable ASCII readable.
func Escape(s string) string {
	if !strings.ContainsFunc(s, mustEscape) {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; mustEscape(rune(c)) {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func mustEscape(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '%' }

// Parse is the way back: the message that travelled with these headers. Names are
// compared in lower case; what is not ours is a header of the message. A delivery
// without an event id is not one of ours and an error.
func Parse(headers []Header, payload []byte) (outbox.DispatchedMessage, error) {
	msg := outbox.DispatchedMessage{Payload: payload}
	for _, h := range headers {
		if err := set(&msg.Meta, strings.ToLower(h.Name), h); err != nil {
			return outbox.DispatchedMessage{}, fmt.Errorf("header %s: %w", h.Name, err)
		}
	}
	if msg.Meta.EventID == uuid.Nil {
		return outbox.DispatchedMessage{}, outbox.ErrInvalidMessage.With(EventID, "is missing: not a message of an outbox")
	}
	return msg, nil
}

func set(m *outbox.Meta, name string, h Header) (err error) {
	switch name {
	case EventID:
		m.EventID, err = uuid.Parse(h.Value)
	case DedupID: // made of the event id and the replays
	case ContentType:
		m.ContentType = h.Value
	case Table:
		m.Table, err = url.PathUnescape(h.Value)
	case Topic:
		m.Topic = h.Value
	case Key:
		m.Key, err = url.PathUnescape(h.Value)
	case Tenant:
		m.TenantID, err = url.PathUnescape(h.Value)
	case Sequence:
		m.Sequence, err = strconv.ParseInt(h.Value, 10, 64)
	case Attempt:
		m.Attempts, err = strconv.Atoi(h.Value)
	case Replay:
		m.Replays, err = strconv.Atoi(h.Value)
	case AggregateType:
		m.AggregateType, err = url.PathUnescape(h.Value)
	case AggregateID:
		m.AggregateID, err = url.PathUnescape(h.Value)
	case Type:
		m.EventType, err = url.PathUnescape(h.Value)
	case Version:
		m.EventVersion, err = strconv.Atoi(h.Value)
	case Created:
		m.CreatedAt, err = time.Parse(time.RFC3339Nano, h.Value)
	case TraceParent:
		m.TraceParent = h.Value
	case TraceState:
		m.TraceState = h.Value
	default:
		if m.Headers == nil {
			m.Headers = map[string]string{}
		}
		m.Headers[h.Name] = h.Value
	}
	return err
}
