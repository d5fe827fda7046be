package outbox

import (
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
)

// DefaultMaxPayload is the payload limit of a zero Gate.
const DefaultMaxPayload = 1 << 20

const (
	maxKey     = 1024
	maxShort   = 255 // tenant, aggregate, type, content type
	maxHeaders = 8 << 10
	maxTrace   = 512
)

// A Gate is what every message passes before SQL: validation, topic policy,
// contract check, trace capture and the enqueue hook. It is a field of each store's
// Config and works the same for all of them. The zero value is strict and ready.
type Gate struct {
	// Topics decides which topics may be enqueued. Defaults to StrictTopics.
	Topics TopicPolicy
	// MaxPayload bounds the payload in bytes. Defaults to 1 MiB.
	MaxPayload int
	// Check is the contract check: it may refuse a message. Optional.
	Check func(ctx context.Context, msg *Message) error
	// Trace takes the W3C trace context from ctx. Optional.
	Trace func(ctx context.Context) (traceparent, tracestate string)
	// Enqueued runs after a message has passed the gate, before its transaction
	// commits: it counts enqueues, also those that are rolled back later. It
	// must not block. Optional.
	Enqueued func(ctx context.Context, table, topic string)
}

// Admit validates msg and returns it complete: event id, version and trace context
// filled in. An empty content type stays empty and means JSON. On an error nothing
// has been written and the error names the field.
func (g Gate) Admit(ctx context.Context, table string, msg Message) (Message, error) {
	if err := g.check(msg); err != nil {
		return Message{}, err
	}
	if msg.EventID == uuid.Nil {
		id, err := uuid.NewV7()
		if err != nil {
			return Message{}, fmt.Errorf("make event id: %w", err)
		}
		msg.EventID = id
	}
	if msg.EventVersion == 0 {
		msg.EventVersion = topicVersion(msg.Topic)
	}
	if msg.TraceParent == "" && g.Trace != nil {
		parent, state := g.Trace(ctx)
		if checkText(parent, maxTrace) == "" && checkText(state, maxTrace) == "" {
			msg.TraceParent, msg.TraceState = parent, state
		}
	}
	if g.Check != nil {
		if err := g.Check(ctx, &msg); err != nil {
			return Message{}, err
		}
	}
	if g.Enqueued != nil {
		g.Enqueued(ctx, table, msg.Topic)
	}
	return msg, nil
}

func (g Gate) check(msg Message) error {
	if err := checkTopic(msg.Topic); err != nil {
		return err
	}
	topics := g.Topics
	if topics == nil {
		topics = StrictTopics
	}
	if err := topics(msg.Topic); err != nil {
		return err
	}
	if reason := checkText(msg.Key, maxKey); reason != "" {
		return ErrInvalidKey.With("key", reason)
	}
	if msg.EventVersion < 0 {
		return ErrInvalidMessage.With("event_version", "must not be negative")
	}
	if err := checkShort(msg); err != nil {
		return err
	}
	if err := checkHeaders(msg.Headers); err != nil {
		return err
	}
	return g.checkPayload(msg)
}

func checkShort(msg Message) error {
	for _, f := range [...]struct{ name, value string }{
		{"tenant_id", msg.TenantID},
		{"aggregate_type", msg.AggregateType},
		{"aggregate_id", msg.AggregateID},
		{"event_type", msg.EventType},
		{"content_type", msg.ContentType},
	} {
		if reason := checkText(f.value, maxShort); reason != "" {
			return ErrInvalidMessage.With(f.name, reason)
		}
	}
	for _, f := range [...]struct{ name, value string }{
		{"traceparent", msg.TraceParent},
		{"tracestate", msg.TraceState},
	} {
		if reason := checkText(f.value, maxTrace); reason != "" {
			return ErrInvalidMessage.With(f.name, reason)
		}
	}
	return nil
}

func (g Gate) checkPayload(msg Message) error {
	limit := g.MaxPayload
	if limit == 0 {
		limit = DefaultMaxPayload
	}
	switch {
	case len(msg.Payload) == 0:
		return ErrInvalidPayload.With("payload", "is empty")
	case len(msg.Payload) > limit:
		return ErrPayloadTooLarge.With("payload", fmt.Sprintf(
			"is %d bytes, the limit is %d; store large data elsewhere and send a reference", len(msg.Payload), limit))
	case !IsJSON(msg.ContentType):
		return nil
	case !utf8.Valid(msg.Payload):
		return ErrInvalidPayload.With("payload", "is not valid UTF-8; set content_type for binary data")
	case !json.Valid(msg.Payload):
		return ErrInvalidPayload.With("payload", "is not valid JSON; set content_type for other formats")
	}
	return nil
}

// IsJSON reports whether a content type promises JSON. Empty means JSON.
func IsJSON(contentType string) bool {
	if contentType == "" || contentType == "application/json" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" || strings.HasSuffix(media, "+json"))
}

// checkText says what is wrong with a text field, or "".
func checkText(s string, limit int) string {
	if len(s) > limit {
		return fmt.Sprintf("is %d bytes long, at most %d are allowed", len(s), limit)
	}
	for _, r := range s {
		switch {
		case r == utf8.RuneError && !utf8.ValidString(s):
			return "is not valid UTF-8"
		case r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0):
			return fmt.Sprintf("holds the control character %U", r)
		}
	}
	return ""
}

// reserved header names belong to the product or to a transport: an event must not
// be able to set them.
var reserved = map[string]bool{
	"host": true, "content-length": true, "content-type": true, "transfer-encoding": true, "connection": true,
	"authorization": true, "proxy-authorization": true, "cookie": true, "set-cookie": true,
	"traceparent": true, "tracestate": true,
}

var reservedPrefixes = [...]string{"outbox-", "webhook-", "nats-", "ce-", "ce_"}

func checkHeaders(headers map[string]string) error {
	total := 0
	for name, value := range headers {
		total += len(name) + len(value)
		if !headerName(name) {
			return ErrInvalidHeader.With("headers", fmt.Sprintf(
				"name %q: want 1 to 64 lower-case letters, digits, hyphens, underscores or dots", clip(name, 80)))
		}
		if reserved[name] || hasReservedPrefix(name) {
			return ErrInvalidHeader.With("headers", fmt.Sprintf("name %q is reserved", name))
		}
		if reason := checkText(value, maxHeaders); reason != "" {
			return ErrInvalidHeader.With("headers", fmt.Sprintf("value of %q %s", name, reason))
		}
	}
	if total > maxHeaders {
		return ErrInvalidHeader.With("headers", fmt.Sprintf("are %d bytes together, at most %d are allowed", total, maxHeaders))
	}
	return nil
}

func hasReservedPrefix(name string) bool {
	for _, p := range reservedPrefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

func headerName(name string) bool {
	for i := range len(name) {
		c := name[i]
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return name != "" && len(name) <= 64
}
