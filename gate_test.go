package outbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

const topic = "shop.order.placed.v3"

// valid is a message that passes the zero gate, changed by each of edits.
func valid(edits ...func(*outbox.Message)) outbox.Message {
	msg := outbox.Message{Topic: topic, Payload: json.RawMessage(`{"id":1}`)}
	for _, edit := range edits {
		edit(&msg)
	}
	return msg
}

func payload(p string) func(*outbox.Message) {
	return func(m *outbox.Message) { m.Payload = json.RawMessage(p) }
}

func contentType(c string) func(*outbox.Message) {
	return func(m *outbox.Message) { m.ContentType = c }
}

func header(name, value string) func(*outbox.Message) {
	return func(m *outbox.Message) { m.Headers = map[string]string{name: value} }
}

func TestGateRefusesBadInputByNameBeforeAnythingElse(t *testing.T) {
	key := func(k string) func(*outbox.Message) { return func(m *outbox.Message) { m.Key = k } }

	for _, tt := range []struct {
		name  string
		msg   outbox.Message
		want  *outbox.Error
		field string
	}{
		{"nothing at all", outbox.Message{}, outbox.ErrInvalidTopic, "topic"},

		{"NUL in the key", valid(key("a\x00b")), outbox.ErrInvalidKey, "key"},
		{"CR in the key", valid(key("a\rb")), outbox.ErrInvalidKey, "key"},
		{"LF in the key", valid(key("a\nb")), outbox.ErrInvalidKey, "key"},
		{"DEL in the key", valid(key("a\x7f")), outbox.ErrInvalidKey, "key"},
		{"a C1 control in the key", valid(key("a\u0085b")), outbox.ErrInvalidKey, "key"},
		{"a key that is not UTF-8", valid(key("a\xffb")), outbox.ErrInvalidKey, "key"},
		{"a key of 1025 bytes", valid(key(strings.Repeat("k", 1025))), outbox.ErrInvalidKey, "key"},

		{"no payload", valid(payload("")), outbox.ErrInvalidPayload, "payload"},
		{"a payload of white space", valid(payload(" \n")), outbox.ErrInvalidPayload, "payload"},
		{"a payload that is no JSON", valid(payload(`{"id":`)), outbox.ErrInvalidPayload, "payload"},
		{"two JSON documents", valid(payload(`{} {}`)), outbox.ErrInvalidPayload, "payload"},
		{"JSON with a trailing comma", valid(payload(`[1,]`)), outbox.ErrInvalidPayload, "payload"},
		{"JSON with a byte order mark", valid(payload("\ufeff{}")), outbox.ErrInvalidPayload, "payload"},
		{"JSON with a raw NUL", valid(payload("\"a\x00b\"")), outbox.ErrInvalidPayload, "payload"},
		{"JSON that is not UTF-8", valid(payload("\"\xff\xfe\"")), outbox.ErrInvalidPayload, "payload"},
		{"no JSON although it is said to be", valid(payload("a"), contentType("application/json; charset=utf-8")), outbox.ErrInvalidPayload, "payload"},
		{"no JSON although its suffix promises it", valid(payload("a"), contentType("application/cloudevents+json")), outbox.ErrInvalidPayload, "payload"},
		{"an empty binary payload", valid(payload(""), contentType("application/octet-stream")), outbox.ErrInvalidPayload, "payload"},
		{"a payload over 1 MiB", valid(payload(`"` + strings.Repeat("x", 1<<20-1) + `"`)), outbox.ErrPayloadTooLarge, "payload"},
		{"a binary payload over 1 MiB", valid(payload(strings.Repeat("x", 1<<20+1)), contentType("text/plain")), outbox.ErrPayloadTooLarge, "payload"},

		{"an empty header name", valid(header("", "v")), outbox.ErrInvalidHeader, "headers"},
		{"an upper-case header name", valid(header("X-Shop", "v")), outbox.ErrInvalidHeader, "headers"},
		{"a space in a header name", valid(header("x shop", "v")), outbox.ErrInvalidHeader, "headers"},
		{"a colon in a header name", valid(header("x:shop", "v")), outbox.ErrInvalidHeader, "headers"},
		{"NUL in a header name", valid(header("x\x00", "v")), outbox.ErrInvalidHeader, "headers"},
		{"CR LF in a header name", valid(header("x\r\nhost", "v")), outbox.ErrInvalidHeader, "headers"},
		{"a header name of 65 bytes", valid(header(strings.Repeat("x", 65), "v")), outbox.ErrInvalidHeader, "headers"},
		{"a header name of a megabyte", valid(header(strings.Repeat("x", 1<<20), "v")), outbox.ErrInvalidHeader, "headers"},
		{"a header name that is not ASCII", valid(header("größe", "v")), outbox.ErrInvalidHeader, "headers"},
		{"NUL in a header value", valid(header("x", "a\x00")), outbox.ErrInvalidHeader, "headers"},
		{"CR LF in a header value", valid(header("x", "a\r\nhost: evil")), outbox.ErrInvalidHeader, "headers"},
		{"a tab in a header value", valid(header("x", "a\tb")), outbox.ErrInvalidHeader, "headers"},
		{"a header value that is not UTF-8", valid(header("x", "\xc3\x28")), outbox.ErrInvalidHeader, "headers"},
		{"a header value over 8 KiB", valid(header("x", strings.Repeat("v", 8<<10+1))), outbox.ErrInvalidHeader, "headers"},
		{"headers over 8 KiB together", valid(func(m *outbox.Message) {
			m.Headers = map[string]string{"a": strings.Repeat("v", 4<<10), "b": strings.Repeat("v", 4<<10)}
		}), outbox.ErrInvalidHeader, "headers"},

		{"a negative version", valid(func(m *outbox.Message) { m.EventVersion = -1 }), outbox.ErrInvalidMessage, "event_version"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			gate := outbox.Gate{
				Trace:    func(context.Context) (string, string) { t.Error("a trace was taken"); return "", "" },
				Check:    func(context.Context, *outbox.Message) error { t.Error("the contract was checked"); return nil },
				Enqueued: func(context.Context, string, string) { t.Error("it was counted") },
			}

			got, err := gate.Admit(t.Context(), "outbox", tt.msg)

			wantRefusal(t, err, tt.want, tt.field)
			if !reflect.DeepEqual(got, outbox.Message{}) {
				t.Errorf("a refused message was returned: %+v", got)
			}
			if len(err.Error()) > 300 {
				t.Errorf("the error repeats the input: %d bytes", len(err.Error()))
			}
			if strings.ContainsAny(err.Error(), "\r\n\x00") {
				t.Errorf("the error repeats control characters: %q", err)
			}
		})
	}
}

