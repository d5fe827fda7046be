// Package otelhooks carries traces through the outbox, with the OpenTelemetry API alone:
// which SDK and exporter are used, if any, is the application's choice.
//
// [Trace] stores the trace context of an enqueue with the message. [Wrap] gives every
// dispatch a producer span that is linked to it and hands the span's own context to the
// sink, so that a consumer continues from there. Every attempt is a span.
//
// Spans carry topic, event id, table, sequence and attempt. Payloads, headers, keys and
// tenants are never attributes, and error texts are those that are safe to store. A
// message whose stored trace context is missing or malformed is dispatched all the same,
// without a link.
package otelhooks

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/go-outbox/outbox"
)

const scope = "github.com/go-outbox/outbox/otelhooks"

// Trace returns the W3C trace context of the span in ctx, or nothing when there is none.
// Set it as outbox.Gate.Trace.
func Trace(ctx context.Context) (traceparent, tracestate string) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return "", ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"], carrier["tracestate"]
}

// Context returns ctx with a stored trace context as the remote parent of spans that are
// started from it: how a consumer continues a trace. A malformed one leaves ctx as it is.
func Context(ctx context.Context, traceparent, tracestate string) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent, "tracestate": tracestate})
}

// Config tunes Wrap. The zero value is right for most.
type Config struct {
	// TracerProvider makes the spans. Defaults to the global one.
	TracerProvider trace.TracerProvider
	// System is the messaging.system attribute, such as kafka, nats or rabbitmq.
	// Defaults to outbox.
	System string
	// SameTrace makes the span a child of the stored one instead of a linked root:
	// one trace from the enqueue to the consumer, sampled as the enqueue was, which
	// lasts as long as the delivery takes. With links, the relay's sampler decides.
	SameTrace bool
}

// Wrap returns a dispatcher that traces next. It takes batches, and has routes with their
// policies and fan-out, as next does.
func Wrap(next outbox.Dispatcher, cfg Config) outbox.Dispatcher {
	if cfg.TracerProvider == nil {
		cfg.TracerProvider = otel.GetTracerProvider()
	}
	if cfg.System == "" {
		cfg.System = "outbox"
	}
	d := &dispatcher{
		next: next, tracer: cfg.TracerProvider.Tracer(scope),
		system: attribute.String("messaging.system", cfg.System), same: cfg.SameTrace,
	}
	batch, takesBatches := next.(outbox.BatchDispatcher)
	all, fansOut := next.(outbox.FanOut)
	one, isRouter := next.(outbox.Router)
	switch b := (&batchDispatcher{d, batch}); {
	case takesBatches && fansOut:
		return struct {
			*batchDispatcher
			fanOut
		}{b, fanOut{router{all}, all}}
	case takesBatches && isRouter:
		return struct {
			*batchDispatcher
			router
		}{b, router{one}}
	case takesBatches:
		return b
	case fansOut:
		return struct {
			*dispatcher
			fanOut
		}{d, fanOut{router{all}, all}}
	case isRouter:
		return struct {
			*dispatcher
			router
		}{d, router{one}}
	}
	return d
}

// A router has policies whether next has them or not: the zero value is the relay's own.
type router struct{ next outbox.Router }

func (r router) Route(topic string) string { return r.next.Route(topic) }

func (r router) Policy(route string) outbox.RoutePolicy {
	if p, ok := r.next.(outbox.PolicyRouter); ok {
		return p.Policy(route)
	}
	return outbox.RoutePolicy{}
}

// A fanOut is told from a router by the relay: it orders keys across routes.
type fanOut struct {
	router
	all outbox.FanOut
}

func (f fanOut) Routes(topic string) []string { return f.all.Routes(topic) }

type dispatcher struct {
	next   outbox.Dispatcher
	tracer trace.Tracer
	system attribute.KeyValue
	same   bool
}

func (d *dispatcher) Dispatch(ctx context.Context, msg outbox.DispatchedMessage) error {
	ctx, span := d.start(ctx, &msg)
	// Not deferred directly: an SDK's End would then record the text of a panic.
	defer func() { span.End() }()
	err := d.next.Dispatch(ctx, msg)
	note(span, err, msg.Payload)
	return err
}

// start begins the span of a dispatch and puts its context into the message.
func (d *dispatcher) start(ctx context.Context, msg *outbox.DispatchedMessage) (context.Context, trace.Span) {
	m := &msg.Meta
	options := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithAttributes(
			d.system,
			attribute.String("messaging.operation.name", "send"),
			attribute.String("messaging.operation.type", "send"),
			attribute.String("messaging.destination.name", m.Topic),
			attribute.String("messaging.message.id", m.EventID.String()),
			attribute.Int("messaging.message.body.size", len(msg.Payload)),
			attribute.String("outbox.table", m.Table),
			attribute.Int64("outbox.sequence", m.Sequence),
			attribute.Int("outbox.attempts", m.Attempts),
		),
	}
	stored := Context(trace.ContextWithSpanContext(ctx, trace.SpanContext{}), m.TraceParent, m.TraceState)
	origin := trace.SpanContextFromContext(stored)
	switch {
	case !origin.IsValid():
	case d.same:
		ctx = stored
	default:
		options = append(options, trace.WithLinks(trace.Link{SpanContext: origin}))
	}
	ctx, span := d.tracer.Start(ctx, "send "+m.Topic, options...)
	// Without an SDK there is no span; what was stored is better than nothing.
	if parent, state := Trace(ctx); parent != "" {
		m.TraceParent, m.TraceState = parent, state
	}
	return ctx, span
}

// note records the result of a dispatch.
func note(span trace.Span, err error, payload []byte) {
	if err == nil || !span.IsRecording() {
		return
	}
	verdict, _ := outbox.Classify(err)
	span.SetAttributes(attribute.String("error.type", verdict.String()))
	span.SetStatus(codes.Error, outbox.SanitizeError(err, payload, 0))
}

type batchDispatcher struct {
	*dispatcher
	batch outbox.BatchDispatcher
}

// DispatchBatch gives every message its own span: they belong to different traces and
// have different results.
func (d *batchDispatcher) DispatchBatch(ctx context.Context, msgs []outbox.DispatchedMessage) []error {
	traced := make([]outbox.DispatchedMessage, len(msgs))
	spans := make([]trace.Span, len(msgs))
	defer func() {
		for _, s := range spans {
			s.End()
		}
	}()
	for i := range msgs {
		traced[i] = msgs[i]
		_, spans[i] = d.start(ctx, &traced[i])
	}
	errs := d.batch.DispatchBatch(ctx, traced)
	if len(errs) == len(spans) { // otherwise the relay counts all as failed
		for i, err := range errs {
			note(spans[i], err, msgs[i].Payload)
		}
	}
	return errs
}
