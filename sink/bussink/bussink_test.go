package bussink_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/eventbus"
	"github.com/go-outbox/outbox/sink/bussink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const placed = "shop.order.placed.v1"

type OrderPlaced struct {
	Order int `json:"order"`
}

// newSink returns a sink that knows OrderPlaced, and its bus.
func newSink(t *testing.T, handlers ...any) *bussink.Sink {
	t.Helper()
	bus := eventbus.New()
	for _, h := range handlers {
		if _, err := bus.Subscribe(h); err != nil {
			t.Fatal(err)
		}
	}
	sink := bussink.New(bus)
	if err := bussink.Register[OrderPlaced](sink, placed); err != nil {
		t.Fatal(err)
	}
	return sink
}

func message(topic, payload string) outbox.DispatchedMessage {
	return outbox.DispatchedMessage{
		Meta:    outbox.Meta{Topic: topic, EventID: uuid.New(), Attempts: 1, Headers: map[string]string{"a": "b"}},
		Payload: json.RawMessage(payload),
	}
}

func verdictOf(err error) outbox.Verdict {
	v, _ := outbox.Classify(err)
	return v
}

func TestAHandlerGetsTheMetadataAndTheDecodedEvent(t *testing.T) {
	var meta *outbox.Meta
	var event *OrderPlaced
	sink := newSink(t, func(m *outbox.Meta, e *OrderPlaced) error {
		meta, event = m, e
		return nil
	})
	msg := message(placed, `{"order": 7, "added_later": true}`)

	if err := sink.Dispatch(t.Context(), msg); err != nil {
		t.Fatal(err)
	}

	if meta.EventID != msg.Meta.EventID || event.Order != 7 {
		t.Errorf("meta %+v, event %+v", meta, event)
	}
	msg.Meta.Headers["a"] = "reused by the relay"
	if meta.Headers["a"] != "b" {
		t.Error("the handler's headers are the relay's")
	}
}

func TestAPayloadThatDoesNotDecodeIsPermanent(t *testing.T) {
	sink := newSink(t, func(*outbox.Meta, *OrderPlaced) error { return nil })
	for _, payload := range []string{``, `{`, `{"order": "seven"}`} {
		if err := sink.Dispatch(t.Context(), message(placed, payload)); !outbox.IsPermanent(err) {
			t.Errorf("%q: %v, want a permanent error", payload, err)
		}
	}
}

func TestATopicWithoutATypeHasNoRouteAndIsNamed(t *testing.T) {
	err := newSink(t).Dispatch(t.Context(), message("shop.order.paid.v1", `{}`))

	if !errors.Is(err, outbox.ErrNoRoute) || outbox.CodeOf(err) != "OUTBOX_NO_ROUTE" {
		t.Errorf("got %v", err)
	}
	if want := `topic: no type is registered for "shop.order.paid.v1"`; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}

func TestNoSubscribersIsAnOrdinaryRetry(t *testing.T) {
	err := newSink(t).Dispatch(t.Context(), message(placed, `{}`))

	if !errors.Is(err, eventbus.ErrNoSubscribers) || verdictOf(err) != outbox.VerdictRetry {
		t.Errorf("got %v (%s)", err, verdictOf(err))
	}
}

func TestAMessageWithoutAnEventIDIsRefused(t *testing.T) {
	ran := false
	sink := newSink(t, func(*outbox.Meta, *OrderPlaced) { ran = true })
	msg := message(placed, `{}`)
	msg.Meta.EventID = uuid.Nil

	err := sink.Dispatch(t.Context(), msg)

	if !errors.Is(err, bussink.ErrNoEventID) || !outbox.IsPermanent(err) || ran {
		t.Errorf("got %v, handler ran: %v", err, ran)
	}
}

func TestAPanicIsARetry(t *testing.T) {
	sink := newSink(t, func(*outbox.Meta, *OrderPlaced) error { panic("boom") })

	if err := sink.Dispatch(t.Context(), message(placed, `{}`)); verdictOf(err) != outbox.VerdictRetry {
		t.Errorf("got %v (%s)", err, verdictOf(err))
	}
}

