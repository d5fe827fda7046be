package sink_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/sink"
)

func ordered() outbox.DispatchedMessage {
	return outbox.DispatchedMessage{
		Meta: outbox.Meta{
			Table: "shop_outbox", Topic: "shop.order.placed.v1", Key: "order-7", EventID: uuid.New(), Replays: 1,
			AggregateType: "order", AggregateID: "7", EventType: "com.example.order.placed", EventVersion: 3,
			Headers:     map[string]string{"x-a": "b", "ce-id": "forged", "ce_id": "forged", "ce-extra": "forged"},
			TraceParent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", TraceState: "vendor=1",
			CreatedAt: time.Date(2026, 11, 15, 4, 31, 0, 123456000, time.FixedZone("", 3600)),
		},
		Payload: []byte(` {"b" : 1, "a": "<&>\u00e9", "b": 1.0e+2} `),
	}
}

// parse reads a message with the CloudEvents SDK, as it would arrive over HTTP.
func parse(t *testing.T, msg outbox.DispatchedMessage) *event.Event {
	t.Helper()
	header := http.Header{"Content-Type": {msg.Meta.ContentType}}
	for name, value := range msg.Meta.Headers {
		header.Set(name, value)
	}
	e, err := binding.ToEvent(t.Context(), cehttp.NewMessage(header, io.NopCloser(bytes.NewReader(msg.Payload))))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Validate(); err != nil {
		t.Fatalf("not a valid event: %v", err)
	}
	return e
}

func TestTheCloudEventsSDKReadsWhatWeWrite(t *testing.T) {
	for _, format := range []sink.Format{sink.Binary, sink.Structured} {
		t.Run(string(format), func(t *testing.T) {
			msg := ordered()
			wrapped, err := sink.Envelope{Format: format, Source: "https://shop.example/orders"}.Wrap(msg)
			if err != nil {
				t.Fatal(err)
			}

			e := parse(t, wrapped)

			for name, pair := range map[string][2]string{
				"specversion":     {e.SpecVersion(), "1.0"},
				"id":              {e.ID(), msg.Meta.EventID.String()},
				"source":          {e.Source(), "https://shop.example/orders"},
				"type":            {e.Type(), "com.example.order.placed"},
				"subject":         {e.Subject(), "7"},
				"datacontenttype": {e.DataContentType(), "application/json"},
			} {
				if pair[0] != pair[1] {
					t.Errorf("%s is %q, want %q", name, pair[0], pair[1])
				}
			}
			if !e.Time().Equal(msg.Meta.CreatedAt) {
				t.Errorf("time is %s, want %s", e.Time(), msg.Meta.CreatedAt)
			}
			for name, want := range map[string]string{
				"partitionkey": "order-7", "eventversion": "3", "traceparent": msg.Meta.TraceParent, "tracestate": "vendor=1",
			} {
				if got := e.Extensions()[name]; got != want {
					t.Errorf("%s is %v, want %q", name, got, want)
				}
			}
			// The SDK keeps the bytes of data, less the white space around it.
			if got, want := strings.TrimSpace(string(e.Data())), strings.TrimSpace(string(msg.Payload)); got != want {
				t.Errorf("data is %s, want %s", got, want)
			}
			if got := e.Extensions()["extra"]; got != nil {
				t.Errorf("a header of the message became the attribute extra=%v", got)
			}
			if wrapped.Meta.Headers["x-a"] != "b" || msg.Meta.Headers["ce-id"] != "forged" {
				t.Error("the message's own headers changed")
			}
		})
	}
}

func TestAJSONPayloadIsInTheEnvelopeByteForByte(t *testing.T) {
	msg := ordered()
	wrapped, err := sink.Envelope{Format: sink.Structured}.Wrap(msg)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(wrapped.Payload, msg.Payload) || !json.Valid(wrapped.Payload) {
		t.Errorf("got %s", wrapped.Payload)
	}
	if wrapped.Meta.ContentType != "application/cloudevents+json" {
		t.Errorf("content type %q", wrapped.Meta.ContentType)
	}
}

