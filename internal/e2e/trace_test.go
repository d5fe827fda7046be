package e2e

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/otelhooks"
	"github.com/go-outbox/outbox/sink/natssink"
	"github.com/go-outbox/outbox/store/pgstore"
)

// One trace from an HTTP handler over PostgreSQL, the relay and NATS to a consumer: as a
// single trace, and as two that are linked at the relay.
func TestATraceGoesFromAHandlerToAConsumer(t *testing.T) {
	for _, tt := range []struct {
		name string
		same bool
	}{{"as one trace", true}, {"as two with a link", false}} {
		t.Run(tt.name, func(t *testing.T) {
			w := newTracedWorld(t, tt.same)

			request := w.post(t)
			delivery := w.consume(t)

			handler, send, process := w.span(t, "POST /orders"), w.span(t, "send "+w.topic), w.span(t, "process "+w.topic)
			if handler.SpanContext.TraceID() != request.TraceID() || handler.Parent.SpanID() != request.SpanID() {
				t.Errorf("the handler is not in the client's trace: %v", handler.SpanContext)
			}
			if process.Parent.SpanID() != send.SpanContext.SpanID() || process.SpanContext.TraceID() != send.SpanContext.TraceID() {
				t.Errorf("the consumer's parent is %v, want the dispatch %v", process.Parent, send.SpanContext)
			}
			if tt.same {
				if send.Parent.SpanID() != handler.SpanContext.SpanID() || send.SpanContext.TraceID() != request.TraceID() {
					t.Errorf("the parent of the dispatch is %v, want the handler %v", send.Parent, handler.SpanContext)
				}
			} else if len(send.Links) != 1 || send.Links[0].SpanContext.SpanID() != handler.SpanContext.SpanID() ||
				send.SpanContext.TraceID() == request.TraceID() {
				t.Errorf("the dispatch %v has links %v, want one to the handler %v", send.SpanContext, send.Links, handler.SpanContext)
			}
			if got := process.SpanContext.TraceState().Get("vendor"); tt.same && got != "7" {
				t.Errorf("the vendor's part of the trace state is %q at the consumer, want 7", got)
			}
			if delivery.Meta.Headers["traceparent"] != "" {
				t.Error("the trace became a header of the message")
			}
		})
	}
}

// A tracedWorld is a service, its relay and a NATS stream, each with its own tracer.
type tracedWorld struct {
	topic  string
	spans  *tracetest.SpanRecorder
	tracer trace.Tracer
	url    string // of the service
	inbox  jetstream.Consumer
}

func newTracedWorld(t *testing.T, same bool) *tracedWorld {
	t.Helper()
	w := &tracedWorld{spans: tracetest.NewSpanRecorder(), topic: "trace.order.placed.v1"}
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(w.spans))
	w.tracer = provider.Tracer("test")

	broker := testenv.NATS(t)
	w.inbox = newStream(t, broker, "trace")
	sink, err := natssink.Open(broker)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sink.Close() })

	pool := testenv.Postgres(t).Pool(t)
	store, err := pgstore.New(pool, pgstore.Config{Table: "shop_outbox", Gate: outbox.Gate{Trace: otelhooks.Trace}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	dispatcher := otelhooks.Wrap(sink, otelhooks.Config{TracerProvider: provider, System: "nats", SameTrace: same})
	t.Cleanup(run(t, store, dispatcher))

	server := httptest.NewServer(w.handler(pool, store))
	t.Cleanup(server.Close)
	w.url = server.URL
	return w
}

// handler enqueues an event in its own transaction, in the trace of its request.
func (w *tracedWorld) handler(pool *pgxpool.Pool, store *pgstore.Store) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := w.tracer.Start(ctx, "POST /orders", trace.WithSpanKind(trace.SpanKindServer))
		defer span.End()
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := store.Enqueue(ctx, tx, outbox.Message{Topic: w.topic, Payload: []byte(`{"order":1}`)})
			return err
		})
		if err != nil {
			http.Error(rw, err.Error(), http.StatusInternalServerError)
			return
		}
		rw.WriteHeader(http.StatusNoContent)
	})
}

// post sends a request from a client with a trace of its own, and returns that.
func (w *tracedWorld) post(t *testing.T) trace.SpanContext {
	t.Helper()
	state, err := trace.ParseTraceState("vendor=7")
	if err != nil {
		t.Fatal(err)
	}
	client := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled, TraceState: state,
	})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+"/orders", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(t.Context(), client), propagation.HeaderCarrier(request.Header))
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusNoContent {
		t.Fatalf("the service answered %s", response.Status)
	}
	return client
}

// consume takes the event from the stream and continues its trace.
func (w *tracedWorld) consume(t *testing.T) outbox.DispatchedMessage {
	t.Helper()
	native, err := w.inbox.Next(jetstream.FetchMaxWait(30 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	msg, err := natssink.Parse(native)
	if err != nil {
		t.Fatal(err)
	}
	ctx := otelhooks.Context(t.Context(), msg.Meta.TraceParent, msg.Meta.TraceState)
	_, span := w.tracer.Start(ctx, "process "+msg.Meta.Topic, trace.WithSpanKind(trace.SpanKindConsumer))
	span.End()
	if err := native.Ack(); err != nil {
		t.Fatal(err)
	}
	return msg
}

// span waits for a span to end: the dispatch's does a moment after its message is out.
func (w *tracedWorld) span(t *testing.T, name string) tracetest.SpanStub {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for pause(ctx, time.Millisecond) {
		for _, s := range w.spans.Ended() {
			if s.Name() == name {
				return tracetest.SpanStubFromReadOnlySpan(s)
			}
		}
	}
	t.Fatalf("there is no span %q", name)
	return tracetest.SpanStub{}
}

// newStream makes a stream and a consumer of it that t owns.
func newStream(t *testing.T, url, name string) jetstream.Consumer {
	t.Helper()
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{name + ".>"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := js.DeleteStream(context.WithoutCancel(t.Context()), name); err != nil {
			t.Error(err)
		}
	})
	consumer, err := stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: name, AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		t.Fatal(err)
	}
	return consumer
}
