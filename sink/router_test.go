package sink_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/sink"
	"github.com/go-outbox/outbox/sink/sinktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A memory is a sink that keeps what it gets.
type memory struct {
	mu   sync.Mutex
	got  []outbox.DispatchedMessage
	fail error
}

func (m *memory) Dispatch(ctx context.Context, msg outbox.DispatchedMessage) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	msg.Payload, msg.Meta.Headers = bytes.Clone(msg.Payload), maps.Clone(msg.Meta.Headers)
	m.got = append(m.got, msg)
	return nil
}

// A batchMemory takes batches too.
type batchMemory struct{ memory }

func (m *batchMemory) DispatchBatch(ctx context.Context, msgs []outbox.DispatchedMessage) []error {
	errs := make([]error, len(msgs))
	for i := range msgs {
		errs[i] = m.Dispatch(ctx, msgs[i])
	}
	return errs
}

func newRouter(t *testing.T, routes ...sink.Route) sink.Router {
	t.Helper()
	r, err := sink.NewRouter(routes...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func message(topic string) outbox.DispatchedMessage {
	return outbox.DispatchedMessage{
		Meta:    outbox.Meta{Topic: topic, Table: "shop_outbox", EventID: uuid.New()},
		Payload: []byte(`{"order": 7}`),
	}
}

func TestContract(t *testing.T) {
	sinktest.Run(t, func(t *testing.T) sinktest.Harness {
		m := &batchMemory{}
		return sinktest.Harness{
			Sink: newRouter(t, sink.Route{Name: "orders", Topics: []string{"shop.**"}, Sink: m}),
			Received: func(*testing.T) (found []sinktest.Received) {
				m.mu.Lock()
				defer m.mu.Unlock()
				for _, msg := range m.got {
					found = append(found, sinktest.Received{Message: msg, DedupID: msg.Meta.DedupID()})
				}
				return found
			},
			Break: func(*testing.T) func() {
				set := func(err error) {
					m.mu.Lock()
					defer m.mu.Unlock()
					m.fail = err
				}
				set(outbox.Unavailable(errors.New("down")))
				return func() { set(nil) }
			},
			Features: sinktest.Features{AnyText: true},
		}
	})
}

func TestAMessageGoesToTheFirstRouteThatMatches(t *testing.T) {
	exact, one, rest := &memory{}, &memory{}, &memory{}
	r := newRouter(t,
		sink.Route{Name: "exact", Topics: []string{"shop.order.placed.v1", "shop.order.paid.v1"}, Sink: exact},
		sink.Route{Name: "one", Topics: []string{"shop.order.*.v1"}, Sink: one},
		sink.Route{Name: "rest", Topics: []string{"shop.**", "crm.**"}, Sink: rest},
	)
	for topic, want := range map[string]string{
		"shop.order.placed.v1": "exact", "shop.order.paid.v1": "exact",
		"shop.order.sent.v1": "one",
		"shop.order.sent.v2": "rest", "shop.order.a.b.v1": "rest", "shop.x": "rest", "crm.a.b.c.d": "rest",
		"shop": "", "shop.": "", "other.a": "", "": "", "shopping.a": "",
	} {
		if got := r.Route(topic); got != want {
			t.Errorf("%q goes to %q, want %q", topic, got, want)
		}
	}

	for _, topic := range []string{"shop.order.paid.v1", "shop.order.sent.v1", "crm.a"} {
		if err := r.Dispatch(t.Context(), message(topic)); err != nil {
			t.Error(err)
		}
	}
	if len(exact.got) != 1 || len(one.got) != 1 || len(rest.got) != 1 {
		t.Errorf("got %d, %d and %d", len(exact.got), len(one.got), len(rest.got))
	}
}

func TestATopicWithoutARouteIsAnError(t *testing.T) {
	r := newRouter(t, sink.Route{Name: "a", Topics: []string{"shop.*"}, Sink: &batchMemory{}})

	err := r.Dispatch(t.Context(), message("crm.a"))
	if want := `topic: no route takes "crm.a"`; !errors.Is(err, outbox.ErrNoRoute) || err.Error() != want {
		t.Errorf("got %v", err)
	}
	errs := r.(outbox.BatchDispatcher).DispatchBatch(t.Context(), []outbox.DispatchedMessage{message("crm.a"), message("shop.a")})
	if !errors.Is(errs[0], outbox.ErrNoRoute) || errs[1] != nil {
		t.Errorf("got %v", errs)
	}
	if err := r.Check("shop.a", "crm.a", "crm.b"); !errors.Is(err, outbox.ErrNoRoute) ||
		!strings.Contains(err.Error(), "crm.a") || !strings.Contains(err.Error(), "crm.b") || strings.Contains(err.Error(), "shop") {
		t.Errorf("got %v", err)
	}
	if err := r.Check("shop.a", "shop.b"); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestNewRouterReportsEveryMistake(t *testing.T) {
	m := &memory{}
	tests := []struct {
		name   string
		routes []sink.Route
		want   []string
	}{
		{"no routes", nil, []string{"at least one is required"}},
		{"an empty route", []sink.Route{{}}, []string{"name is required", "sink is required", "at least one topic pattern"}},
		{"one name twice", []sink.Route{
			{Name: "a", Topics: []string{"x"}, Sink: m}, {Name: "a", Topics: []string{"y"}, Sink: m},
		}, []string{"routes[1] a: another route has the same name"}},
		{"patterns", []sink.Route{{Name: "a", Topics: []string{"", "a..b", "a.>", "**.b", "a*.b", "a b"}, Sink: m}}, []string{
			"is empty", "empty segment", "write ** for all", "** is for the end", "a whole segment", "printable ASCII",
		}},
		{"patterns that never match", []sink.Route{
			{Name: "a", Topics: []string{"a.**", "b.*.c", "d"}, Sink: m},
			{Name: "b", Topics: []string{"a.x", "a.*.**", "b.x.c", "d", "a", "b.x.d", "b.**"}, Sink: m},
		}, []string{
			`pattern "a.x" never matches: "a.**" of route a comes first`, `"a.*.**" never`, `"b.x.c" never`, `"d" never`,
		}},
		{"templates", []sink.Route{
			{Name: "a", Topics: []string{"x"}, Sink: m, Topic: "t-{tenent}"},
			{Name: "b", Topics: []string{"y"}, Sink: m, Topic: "{topic"},
			{Name: "c", Topics: []string{"z"}, Sink: m, Topic: "topic}"},
			{Name: "d", Topics: []string{"w"}, Sink: m, Topic: "a b"},
		}, []string{"there is no field {tenent}; there are topic, table, tenant", "{ without }", "} without {", "printable ASCII"}},
		{"envelopes", []sink.Route{
			{Name: "a", Topics: []string{"x"}, Sink: m, Envelope: sink.Envelope{Format: "soap"}},
			{Name: "b", Topics: []string{"y"}, Sink: m, Envelope: sink.Envelope{Binding: "mqtt"}},
			{Name: "c", Topics: []string{"z"}, Sink: m, Envelope: sink.Envelope{Source: "%zz"}},
		}, []string{`format is "soap"`, `binding is "mqtt"`, "source is not a URI"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := sink.NewRouter(tt.routes...)
			if !errors.Is(err, outbox.ErrInvalidConfig) {
				t.Fatalf("got %v", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is missing in\n%v", want, err)
				}
			}
			if got := strings.Count(err.Error(), "\n") + 1; got != len(tt.want) {
				t.Errorf("%d mistakes, want %d:\n%v", got, len(tt.want), err)
			}
		})
	}
}

func TestATemplateMakesTheSinksTopic(t *testing.T) {
	meta := outbox.Meta{
		Topic: "shop.order.placed.v1", Table: "shop_outbox", TenantID: "t-1", AggregateType: "order",
		EventType: "OrderPlaced", EventVersion: 2, EventID: uuid.New(),
	}
	edit := func(f func(*outbox.Meta)) outbox.Meta { m := meta; f(&m); return m }
	tests := []struct {
		template string
		meta     outbox.Meta
		want     string // "" is a dead message
	}{
		{"", meta, "shop.order.placed.v1"},
		{"{topic}", meta, "shop.order.placed.v1"},
		{"events", meta, "events"},
		{"{tenant}.{aggregate_type}.{event_type}-{version}", meta, "t-1.order.OrderPlaced-2"},
		{"{table}/{topic}", meta, "shop_outbox/shop.order.placed.v1"},
		{"{tenant}", edit(func(m *outbox.Meta) { m.TenantID = "" }), ""},
		{"{version}", edit(func(m *outbox.Meta) { m.EventVersion = 0 }), ""},
		{"{tenant}.x", edit(func(m *outbox.Meta) { m.TenantID = "a.b" }), ""},
		{"{tenant}", edit(func(m *outbox.Meta) { m.TenantID = "*" }), ""},
		{"{tenant}", edit(func(m *outbox.Meta) { m.TenantID = ">" }), ""},
		{"{tenant}", edit(func(m *outbox.Meta) { m.TenantID = "a\r\nPUB b" }), ""},
		{"{event_type}", edit(func(m *outbox.Meta) { m.EventType = "ü" }), ""},
		{"{topic}{topic}", edit(func(m *outbox.Meta) { m.Topic = strings.Repeat("t", 200) }), ""},
	}
	for _, tt := range tests {
		t.Run(tt.template+" "+tt.want, func(t *testing.T) {
			m := &memory{}
			r := newRouter(t, sink.Route{Name: "a", Topics: []string{"**"}, Sink: m, Topic: tt.template})

			err := r.Dispatch(t.Context(), outbox.DispatchedMessage{Meta: tt.meta})

			if tt.want == "" {
				if !outbox.IsPermanent(err) || !errors.Is(err, outbox.ErrInvalidTopic) || len(m.got) > 0 {
					t.Errorf("got %v, sent %v", err, m.got)
				}
				return
			}
			if err != nil || m.got[0].Meta.Topic != tt.want {
				t.Errorf("got %v, %v", m.got, err)
			}
		})
	}
}

func TestAMessageWhoseTopicChangesKeepsItAsItsType(t *testing.T) {
	m := &memory{}
	r := newRouter(t, sink.Route{Name: "a", Topics: []string{"**"}, Sink: m, Topic: "all-events"})
	named := message("shop.order.placed.v1")
	named.Meta.EventType = "OrderPlaced"

	for _, msg := range []outbox.DispatchedMessage{message("shop.order.placed.v1"), named} {
		if err := r.Dispatch(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
	}

	if got := m.got[0].Meta.EventType; got != "shop.order.placed.v1" {
		t.Errorf("type %q", got)
	}
	if got := m.got[1].Meta.EventType; got != "OrderPlaced" {
		t.Errorf("type %q", got)
	}
}

func TestARouterTakesBatchesOnlyIfAllItsSinksDo(t *testing.T) {
	both := []sink.Route{
		{Name: "a", Topics: []string{"a"}, Sink: &batchMemory{}},
		{Name: "b", Topics: []string{"b"}, Sink: &memory{}},
	}
	if _, ok := newRouter(t, both...).(outbox.BatchDispatcher); ok {
		t.Error("with one that does not")
	}
	if _, ok := newRouter(t, both[0]).(outbox.BatchDispatcher); !ok {
		t.Error("not with one that does")
	}
}

// batchFunc is a sink that only takes batches.
type batchFunc func(ctx context.Context, msgs []outbox.DispatchedMessage) []error

func (batchFunc) Dispatch(context.Context, outbox.DispatchedMessage) error { panic("unexpected") }
func (f batchFunc) DispatchBatch(ctx context.Context, msgs []outbox.DispatchedMessage) []error {
	return f(ctx, msgs)
}

func TestARouteInTroubleFailsItsOwnShareOfABatch(t *testing.T) {
	down := outbox.Unavailable(errors.New("down"))
	healthyDone := make(chan struct{})
	healthy := &batchMemory{}
	r := newRouter(t,
		sink.Route{Name: "hangs", Topics: []string{"hangs"}, Sink: batchFunc(func(_ context.Context, msgs []outbox.DispatchedMessage) []error {
			<-healthyDone // a hanging route would keep the healthy one waiting if they took turns
			return []error{down}
		})},
		sink.Route{Name: "panics", Topics: []string{"panics"}, Sink: batchFunc(func(context.Context, []outbox.DispatchedMessage) []error { panic("boom") })},
		sink.Route{Name: "miscounts", Topics: []string{"miscounts"}, Sink: batchFunc(func(context.Context, []outbox.DispatchedMessage) []error { return nil })},
		sink.Route{Name: "healthy", Topics: []string{"healthy"}, Sink: batchFunc(func(ctx context.Context, msgs []outbox.DispatchedMessage) []error {
			defer close(healthyDone)
			return healthy.DispatchBatch(ctx, msgs)
		})},
	)
	var msgs []outbox.DispatchedMessage
	for _, topic := range []string{"hangs", "healthy", "panics", "healthy", "miscounts", "none", "healthy"} {
		msgs = append(msgs, message(topic))
	}

	errs := r.(outbox.BatchDispatcher).DispatchBatch(t.Context(), msgs)

	for i, err := range errs {
		topic := msgs[i].Meta.Topic
		switch topic {
		case "healthy":
			if err != nil {
				t.Errorf("%s: %v", topic, err)
			}
		case "hangs":
			if !outbox.IsUnavailable(err) {
				t.Errorf("%s: %v", topic, err)
			}
		default:
			if err == nil || outbox.IsPermanent(err) {
				t.Errorf("%s: %v", topic, err)
			}
		}
	}
	if len(healthy.got) != 3 {
		t.Errorf("the healthy route got %d messages, want 3", len(healthy.got))
	}
}

func ExampleNewRouter() {
	show := func(name string) outbox.Dispatcher {
		return outbox.DispatcherFunc(func(_ context.Context, msg outbox.DispatchedMessage) error {
			_, err := fmt.Fprintf(os.Stdout, "%s: %s\n", name, msg.Meta.Topic)
			return err
		})
	}
	router, err := sink.NewRouter(
		sink.Route{Name: "orders", Topics: []string{"shop.order.*.v1"}, Sink: show("kafka"), Topic: "shop-orders"},
		sink.Route{Name: "rest", Topics: []string{"shop.**"}, Sink: show("webhook")},
	)
	if err != nil {
		panic(err)
	}
	for _, topic := range []string{"shop.order.placed.v1", "shop.stock.moved.v1", "crm.lead.won.v1"} {
		if err := router.Dispatch(context.Background(), message(topic)); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// kafka: shop-orders
	// webhook: shop.stock.moved.v1
	// topic: no route takes "crm.lead.won.v1"
}
