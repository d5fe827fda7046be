package sink

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/wire"
)

// A Format is a kind of envelope.
type Format string

const (
	// Raw is no envelope: the payload as it is. The zero Format means the same.
	Raw Format = "raw"
	// Binary is CloudEvents 1.0 in binary mode: attributes as headers, the
	// payload as it is.
	Binary Format = "cloudevents-binary"
	// Structured is CloudEvents 1.0 in structured mode: one JSON object that
	// holds attributes and payload. A JSON payload is in it byte for byte, any
	// other as base64.
	Structured Format = "cloudevents-structured"
)

// A Binding says how a protocol writes the attributes of Binary.
type Binding string

const (
	// HTTP writes ce-id and so on, percent-encoded. NATS does the same. The zero
	// Binding means HTTP.
	HTTP Binding = "http"
	// Kafka writes ce_id and so on.
	Kafka Binding = "kafka"
	// AMQP writes cloudEvents_id and so on.
	AMQP Binding = "amqp"
)

var prefixes = map[Binding]string{"": "ce-", HTTP: "ce-", Kafka: "ce_", AMQP: "cloudEvents_"}

// An Envelope is what a route puts around its messages. The zero value is none. The
// attributes of a message are the same on every delivery: id is the event id, type
// the event type or else the topic, subject the aggregate's id, partitionkey the key,
// eventversion the event version as text, and the trace context is that of the
// distributed tracing extension.
type Envelope struct {
	Format  Format
	Binding Binding
	// Source is the CloudEvents source, a URI reference that names where the
	// events come from. Defaults to /outbox/TABLE.
	Source string
}

func (e Envelope) validate() error {
	switch e.Format {
	case "", Raw, Binary, Structured:
	default:
		return fmt.Errorf("envelope: format is %q, want %s, %s or %s", e.Format, Raw, Binary, Structured)
	}
	if _, ok := prefixes[e.Binding]; !ok {
		return fmt.Errorf("envelope: binding is %q, want %s, %s or %s", e.Binding, HTTP, Kafka, AMQP)
	}
	if _, err := url.Parse(e.Source); err != nil || !isTopic(e.Source) {
		return fmt.Errorf("envelope: source is not a URI reference")
	}
	return nil
}

// Wrap returns msg in the envelope. The message it is given keeps its headers and
// payload.
func (e Envelope) Wrap(msg outbox.DispatchedMessage) (outbox.DispatchedMessage, error) {
	err := e.wrap(&msg)
	return msg, err
}

func (e Envelope) wrap(msg *outbox.DispatchedMessage) error {
	switch e.Format {
	case "", Raw:
		return nil
	case Binary:
		return e.binary(msg)
	case Structured:
		return e.structured(msg)
	}
	return e.validate()
}

const defaultContentType = "application/json"

func (e Envelope) binary(msg *outbox.DispatchedMessage) error {
	headers := maps.Clone(msg.Meta.Headers)
	if headers == nil {
		headers = map[string]string{}
	}
	prefix := prefixes[e.Binding]
	// Attributes are the envelope's alone, whoever wrote the row.
	maps.DeleteFunc(headers, func(name, _ string) bool { return strings.HasPrefix(name, prefix) })
	for _, a := range e.attributes(&msg.Meta) {
		if prefix == prefixes[HTTP] {
			a.value = wire.Escape(a.value)
		}
		headers[prefix+a.name] = a.value
	}
	msg.Meta.Headers = headers
	if msg.Meta.ContentType == "" { // it is the datacontenttype
		msg.Meta.ContentType = defaultContentType
	}
	return nil
}

func (e Envelope) structured(msg *outbox.DispatchedMessage) error {
	b := make([]byte, 0, 512+len(msg.Payload)*4/3)
	b = append(b, '{')
	contentType := msg.Meta.ContentType
	if contentType == "" {
		contentType = defaultContentType
	}
	for _, a := range append(e.attributes(&msg.Meta), attribute{"datacontenttype", contentType}) {
		value, err := json.Marshal(a.value)
		if err != nil {
			return fmt.Errorf("envelope: %w", err)
		}
		b = append(append(append(append(b, '"'), a.name...), `":`...), value...)
		b = append(b, ',')
	}
	switch {
	case outbox.IsJSON(contentType) && utf8.Valid(msg.Payload) && json.Valid(msg.Payload):
		b = append(append(b, `"data":`...), msg.Payload...) // spliced in: a marshaller would rewrite it
	default:
		b = append(b, `"data_base64":"`...)
		b = append(base64.StdEncoding.AppendEncode(b, msg.Payload), '"')
	}
	b = append(b, '}')
	msg.Payload = b
	msg.Meta.ContentType = "application/cloudevents+json"
	return nil
}

type attribute struct{ name, value string }

// attributes are those of a message, in the order of the specification. Empty ones
// are left out, as it wants.
func (e Envelope) attributes(m *outbox.Meta) []attribute {
	source := e.Source
	if source == "" {
		source = (&url.URL{Path: "/outbox/" + m.Table}).EscapedPath()
	}
	kind := m.EventType
	if kind == "" {
		kind = m.Topic
	}
	all := []attribute{
		{"specversion", "1.0"},
		{"id", m.EventID.String()},
		{"source", source},
		{"type", kind},
		{"subject", m.AggregateID},
		{"time", timestamp(m.CreatedAt)},
		{"partitionkey", m.Key},
		{"eventversion", version(m.EventVersion)},
		{"traceparent", m.TraceParent},
		{"tracestate", m.TraceState},
	}
	set := all[:0]
	for _, a := range all {
		if a.value != "" {
			set = append(set, a)
		}
	}
	return set
}

func version(v int) string {
	if v == 0 {
		return ""
	}
	return strconv.Itoa(v)
}

func timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
