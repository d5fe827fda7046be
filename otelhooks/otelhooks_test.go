package otelhooks_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/otelhooks"
	"github.com/go-outbox/outbox/relay"
	"github.com/go-outbox/outbox/store/memstore"
)

const (
	storedParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	storedState  = "vendor=value"
)

// recording returns a provider and what it has recorded.
func recording(t *testing.T) (*sdktrace.TracerProvider, *tracetest.InMemoryExporter) {
	t.Helper()
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	t.Cleanup(func() {
		if err := provider.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return provider, exporter
}

func TestATraceIsFollowedFromTheHandlerToTheConsumer(t *testing.T) {
	provider, exporter := recording(t)
	tracer := provider.Tracer("test")
	store, err := memstore.New(memstore.Config{Table: "shop_outbox", Gate: outbox.Gate{Trace: otelhooks.Trace}})
	if err != nil {
		t.Fatal(err)
	}
	consumer := outbox.DispatcherFunc(func(_ context.Context, msg outbox.DispatchedMessage) error {
		ctx := otelhooks.Context(context.Background(), msg.Meta.TraceParent, msg.Meta.TraceState)
		_, span := tracer.Start(ctx, "consume")
		span.End()
		return nil
	})
	r, err := relay.New(store, otelhooks.Wrap(consumer, otelhooks.Config{TracerProvider: provider, System: "nats"}), relay.Config{})
	if err != nil {
		t.Fatal(err)
	}

	ctx, handler := tracer.Start(t.Context(), "POST /orders")
	tx := store.Begin()
	if _, err := store.Enqueue(ctx, tx, outbox.Message{Topic: "shop.order.placed.v1", Payload: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	handler.End()
	if _, err := r.PublishPending(t.Context()); err != nil {
		t.Fatal(err)
	}

	enqueued, sent, consumed := find(t, exporter, "POST /orders"), find(t, exporter, "send shop.order.placed.v1"), find(t, exporter, "consume")
	if len(sent.Links) != 1 || sent.Links[0].SpanContext.SpanID() != enqueued.SpanContext.SpanID() ||
		sent.Links[0].SpanContext.TraceID() != enqueued.SpanContext.TraceID() {
		t.Errorf("the dispatch is linked to %v, not to the handler", sent.Links)
	}
	if sent.Parent.IsValid() {
		t.Error("the dispatch is not a root")
	}
	if consumed.Parent.SpanID() != sent.SpanContext.SpanID() || consumed.SpanContext.TraceID() != sent.SpanContext.TraceID() {
		t.Error("the consumer does not continue the dispatch")
	}
}

func find(t *testing.T, exporter *tracetest.InMemoryExporter, name string) tracetest.SpanStub {
	t.Helper()
	spans := exporter.GetSpans()
	i := slices.IndexFunc(spans, func(s tracetest.SpanStub) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("no span %q among %d", name, len(spans))
	}
	return spans[i]
}

func message() outbox.DispatchedMessage {
	return outbox.DispatchedMessage{
		Meta: outbox.Meta{
			Table: "shop_outbox", Topic: "shop.order.placed.v1", EventID: uuid.MustParse("0190d3a5-0000-7000-8000-000000000001"),
			Sequence: 42, Attempts: 2, TenantID: "tenant-canary", Key: "key-canary", Headers: map[string]string{"x": "header-canary"},
			TraceParent: storedParent, TraceState: storedState,
		},
		Payload: []byte(`{"card":"payload-canary"}`),
	}
}

func TestASpanHasTheMessagingAttributes(t *testing.T) {
	provider, exporter := recording(t)
	d := otelhooks.Wrap(returning(nil), otelhooks.Config{TracerProvider: provider, System: "kafka"})
	if err := d.Dispatch(t.Context(), message()); err != nil {
		t.Fatal(err)
	}
	span := exporter.GetSpans()[0]
	if span.SpanKind != trace.SpanKindProducer || span.Status.Code != codes.Unset {
		t.Errorf("kind %s, status %s", span.SpanKind, span.Status.Code)
	}
	got := map[string]string{}
	for _, a := range span.Attributes {
		got[string(a.Key)] = a.Value.String()
	}
	for key, want := range map[string]string{
		"messaging.system":            "kafka",
		"messaging.operation.name":    "send",
		"messaging.operation.type":    "send",
		"messaging.destination.name":  "shop.order.placed.v1",
		"messaging.message.id":        "0190d3a5-0000-7000-8000-000000000001",
		"messaging.message.body.size": "25",
		"outbox.table":                "shop_outbox",
		"outbox.sequence":             "42",
		"outbox.attempts":             "2",
	} {
		if got[key] != want {
			t.Errorf("%s is %q, want %q", key, got[key], want)
		}
		delete(got, key)
	}
	if len(got) > 0 {
		t.Errorf("and more: %v", got)
	}
}

func TestAFailureIsSafeToShow(t *testing.T) {
	provider, exporter := recording(t)
	failure := outbox.Permanent(errors.New(`refused {"card":"payload-canary"} by https://app:password-canary@host/`))
	d := otelhooks.Wrap(returning(failure), otelhooks.Config{TracerProvider: provider})
	if err := d.Dispatch(t.Context(), message()); !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
	span := exporter.GetSpans()[0]
	if span.Status.Code != codes.Error || !strings.HasPrefix(span.Status.Description, "refused") {
		t.Errorf("status %v", span.Status)
	}
	if all := fmt.Sprintf("%+v", span); strings.Contains(all, "canary") {
		t.Errorf("the span has a secret: %s", all)
	}
}

func TestAPanicPassesThroughAndEndsTheSpan(t *testing.T) {
	provider, exporter := recording(t)
	d := otelhooks.Wrap(outbox.DispatcherFunc(func(context.Context, outbox.DispatchedMessage) error { panic("secret-canary") }),
		otelhooks.Config{TracerProvider: provider})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic is lost")
			}
		}()
		_ = d.Dispatch(t.Context(), message())
	}()
	if spans := exporter.GetSpans(); len(spans) != 1 || len(spans[0].Events) != 0 {
		t.Errorf("got %+v", spans)
	}
}

func TestTheSinkGetsTheTraceContextOfTheSpan(t *testing.T) {
	provider, exporter := recording(t)
	tests := []struct {
		name  string
		cfg   otelhooks.Config
		links int
	}{
		{"linked", otelhooks.Config{TracerProvider: provider}, 1},
		{"same trace", otelhooks.Config{TracerProvider: provider, SameTrace: true}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			exporter.Reset()
			var got outbox.Meta
			var active trace.SpanContext
			d := otelhooks.Wrap(outbox.DispatcherFunc(func(ctx context.Context, msg outbox.DispatchedMessage) error {
				got, active = msg.Meta, trace.SpanContextFromContext(ctx)
				return nil
			}), tt.cfg)
			if err := d.Dispatch(t.Context(), message()); err != nil {
				t.Fatal(err)
			}
			span := exporter.GetSpans()[0]
			sc := span.SpanContext
			if want := "00-" + sc.TraceID().String() + "-" + sc.SpanID().String() + "-01"; got.TraceParent != want {
				t.Errorf("traceparent %s, want %s", got.TraceParent, want)
			}
			if active.SpanID() != sc.SpanID() {
				t.Error("the span is not active in the sink")
			}
			if len(span.Links) != tt.links {
				t.Errorf("%d links, want %d", len(span.Links), tt.links)
			}
			if same := strings.Contains(storedParent, sc.TraceID().String()); same != tt.cfg.SameTrace {
				t.Errorf("same trace: %t", same)
			}
			if want := map[bool]string{true: storedState, false: ""}[tt.cfg.SameTrace]; got.TraceState != want {
				t.Errorf("tracestate %q, want %q", got.TraceState, want)
			}
		})
	}
}