func TestVerdictsOfSeveralHandlers(t *testing.T) {
	plain := errors.New("timed out")
	permanent := outbox.Permanent(errors.New("malformed"))
	unavailable := outbox.Unavailable(errors.New("down"))
	tests := []struct {
		name          string
		first, second error
		want          outbox.Verdict
	}{
		{"both succeed", nil, nil, outbox.VerdictDelivered},
		{"only failure is permanent", nil, permanent, outbox.VerdictPermanent},
		{"both permanent", permanent, permanent, outbox.VerdictPermanent},
		{"both unavailable", unavailable, unavailable, outbox.VerdictUnavailable},
		{"permanent beside a failure", permanent, plain, outbox.VerdictRetry},
		{"a failure beside permanent", plain, permanent, outbox.VerdictRetry},
		{"permanent beside unavailable", permanent, unavailable, outbox.VerdictRetry},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sink := newSink(t,
				func(*outbox.Meta, *OrderPlaced) error { return tt.first },
				func(*outbox.Meta, *OrderPlaced) error { return tt.second })

			err := sink.Dispatch(t.Context(), message(placed, `{}`))

			if got := verdictOf(err); got != tt.want {
				t.Errorf("verdict %s of %v, want %s", got, err, tt.want)
			}
		})
	}
}

func TestTheDelayAHandlerAsksForIsKept(t *testing.T) {
	sink := newSink(t, func(*outbox.Meta, *OrderPlaced) error {
		return outbox.RetryAfter(errors.New("busy"), time.Minute)
	})

	_, after := outbox.Classify(sink.Dispatch(t.Context(), message(placed, `{}`)))

	if after != time.Minute {
		t.Errorf("retry after %s, want 1m", after)
	}
}

func TestATopicIsRegisteredOnce(t *testing.T) {
	err := bussink.Register[OrderPlaced](newSink(t), placed)

	if !errors.Is(err, outbox.ErrInvalidConfig) {
		t.Errorf("got %v", err)
	}
}

func TestOtherFormatsHaveTheirOwnDecoder(t *testing.T) {
	var got string
	sink := newSink(t, func(_ *outbox.Meta, s *string) { got = *s })
	err := bussink.RegisterFunc(sink, "shop.note.added.v1", func(p []byte) (*string, error) {
		s := string(p)
		return &s, nil
	})
	if err != nil {
		t.Fatal(err)
	}

	if err := sink.Dispatch(t.Context(), message("shop.note.added.v1", "plain text")); err != nil {
		t.Fatal(err)
	}

	if got != "plain text" {
		t.Errorf("got %q", got)
	}
}

func TestACancelledDispatchRunsNoHandler(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	sink := newSink(t, func(*outbox.Meta, *OrderPlaced) { t.Error("handler ran") })

	if err := sink.Dispatch(ctx, message(placed, `{}`)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func Example() {
	bus := eventbus.New()
	_, err := bus.Subscribe(func(meta *outbox.Meta, e *OrderPlaced) error {
		fmt.Printf("%s, attempt %d: order %d\n", meta.Topic, meta.Attempts, e.Order)
		return nil
	})
	if err != nil {
		panic(err)
	}
	sink := bussink.New(bus)
	if err := bussink.Register[OrderPlaced](sink, "shop.order.placed.v1"); err != nil {
		panic(err)
	}

	// A relay does this for every committed message.
	err = sink.Dispatch(context.Background(), outbox.DispatchedMessage{
		Meta:    outbox.Meta{Topic: "shop.order.placed.v1", EventID: uuid.New(), Attempts: 1},
		Payload: json.RawMessage(`{"order": 7}`),
	})
	fmt.Println(err)
	// Output:
	// shop.order.placed.v1, attempt 1: order 7
	// <nil>
}
