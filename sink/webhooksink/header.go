package webhooksink

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/webhook"
)

const (
	maxTopic   = 255
	maxName    = 64
	maxHeaders = 8 << 10 // bytes of the message's own, as at Enqueue
)

// header makes the headers of a request. It refuses what Enqueue would have refused:
// others may have written the row.
func (s *Sink) header(msg *outbox.DispatchedMessage, now time.Time) (http.Header, error) {
	m := &msg.Meta
	if m.EventID == uuid.Nil {
		return nil, outbox.ErrInvalidMessage.With("event_id", "is missing; receivers deduplicate on it")
	}
	if err := checkTopic(m.Topic); err != nil {
		return nil, err
	}
	contentType := m.ContentType
	if contentType == "" {
		contentType = "application/json"
	}
	if !isText(contentType) {
		return nil, outbox.ErrInvalidMessage.With("content_type", "holds control characters")
	}
	h := make(http.Header, 16+len(m.Headers))
	if err := addHeaders(h, m.Headers); err != nil {
		return nil, err
	}
	signature, err := webhook.Sign(m.DedupID(), now, msg.Payload, s.secrets...)
	if err != nil {
		return nil, err
	}
	h.Set(webhook.HeaderID, m.DedupID())
	h.Set(webhook.HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
	h.Set(webhook.HeaderSignature, signature)
	h.Set("Content-Type", contentType)
	h.Set("Accept-Encoding", "identity")
	if h.Get("User-Agent") == "" {
		h.Set("User-Agent", "outbox")
	}
	addMeta(h, m)
	return h, nil
}

func addMeta(h http.Header, m *outbox.Meta) {
	for _, f := range [...]struct{ name, value string }{
		{"outbox-event-id", m.EventID.String()},
		{"outbox-topic", m.Topic},
		{"outbox-sequence", strconv.FormatInt(m.Sequence, 10)},
		{"outbox-attempt", strconv.Itoa(m.Attempts)},
		{"outbox-tenant", escape(m.TenantID)},
		{"outbox-key", escape(m.Key)},
		{"outbox-type", escape(m.EventType)},
	} {
		if f.value != "" {
			h.Set(f.name, f.value)
		}
	}
	if m.EventVersion > 0 {
		h.Set("outbox-version", strconv.Itoa(m.EventVersion))
	}
	// A trace that cannot be sent is not worth a message.
	if m.TraceParent != "" && isText(m.TraceParent) && isText(m.TraceState) {
		h.Set("Traceparent", m.TraceParent)
		if m.TraceState != "" {
			h.Set("Tracestate", m.TraceState)
		}
	}
}

func checkTopic(topic string) error {
	if topic == "" || len(topic) > maxTopic {
		return outbox.ErrInvalidTopic.With("topic", fmt.Sprintf("has %d bytes, want 1 to %d", len(topic), maxTopic))
	}
	for i := range len(topic) {
		if c := topic[i]; c <= ' ' || c >= 0x7f {
			return outbox.ErrInvalidTopic.With("topic", "may only hold printable ASCII without spaces")
		}
	}
	return nil
}

// ours are headers that a message must not set: they are this sink's, or they change
// how the request is sent.
var ours = map[string]bool{
	"host": true, "content-length": true, "content-type": true, "content-encoding": true, "transfer-encoding": true,
	"connection": true, "keep-alive": true, "upgrade": true, "te": true, "trailer": true, "expect": true,
	"accept-encoding": true, "authorization": true, "cookie": true, "set-cookie": true,
	"traceparent": true, "tracestate": true,
}

var ourPrefixes = [...]string{"outbox-", "webhook-", "proxy-"}

func addHeaders(h http.Header, headers map[string]string) error {
	total := 0
	for name, value := range headers {
		total += len(name) + len(value)
		switch {
		case !isName(name):
			return outbox.ErrInvalidHeader.With("headers", fmt.Sprintf("name %.80q cannot be sent", name))
		case isOurs(name):
			return outbox.ErrInvalidHeader.With("headers", fmt.Sprintf("name %q is reserved", name))
		case !isText(value):
			return outbox.ErrInvalidHeader.With("headers", fmt.Sprintf("value of %q holds control characters", name))
		}
		h.Set(name, value)
	}
	if total > maxHeaders {
		return outbox.ErrInvalidHeader.With("headers", fmt.Sprintf("are %d bytes together, at most %d are allowed", total, maxHeaders))
	}
	return nil
}

func isOurs(name string) bool {
	if ours[name] {
		return true
	}
	for _, p := range ourPrefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

func isName(name string) bool {
	return name != "" && len(name) <= maxName && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == ""
}

// isText reports whether a value may be a header's: UTF-8 without control characters.
func isText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// escape makes any text a header value that arrives as it was: percent-encoded as
// CloudEvents does it, which leaves printable ASCII readable. url.PathUnescape is the
// way back.
func escape(s string) string {
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