func TestWithoutAnSDKTheStoredContextIsForwarded(t *testing.T) {
	var got outbox.Meta
	d := otelhooks.Wrap(outbox.DispatcherFunc(func(_ context.Context, msg outbox.DispatchedMessage) error {
		got = msg.Meta
		return nil
	}), otelhooks.Config{TracerProvider: noop.NewTracerProvider()})
	if err := d.Dispatch(t.Context(), message()); err != nil {
		t.Fatal(err)
	}
	if got.TraceParent != storedParent || got.TraceState != storedState {
		t.Errorf("got %q %q", got.TraceParent, got.TraceState)
	}
}

func TestAMalformedStoredContextIsNoLink(t *testing.T) {
	for _, parent := range []string{"", "nonsense", "00-00000000000000000000000000000000-b7ad6b7169203331-01"} {
		provider, exporter := recording(t)
		msg := message()
		msg.Meta.TraceParent = parent
		ctx, outer := provider.Tracer("test").Start(t.Context(), "relay")
		if err := otelhooks.Wrap(returning(nil), otelhooks.Config{TracerProvider: provider}).Dispatch(ctx, msg); err != nil {
			t.Fatal(err)
		}
		outer.End()
		if links := find(t, exporter, "send shop.order.placed.v1").Links; len(links) != 0 {
			t.Errorf("%q: linked to %v", parent, links)
		}
	}
}

