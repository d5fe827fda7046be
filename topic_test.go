package outbox_test

import (
	"strings"
	"testing"

	"github.com/go-outbox/outbox"
)

// admits asks the gate, not the bare policy: what holds for every topic is the
// gate's part of the answer.
func admits(t testing.TB, policy outbox.TopicPolicy, topic string) error {
	t.Helper()
	_, err := outbox.Gate{Topics: policy}.Admit(t.Context(), "outbox", outbox.Message{Topic: topic, Payload: []byte(`{}`)})
	return err
}

func TestTopicPolicies(t *testing.T) {
	const strict, domain, anything = 1, 2, 4 // who accepts it
	policies := []struct {
		name   string
		bit    int
		policy outbox.TopicPolicy
	}{
		{"default", strict, nil},
		{"strict", strict, outbox.StrictTopics},
		{"domain", domain, outbox.DomainTopics},
		{"any", anything, outbox.AnyTopic},
	}
	version := func(n int) string { return "a.b." + strings.Repeat("c", n-len("a.b..v1")) + ".v1" }

	for _, tt := range []struct {
		name  string
		topic string
		by    int
	}{
		{"the documented form", "shop.order.placed.v1", strict | anything},
		{"hyphens and digits", "shop-2.order-line.re-placed.v12", strict | anything},
		{"more segments than four", "eu.shop.order.placed.v1", strict | anything},
		{"the largest version", "a.b.c.v2147483647", strict | anything},
		{"127 bytes", version(127), strict | anything},
		{"128 bytes", version(128), anything},
		{"255 bytes", strings.Repeat("a", 255), anything},

		{"no version", "shop.order.placed.done", anything},
		{"version 0", "shop.order.placed.v0", anything},
		{"a version with a leading zero", "shop.order.placed.v01", anything},
		{"a version without a number", "shop.order.placed.v", anything},
		{"a version that is no number", "shop.order.placed.v1a", anything},
		{"a signed version", "shop.order.placed.v-1", anything},
		{"a version beyond 31 bits", "a.b.c.v2147483648", anything},
		{"a version beyond 64 bits", "a.b.c.v99999999999999999999", anything},
		{"three segments that end in a version", "order.placed.v1", domain | anything},

		{"a domain and an action", "stock.move", domain | anything},
		{"a domain, an action and a phase", "stock.move.done", domain | anything},
		{"an underscore", "stock_item.move", domain | anything},
		{"an underscore in a strict topic", "shop.order_line.placed.v1", anything},
		{"one segment", "stock", anything},

		{"upper case", "Shop.Order.Placed.v1", anything},
		{"an upper-case version", "shop.order.placed.V1", anything},
		{"upper case in a domain topic", "Stock.move", anything},
		{"an empty segment", "shop..placed.v1", anything},
		{"an empty segment in a domain topic", "stock..done", anything},
		{"a leading dot", ".shop.order.v1", anything},
		{"a trailing dot", "shop.order.placed.v1.", anything},
		{"a wildcard", "shop.*.placed.v1", anything},
		{"a slash", "shop/order", anything},

		{"empty", "", 0},
		{"256 bytes", strings.Repeat("a", 256), 0},
		{"a megabyte", strings.Repeat("a.", 1<<19), 0},
		{"a space", "shop.order placed.x.v1", 0},
		{"a trailing space", "stock.move ", 0},
		{"a newline", "shop.order.placed.v1\n", 0},
		{"CR LF", "stock.move\r\nPUB x", 0},
		{"NUL", "stock.move\x00", 0},
		{"DEL", "stock.move\x7f", 0},
		{"not ASCII", "shöp.order.placed.v1", 0},
		{"a letter that only looks Latin", "shop.\u043erder.placed.v1", 0},
		{"not UTF-8", "stock.\xff", 0},
	} {
		for _, p := range policies {
			t.Run(p.name+"/"+tt.name, func(t *testing.T) {
				err := admits(t, p.policy, tt.topic)
				if tt.by&p.bit != 0 {
					if err != nil {
						t.Errorf("refused: %v", err)
					}
					return
				}
				wantRefusal(t, err, outbox.ErrInvalidTopic, "topic")
				if len(err.Error()) > 300 {
					t.Errorf("the error repeats a long topic: %d bytes", len(err.Error()))
				}
				if strings.ContainsAny(err.Error(), "\r\n\x00") {
					t.Errorf("the error repeats control characters: %q", err)
				}
			})
		}
	}
}

func TestAPolicyOfOnesOwnDecides(t *testing.T) {
	only := func(topic string) error {
		if topic != "one" {
			return outbox.ErrInvalidTopic.With("topic", "want one")
		}
		return nil
	}
	if err := admits(t, only, "one"); err != nil {
		t.Error(err)
	}
	wantRefusal(t, admits(t, only, "two"), outbox.ErrInvalidTopic, "topic")
	wantRefusal(t, admits(t, func(string) error { return nil }, "a b"), outbox.ErrInvalidTopic, "topic")
}

func TestTopicMapper(t *testing.T) {
	topics := map[string]string{"Order": "shop.order.changed.v1", "Cart": "shop.cart.changed.v2"}
	m, err := outbox.NewTopicMapper(topics, nil)
	if err != nil {
		t.Fatal(err)
	}
	topics["Order"] = "changed afterwards"

	for aggregate, want := range map[string]string{"Order": "shop.order.changed.v1", "Cart": "shop.cart.changed.v2"} {
		got, err := m.Topic(aggregate)
		if err != nil || got != want {
			t.Errorf("topic of %s is %q (%v), want %q", aggregate, got, err, want)
		}
		if got := m.GetTopic(aggregate); got != want {
			t.Errorf("GetTopic of %s is %q, want %q", aggregate, got, want)
		}
	}

	for _, unknown := range []string{"", "order", "Invoice", strings.Repeat("x", 1<<20), "a\r\nb"} {
		got, err := m.Topic(unknown)
		if got != "" {
			t.Errorf("topic of %.20q is %q", unknown, got)
		}
		wantRefusal(t, err, outbox.ErrUnmappedTopic, "aggregate_type")
		if len(err.Error()) > 300 {
			t.Errorf("the error repeats a long name: %d bytes", len(err.Error()))
		}
		if got := m.GetTopic(unknown); got != "" {
			t.Errorf("GetTopic of %.20q is %q", unknown, got)
		}
	}
}

func TestTopicMapperRefusesTopicsTheGateWouldRefuse(t *testing.T) {
	for _, tt := range []struct {
		name   string
		topic  string
		policy outbox.TopicPolicy
	}{
		{"empty", "", outbox.AnyTopic},
		{"a space", "a b", outbox.AnyTopic},
		{"not strict by default", "stock.move", nil},
		{"not of its policy", "shop.order.placed.v1", outbox.DomainTopics},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := outbox.NewTopicMapper(map[string]string{"Order": tt.topic}, tt.policy)
			if m != nil {
				t.Error("a mapper was made")
			}
			wantRefusal(t, err, outbox.ErrInvalidTopic, "topic")
			if !strings.Contains(err.Error(), `"Order"`) {
				t.Errorf("%q does not name the aggregate type", err)
			}
		})
	}
}
