package wire_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/wire"
)

func full() outbox.Meta {
	return outbox.Meta{
		Table: "shop.outbox", TenantID: "mandant ü", Topic: "shop.order.placed.v1", Key: "ключ 100%",
		EventID: uuid.MustParse("018f4c2e-0000-7000-8000-000000000001"), Sequence: 9, Attempts: 2, Replays: 1,
		AggregateType: "order", AggregateID: "7", EventType: "order placed", EventVersion: 3,
		ContentType: "application/json", Headers: map[string]string{"x-a": "b", "ce_id": "1", "cloudEvents_id": "2"},
		TraceParent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", TraceState: "vendor=1",
		CreatedAt: time.Date(2026, 11, 15, 4, 31, 0, 123456000, time.UTC),
	}
}

func TestWhatIsWrittenComesBack(t *testing.T) {
	meta := full()
	headers, err := wire.Headers(&meta)
	if err != nil {
		t.Fatal(err)
	}

	msg, err := wire.Parse(headers, []byte(`{"n":1}`))

	if err != nil || !reflect.DeepEqual(msg.Meta, meta) || string(msg.Payload) != `{"n":1}` {
		t.Errorf("got %+v, %v\nwant %+v", msg, err, meta)
	}
}

func TestEveryTextComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		meta := full()
		meta.Key, meta.TenantID = rapid.String().Draw(t, "key"), rapid.String().Draw(t, "tenant")
		headers, err := wire.Headers(&meta)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range headers {
			if strings.ContainsAny(h.Value, "\r\n\x00") {
				t.Fatalf("%s is %q", h.Name, h.Value)
			}
		}
		msg, err := wire.Parse(headers, nil)
		if err != nil || msg.Meta.Key != meta.Key || msg.Meta.TenantID != meta.TenantID {
			t.Fatalf("key %q tenant %q, %v", msg.Meta.Key, msg.Meta.TenantID, err)
		}
	})
}

func TestWhatCannotBeSentIsRefusedForGood(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*outbox.Meta)
		want   error
	}{
		"no event id":              {func(m *outbox.Meta) { m.EventID = uuid.Nil }, outbox.ErrInvalidMessage},
		"no topic":                 {func(m *outbox.Meta) { m.Topic = "" }, outbox.ErrInvalidTopic},
		"a topic with a line":      {func(m *outbox.Meta) { m.Topic = "a\nb" }, outbox.ErrInvalidTopic},
		"a topic too long":         {func(m *outbox.Meta) { m.Topic = strings.Repeat("a", 256) }, outbox.ErrInvalidTopic},
		"a header with a line":     {func(m *outbox.Meta) { m.Headers = map[string]string{"x": "a\r\nb: c"} }, outbox.ErrInvalidHeader},
		"a name with a line":       {func(m *outbox.Meta) { m.Headers = map[string]string{"x\r\ny": "a"} }, outbox.ErrInvalidHeader},
		"one of our names":         {func(m *outbox.Meta) { m.Headers = map[string]string{wire.EventID: "a"} }, outbox.ErrInvalidHeader},
		"a header of the protocol": {func(m *outbox.Meta) { m.Headers = map[string]string{"authorization": "a"} }, outbox.ErrInvalidHeader},
		"headers too long": {
			func(m *outbox.Meta) { m.Headers = map[string]string{"x": strings.Repeat("a", 8<<10)} }, outbox.ErrInvalidHeader,
		},
		"a content type with a line": {func(m *outbox.Meta) { m.ContentType = "a\nb" }, outbox.ErrInvalidMessage},
	} {
		t.Run(name, func(t *testing.T) {
			meta := full()
			tt.change(&meta)
			if _, err := wire.Headers(&meta); !errors.Is(err, tt.want) || !outbox.IsPermanent(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestAMalformedTraceIsLeftOut(t *testing.T) {
	meta := full()
	meta.TraceParent = "a\nb"
	headers, err := wire.Headers(&meta)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		if h.Name == wire.TraceParent || h.Name == wire.TraceState {
			t.Errorf("sent %v", h)
		}
	}
}

func TestADeliveryOfOthersIsAnError(t *testing.T) {
	for name, headers := range map[string][]wire.Header{
		"no event id":   {{Name: "x", Value: "y"}},
		"a bad id":      {{Name: wire.EventID, Value: "7"}},
		"a bad version": {{Name: wire.EventID, Value: uuid.NewString()}, {Name: wire.Version, Value: "one"}},
	} {
		if _, err := wire.Parse(headers, nil); err == nil {
			t.Errorf("%s is no error", name)
		}
	}
}