func TestEveryMessageOfABatchHasItsOwnSpan(t *testing.T) {
	provider, exporter := recording(t)
	next := &batcher{errs: []error{nil, outbox.Unavailable(errors.New("down"))}}
	d := otelhooks.Wrap(next, otelhooks.Config{TracerProvider: provider}).(outbox.BatchDispatcher)
	msgs := []outbox.DispatchedMessage{message(), message()}
	errs := d.DispatchBatch(t.Context(), msgs)

	if len(errs) != 2 || errs[0] != nil || !outbox.IsUnavailable(errs[1]) {
		t.Errorf("results %v", errs)
	}
	spans := exporter.GetSpans()
	if len(spans) != 2 || spans[0].Status.Code != codes.Unset || spans[1].Status.Code != codes.Error {
		t.Fatalf("spans %+v", spans)
	}
	for i, s := range spans {
		if !strings.Contains(next.got[i].Meta.TraceParent, s.SpanContext.SpanID().String()) {
			t.Errorf("message %d does not carry its span", i)
		}
		if msgs[i].Meta.TraceParent != storedParent {
			t.Error("the caller's message was changed")
		}
	}
}

func TestAWrappedDispatcherHasTheSameCapabilities(t *testing.T) {
	for _, next := range []outbox.Dispatcher{
		returning(nil),
		&batcher{},
		struct {
			outbox.Dispatcher
			outbox.Router
		}{returning(nil), route("kafka")},
		struct {
			*batcher
			outbox.Router
		}{&batcher{}, route("kafka")},
	} {
		d := otelhooks.Wrap(next, otelhooks.Config{})
		_, batchBefore := next.(outbox.BatchDispatcher)
		_, batchAfter := d.(outbox.BatchDispatcher)
		_, routeBefore := next.(outbox.Router)
		router, routeAfter := d.(outbox.Router)
		if batchBefore != batchAfter || routeBefore != routeAfter {
			t.Errorf("%T: batches %t, want %t; routes %t, want %t", next, batchAfter, batchBefore, routeAfter, routeBefore)
		}
		if routeAfter && router.Route("t") != "kafka" {
			t.Error("the route is lost")
		}
	}
}

func TestAWrappedRouterKeepsItsFanOutAndItsPolicies(t *testing.T) {
	for _, next := range []outbox.Dispatcher{
		struct {
			*batcher
			fan
		}{&batcher{}, fan{}},
		struct {
			outbox.Dispatcher
			fan
		}{returning(nil), fan{}},
	} {
		d := otelhooks.Wrap(next, otelhooks.Config{})
		if all := d.(outbox.FanOut).Routes("t"); !slices.Equal(all, []string{"kafka", "crm"}) {
			t.Errorf("the routes are %v", all)
		}
		if p := d.(outbox.PolicyRouter).Policy("crm"); p.Rate != 5 {
			t.Errorf("the policy is %+v", p)
		}
		if _, ok := d.(outbox.BatchDispatcher); ok != takesBatches(next) {
			t.Errorf("takes batches: %t", ok)
		}
	}
	plain := otelhooks.Wrap(struct {
		outbox.Dispatcher
		outbox.Router
	}{returning(nil), route("kafka")}, otelhooks.Config{})
	if _, ok := plain.(outbox.FanOut); ok {
		t.Error("a router became a fan-out, which orders keys across routes")
	}
	if p := plain.(outbox.PolicyRouter).Policy("kafka"); p != (outbox.RoutePolicy{}) {
		t.Errorf("the policy is %+v", p)
	}
}

func TestThereIsNothingToStoreWithoutASpan(t *testing.T) {
	if parent, state := otelhooks.Trace(t.Context()); parent != "" || state != "" {
		t.Errorf("got %q %q", parent, state)
	}
}

func returning(err error) outbox.Dispatcher {
	return outbox.DispatcherFunc(func(context.Context, outbox.DispatchedMessage) error { return err })
}

type batcher struct {
	errs []error
	got  []outbox.DispatchedMessage
}

func (b *batcher) Dispatch(context.Context, outbox.DispatchedMessage) error { return nil }

func (b *batcher) DispatchBatch(_ context.Context, msgs []outbox.DispatchedMessage) []error {
	b.got = slices.Clone(msgs)
	return b.errs
}

type route string

func (r route) Route(string) string { return string(r) }

// fan is a router with everything.
type fan struct{}

func (fan) Route(string) string    { return "kafka" }
func (fan) Routes(string) []string { return []string{"kafka", "crm"} }
func (fan) Policy(route string) outbox.RoutePolicy {
	return outbox.RoutePolicy{Rate: float64(len(route)) + 2}
}

func takesBatches(d outbox.Dispatcher) bool {
	_, ok := d.(outbox.BatchDispatcher)
	return ok
}
