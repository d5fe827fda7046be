package outbox_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/go-outbox/outbox"
)

// Whatever an error says, the text is safe to store, log and show.
func FuzzSanitize(f *testing.F) {
	f.Add("boom", []byte(`{}`), 0)
	f.Add("post https://a:b@c/d?token=e: \x1b[31m\xff\x00", []byte(`{"name":"Ada Lovelace of London"}`), 40)
	f.Add(`refused: {"name":"Ada Lovelace of London"}`, []byte(`{"name":"Ada Lovelace of London"}`), 15)
	f.Add("{\"name\":\"Ada\x1b[0m Lovelace of London\"}", []byte(`{"name":"Ada Lovelace of London"}`), 1<<20)
	f.Add("\"name\":\"Ada\x1b[A Lovelace of L\xbb", []byte(`0"name":"Ada Lovelace of `), 1<<20)
	f.Add(strings.Repeat("äöü", 1000), []byte(strings.Repeat("öü", 20)), 2048)
	f.Add(`"{\"password\":\"hunter2\"}`, []byte(`{"password":"hunter2","and":"more than that"}`), 1)

	f.Fuzz(func(t *testing.T, text string, payload []byte, limit int) {
		got := outbox.SanitizeText(text, payload, limit)
		wantSafe(t, got, payload, limit)
	})
}

// The gate never panics, and what it admits once it admits again, unchanged: a
// message that was read from a store can be enqueued into another.
func FuzzGate(f *testing.F) {
	f.Add("shop.order.placed.v1", []byte(`{"id":1}`), "order-1", "x-shop", "berlin", "", "tenant", 0)
	f.Add("stock.move", []byte("\xff"), "", "host", "v", "text/plain", "", 7)
	f.Add("a.b.c.v99999999999", []byte(`"`), "\x00", "\r\n", "\xff", "application/x+json; a=b", "\u0085", -1)

	f.Fuzz(func(t *testing.T, topic string, payload []byte, key, name, value, contentType, text string, version int) {
		msg := outbox.Message{
			Topic: topic, Payload: payload, Key: key, Headers: map[string]string{name: value}, ContentType: contentType,
			TenantID: text, AggregateID: text, TraceParent: text, EventVersion: version,
		}
		for _, policy := range []outbox.TopicPolicy{nil, outbox.DomainTopics, outbox.AnyTopic} {
			gate := outbox.Gate{Topics: policy, MaxPayload: 1 << 10}

			first, err := gate.Admit(t.Context(), "outbox", msg)
			if err != nil {
				if outbox.CodeOf(err) == "" {
					t.Errorf("refused without a code: %v", err)
				}
				wantSafe(t, err.Error(), nil, 1<<10)
				continue
			}
			second, err := gate.Admit(t.Context(), "outbox", first)
			if err != nil {
				t.Fatalf("admitted, then refused: %v", err)
			}
			if !reflect.DeepEqual(first, second) {
				t.Errorf("first %+v\nthen  %+v", first, second)
			}
		}
	})
}

// MatchTopic agrees with a slower matcher that says what patterns mean.
func FuzzMatchTopic(f *testing.F) {
	f.Add("a.*.**", "a.b.c")
	f.Add("a.**", "a")
	f.Add("**", "")
	f.Add("a..b", "a..b")
	f.Add("*", "**")

	f.Fuzz(func(t *testing.T, pattern, topic string) {
		got := outbox.MatchTopic(pattern, topic)
		if outbox.CheckPattern(pattern) != nil {
			return // only that it returns
		}
		if want := matches(strings.Split(pattern, "."), strings.Split(topic, ".")); got != want {
			t.Errorf("MatchTopic(%q, %q) = %t, want %t", pattern, topic, got, want)
		}
	})
}

func matches(pattern, topic []string) bool {
	switch {
	case len(pattern) == 0:
		return len(topic) == 0
	case pattern[0] == "**":
		return true
	case len(topic) == 0:
		return false
	default:
		return (pattern[0] == "*" || pattern[0] == topic[0]) && matches(pattern[1:], topic[1:])
	}
}