func TestOtherPayloadsTravelToo(t *testing.T) {
	for name, tt := range map[string]struct{ contentType, payload string }{
		"binary":               {"application/octet-stream", "\x00\xff\xfe"},
		"text":                 {"text/plain", `say "hi"`},
		"not the JSON it said": {"application/json", `{"a":`},
		"empty":                {"application/octet-stream", ""},
	} {
		for _, format := range []sink.Format{sink.Binary, sink.Structured} {
			t.Run(name+" "+string(format), func(t *testing.T) {
				msg := ordered()
				msg.Meta.ContentType, msg.Payload = tt.contentType, []byte(tt.payload)
				wrapped, err := sink.Envelope{Format: format}.Wrap(msg)
				if err != nil {
					t.Fatal(err)
				}

				e := parse(t, wrapped)

				if string(e.Data()) != tt.payload || e.DataContentType() != tt.contentType {
					t.Errorf("data %q of %s", e.Data(), e.DataContentType())
				}
			})
		}
	}
}

func TestAMessageWithTheLeastIsAValidEvent(t *testing.T) {
	for _, format := range []sink.Format{sink.Binary, sink.Structured} {
		msg := outbox.DispatchedMessage{Meta: outbox.Meta{Topic: "t", Table: "my table", EventID: uuid.New()}, Payload: []byte("1")}
		wrapped, err := sink.Envelope{Format: format}.Wrap(msg)
		if err != nil {
			t.Fatal(err)
		}
		// The SDK does not decode the percent-encoding of binary mode.
		e := parse(t, wrapped)
		if e.Type() != "t" || strings.ReplaceAll(e.Source(), "%25", "%") != "/outbox/my%20table" {
			t.Errorf("%s: type %q, source %q", format, e.Type(), e.Source())
		}
	}
}

func TestAttributesAreWrittenAsTheBindingWants(t *testing.T) {
	msg := ordered()
	msg.Meta.Key = "ключ 100%"
	for _, tt := range []struct {
		binding sink.Binding
		name    string
		want    string
	}{
		{"", "ce-partitionkey", "%D0%BA%D0%BB%D1%8E%D1%87%20100%25"},
		{sink.HTTP, "ce-partitionkey", "%D0%BA%D0%BB%D1%8E%D1%87%20100%25"},
		{sink.Kafka, "ce_partitionkey", msg.Meta.Key},
		{sink.AMQP, "cloudEvents_partitionkey", msg.Meta.Key},
	} {
		wrapped, err := sink.Envelope{Format: sink.Binary, Binding: tt.binding}.Wrap(msg)
		if err != nil {
			t.Fatal(err)
		}
		if got := wrapped.Meta.Headers[tt.name]; got != tt.want {
			t.Errorf("%s: %s is %q, want %q", tt.binding, tt.name, got, tt.want)
		}
	}
	if got, err := url.PathUnescape("%D0%BA%D0%BB%D1%8E%D1%87%20100%25"); err != nil || got != msg.Meta.Key {
		t.Errorf("it decodes to %q, %v", got, err)
	}
}

func TestRawIsTheMessageAsItIs(t *testing.T) {
	for _, format := range []sink.Format{"", sink.Raw} {
		msg := ordered()
		wrapped, err := sink.Envelope{Format: format}.Wrap(msg)
		if err != nil || &wrapped.Payload[0] != &msg.Payload[0] || wrapped.Meta.ContentType != "" {
			t.Errorf("got %+v, %v", wrapped, err)
		}
	}
	if _, err := (sink.Envelope{Format: "soap"}).Wrap(ordered()); err == nil {
		t.Error("an unknown format is no error")
	}
}

func TestARouteWrapsBeforeItRenames(t *testing.T) {
	m := &memory{}
	r := newRouter(t, sink.Route{
		Name: "a", Topics: []string{"**"}, Sink: m, Topic: "all-events", Envelope: sink.Envelope{Format: sink.Binary},
	})

	if err := r.Dispatch(t.Context(), message("shop.order.placed.v1")); err != nil {
		t.Fatal(err)
	}

	if got := m.got[0].Meta; got.Topic != "all-events" || got.Headers["ce-type"] != "shop.order.placed.v1" {
		t.Errorf("topic %q, type %q", got.Topic, got.Headers["ce-type"])
	}
}