func TestGateRefusesBadTextInEveryField(t *testing.T) {
	fields := map[string]struct {
		set   func(*outbox.Message, string)
		limit int
	}{
		"tenant_id":      {func(m *outbox.Message, s string) { m.TenantID = s }, 255},
		"aggregate_type": {func(m *outbox.Message, s string) { m.AggregateType = s }, 255},
		"aggregate_id":   {func(m *outbox.Message, s string) { m.AggregateID = s }, 255},
		"event_type":     {func(m *outbox.Message, s string) { m.EventType = s }, 255},
		"content_type":   {func(m *outbox.Message, s string) { m.ContentType = s }, 255},
		"traceparent":    {func(m *outbox.Message, s string) { m.TraceParent = s }, 512},
		"tracestate":     {func(m *outbox.Message, s string) { m.TraceState = s }, 512},
	}
	for field, f := range fields {
		for name, bad := range map[string]string{
			"NUL":       "a\x00b",
			"CR LF":     "a\r\nb",
			"ESC":       "a\x1b[31m",
			"not UTF-8": "a\xff",
			"too long":  strings.Repeat("x", f.limit+1),
		} {
			t.Run(field+"/"+name, func(t *testing.T) {
				_, err := outbox.Gate{}.Admit(t.Context(), "outbox", valid(func(m *outbox.Message) { f.set(m, bad) }))
				wantRefusal(t, err, outbox.ErrInvalidMessage, field)
			})
		}
		t.Run(field+"/as long as allowed", func(t *testing.T) {
			msg := valid(func(m *outbox.Message) { f.set(m, strings.Repeat("x", f.limit)) })
			if _, err := (outbox.Gate{}).Admit(t.Context(), "outbox", msg); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestGateReservesTheHeadersOfTransportsAndOfTheProduct(t *testing.T) {
	for _, name := range []string{
		"host", "content-length", "content-type", "transfer-encoding", "connection",
		"authorization", "proxy-authorization", "cookie", "set-cookie", "traceparent", "tracestate",
		"outbox-event-id", "outbox-", "webhook-signature", "nats-msg-id", "ce-id", "ce_id",
	} {
		_, err := outbox.Gate{}.Admit(t.Context(), "outbox", valid(header(name, "v")))
		wantRefusal(t, err, outbox.ErrInvalidHeader, "headers")
		if err != nil && !strings.Contains(err.Error(), "reserved") {
			t.Errorf("%s: %q does not say why", name, err)
		}
	}
	for _, name := range []string{"hosts", "x-host", "outbox", "webhooks", "nats", "cell-id", "ce", "my.header_1"} {
		if _, err := (outbox.Gate{}).Admit(t.Context(), "outbox", valid(header(name, "v"))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestGateAdmitsTheUnusualThatIsAllowed(t *testing.T) {
	for name, msg := range map[string]outbox.Message{
		"a key of 1024 bytes":           valid(func(m *outbox.Message) { m.Key = strings.Repeat("k", 1024) }),
		"a key with spaces and accents": valid(func(m *outbox.Message) { m.Key = "Köln / Süd 🙂" }),
		"a replacement character":       valid(func(m *outbox.Message) { m.Key = "a\uFFFDb" }),
		"JSON null":                     valid(payload(`null`)),
		"a JSON string":                 valid(payload(`"a"`)),
		"JSON in white space":           valid(payload(" {}\n")),
		"JSON with an escaped NUL":      valid(payload(`"a\u0000b"`)),
		"JSON with a lone surrogate":    valid(payload(`"\ud800"`)),
		"a number no float can hold":    valid(payload(`1e999`)),
		"exactly 1 MiB":                 valid(payload(`"` + strings.Repeat("x", 1<<20-2) + `"`)),
		"bytes of another type":         valid(payload("\x00\xff"), contentType("application/octet-stream")),
		"text that is no JSON":          valid(payload("hello"), contentType("text/plain; charset=utf-8")),
		"a header value with accents":   valid(header("x-city", "Köln")),
		"an empty header value":         valid(header("x", "")),
		"headers of 8 KiB":              valid(header("x", strings.Repeat("v", 8<<10-1))),
		"a header name of 64 bytes":     valid(header(strings.Repeat("x", 64), "v")),
		"no headers but a map":          valid(func(m *outbox.Message) { m.Headers = map[string]string{} }),
	} {
		t.Run(name, func(t *testing.T) {
			want := bytes.Clone(msg.Payload)
			got, err := outbox.Gate{}.Admit(t.Context(), "outbox", msg)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Payload, want) {
				t.Errorf("the payload was rewritten to %.50q", got.Payload)
			}
		})
	}
}

func TestThePayloadLimitCanBeChanged(t *testing.T) {
	gate := outbox.Gate{MaxPayload: 8}
	if _, err := gate.Admit(t.Context(), "outbox", valid(payload(`"123456"`))); err != nil {
		t.Errorf("8 bytes of 8: %v", err)
	}
	_, err := gate.Admit(t.Context(), "outbox", valid(payload(`"1234567"`)))
	wantRefusal(t, err, outbox.ErrPayloadTooLarge, "payload")
	if !strings.Contains(err.Error(), "9 bytes") || !strings.Contains(err.Error(), "limit is 8") {
		t.Errorf("%q does not tell size and limit", err)
	}
}

func TestGateMakesAnEventIDOnlyWhenThereIsNone(t *testing.T) {
	before := time.Now().Add(-time.Second)
	first, err := outbox.Gate{}.Admit(t.Context(), "outbox", valid())
	if err != nil {
		t.Fatal(err)
	}
	second, err := outbox.Gate{}.Admit(t.Context(), "outbox", valid())
	if err != nil {
		t.Fatal(err)
	}

	if v := first.EventID.Version(); v != 7 {
		t.Errorf("version of the id is %d, want 7", v)
	}
	sec, nsec := first.EventID.Time().UnixTime()
	if made := time.Unix(sec, nsec); made.Before(before) || made.After(time.Now().Add(time.Second)) {
		t.Errorf("the id says it was made at %s", made)
	}
	if bytes.Compare(first.EventID[:], second.EventID[:]) >= 0 {
		t.Errorf("ids do not ascend: %s, then %s", first.EventID, second.EventID)
	}

	own := uuid.MustParse("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
	kept, err := outbox.Gate{}.Admit(t.Context(), "outbox", valid(func(m *outbox.Message) { m.EventID = own }))
	if err != nil || kept.EventID != own {
		t.Errorf("the caller's id became %s (%v)", kept.EventID, err)
	}
}

func TestTheEventVersionComesFromTheTopicUnlessGiven(t *testing.T) {
	for _, tt := range []struct {
		topic string
		given int
		want  int
	}{
		{"shop.order.placed.v3", 0, 3},
		{"shop.order.placed.v3", 9, 9},
		{"order.placed.v12", 0, 12},
		{"order.placed", 0, 0},
		{"order.v2.placed", 0, 0},
		{"v2", 0, 0},
		{"order.v0", 0, 0},
		{"order.v01", 0, 0},
		{"order.v", 0, 0},
		{"order.v2147483647", 0, 1<<31 - 1},
		{"order.v2147483648", 0, 0},
	} {
		msg := valid(func(m *outbox.Message) { m.Topic, m.EventVersion = tt.topic, tt.given })
		got, err := outbox.Gate{Topics: outbox.AnyTopic}.Admit(t.Context(), "outbox", msg)
		if err != nil {
			t.Errorf("%s: %v", tt.topic, err)
		} else if got.EventVersion != tt.want {
			t.Errorf("%s with %d has version %d, want %d", tt.topic, tt.given, got.EventVersion, tt.want)
		}
	}
}

func TestGateTakesTheTraceFromTheContext(t *testing.T) {
	const parent, state = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "vendor=1"
	type contextKey struct{}
	ctx := context.WithValue(t.Context(), contextKey{}, parent)
	taking := func(state string) outbox.Gate {
		return outbox.Gate{Trace: func(ctx context.Context) (string, string) {
			p, _ := ctx.Value(contextKey{}).(string)
			return p, state
		}}
	}
	given := func(parent, state string) outbox.Message {
		return valid(func(m *outbox.Message) { m.TraceParent, m.TraceState = parent, state })
	}

	for _, tt := range []struct {
		name          string
		gate          outbox.Gate
		msg           outbox.Message
		parent, state string
	}{
		{"verbatim", taking(state), valid(), parent, state},
		{"but not over the caller's", taking(state), given("mine", "too"), "mine", "too"},
		{"nor half over it", taking(state), given("mine", ""), "mine", ""},
		{"nor when it cannot be stored", taking("a\r\nb"), valid(), "", ""},
		{"nor when it is too long", taking(strings.Repeat("x", 513)), valid(), "", ""},
		{"nor without a hook", outbox.Gate{}, valid(), "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.gate.Admit(ctx, "outbox", tt.msg)
			if err != nil {
				t.Fatal(err)
			}
			if got.TraceParent != tt.parent || got.TraceState != tt.state {
				t.Errorf("trace is %q, %q; want %q, %q", got.TraceParent, got.TraceState, tt.parent, tt.state)
			}
		})
	}
}

func TestGateHooksRunInOrderOnACompleteMessage(t *testing.T) {
	var order []string
	gate := outbox.Gate{
		Topics: func(string) error { order = append(order, "topics"); return nil },
		Trace:  func(context.Context) (string, string) { order = append(order, "trace"); return "parent", "state" },
		Check: func(_ context.Context, m *outbox.Message) error {
			order = append(order, "check")
			if m.EventID == uuid.Nil || m.EventVersion != 3 || m.TraceParent != "parent" {
				t.Errorf("the contract sees an unfinished message: %+v", m)
			}
			return nil
		},
		Enqueued: func(_ context.Context, table, topic string) { order = append(order, "enqueued "+table+" "+topic) },
	}

	if _, err := gate.Admit(t.Context(), "shop.outbox", valid()); err != nil {
		t.Fatal(err)
	}

	want := []string{"topics", "trace", "check", "enqueued shop.outbox " + topic}
	if !slices.Equal(order, want) {
		t.Errorf("order is %q, want %q", order, want)
	}
}

func TestARefusedContractIsReturnedAsItIsAndNotCounted(t *testing.T) {
	refusal := outbox.ErrContract.Wrap(errors.New("amount is missing"))
	gate := outbox.Gate{
		Check:    func(context.Context, *outbox.Message) error { return refusal },
		Enqueued: func(context.Context, string, string) { t.Error("it was counted") },
	}

	got, err := gate.Admit(t.Context(), "outbox", valid())

	if err != error(refusal) { //nolint:errorlint // the very same error, not one like it
		t.Errorf("got %v, want the error of the check", err)
	}
	if !reflect.DeepEqual(got, outbox.Message{}) {
		t.Errorf("a refused message was returned: %+v", got)
	}
}

func TestAdmittingTwiceChangesNothingMore(t *testing.T) {
	msg := valid(header("x-shop", "berlin"), func(m *outbox.Message) {
		m.Key, m.TenantID, m.AvailableAt = "order-1", "t", time.Unix(1, 0)
		m.AggregateType, m.AggregateID, m.EventType = "Order", "1", "Placed"
	})
	headers := maps.Clone(msg.Headers)

	first, err := outbox.Gate{}.Admit(t.Context(), "outbox", msg)
	if err != nil {
		t.Fatal(err)
	}
	second, err := outbox.Gate{}.Admit(t.Context(), "outbox", first)
	if err != nil {
		t.Fatal(err)
	}

	if !reflect.DeepEqual(first, second) {
		t.Errorf("first %+v\nthen  %+v", first, second)
	}
	msg.EventID, msg.EventVersion = first.EventID, 3
	if !reflect.DeepEqual(first, msg) {
		t.Errorf("more than id and version was filled in: %+v", first)
	}
	if !maps.Equal(msg.Headers, headers) {
		t.Errorf("the caller's headers were changed: %v", msg.Headers)
	}
}

func TestIsJSON(t *testing.T) {
	for contentType, want := range map[string]bool{
		"":                                true,
		"application/json":                true,
		"application/json; charset=utf-8": true,
		"Application/JSON":                true,
		"application/cloudevents+json":    true,
		"application/problem+json; v=1":   true,
		"text/plain":                      false,
		"application/octet-stream":        false,
		"application/jsonl":               false,
		"application/x-json-ish":          false,
		"json":                            false,
		"application/json; =":             false,
		";":                               false,
	} {
		if got := outbox.IsJSON(contentType); got != want {
			t.Errorf("IsJSON(%q) = %t, want %t", contentType, got, want)
		}
	}
}
