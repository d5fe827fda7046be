package sink_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/sink"
)

// A tray remembers the topics it got, and answers as told.
type tray struct {
	mu     sync.Mutex
	got    []string
	answer error
	panics bool
}

func (s *tray) Dispatch(_ context.Context, msg outbox.DispatchedMessage) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.panics {
		panic("tray")
	}
	if msg.Meta.Routes != nil {
		return errors.New("a sink is not told of routes")
	}
	s.got = append(s.got, msg.Meta.Topic)
	return s.answer
}

// batchTray takes batches.
type batchTray struct{ *tray }

func (s batchTray) DispatchBatch(ctx context.Context, msgs []outbox.DispatchedMessage) []error {
	errs := make([]error, len(msgs))
	for i := range msgs {
		errs[i] = s.Dispatch(ctx, msgs[i])
	}
	return errs
}

func about(topic string, routes ...string) outbox.DispatchedMessage {
	return outbox.DispatchedMessage{
		Meta: outbox.Meta{Topic: topic, EventID: uuid.New(), Routes: routes}, Payload: []byte("1"),
	}
}

// fan makes a router of an archive that takes everything and two ordinary routes.
func fan(t *testing.T, batches bool) (r sink.Router, archive, orders, rest *tray) {
	t.Helper()
	archive, orders, rest = &tray{}, &tray{}, &tray{}
	as := func(s *tray) outbox.Dispatcher {
		if batches {
			return batchTray{s}
		}
		return s
	}
	r, err := sink.NewRouter(
		sink.Route{Name: "archive", Topics: []string{"**"}, Sink: as(archive), Topic: "archive.{topic}", Continue: true},
		sink.Route{Name: "orders", Topics: []string{"shop.order.**"}, Sink: as(orders), Policy: outbox.RoutePolicy{Rate: 5}},
		sink.Route{Name: "rest", Topics: []string{"shop.**"}, Sink: as(rest)},
	)
	if err != nil {
		t.Fatal(err)
	}
	return r, archive, orders, rest
}

func TestARouteThatContinuesSharesItsMessages(t *testing.T) {
	r, archive, orders, rest := fan(t, false)
	routes, ok := r.(outbox.FanOut)
	if !ok {
		t.Fatal("the router does not tell the relay")
	}
	for topic, want := range map[string][]string{
		"shop.order.placed": {"archive", "orders"}, "shop.cart": {"archive", "rest"}, "other": {"archive"},
	} {
		if got := routes.Routes(topic); !slices.Equal(got, want) {
			t.Errorf("%s goes to %v, want %v", topic, got, want)
		}
	}
	if err := r.Dispatch(t.Context(), about("shop.order.placed")); err != nil {
		t.Error(err)
	}
	if err := r.Dispatch(t.Context(), about("shop.order.paid", "orders")); err != nil {
		t.Error(err)
	}
	if !slices.Equal(archive.got, []string{"archive.shop.order.placed"}) ||
		!slices.Equal(orders.got, []string{"shop.order.placed", "shop.order.paid"}) || rest.got != nil {
		t.Errorf("archive %v, orders %v, rest %v", archive.got, orders.got, rest.got)
	}
	if r.Policy("orders").Rate != 5 || r.Policy("rest").Rate != 0 || r.Policy("nobody").Rate != 0 {
		t.Error("the policies are not those of the routes")
	}
}

func TestRoutesFailApart(t *testing.T) {
	for _, batches := range []bool{false, true} {
		r, archive, orders, _ := fan(t, batches)
		dispatch := func(msg outbox.DispatchedMessage) error {
			if b, ok := r.(outbox.BatchDispatcher); ok {
				return b.DispatchBatch(t.Context(), []outbox.DispatchedMessage{msg, about("shop.cart", "rest")})[0]
			}
			return r.Dispatch(t.Context(), msg)
		}
		boom := errors.New("boom")
		orders.answer = boom

		err := dispatch(about("shop.order.placed", "archive", "orders"))

		errs, ok := errors.AsType[outbox.RouteErrors](err)
		if !ok || len(errs) != 1 || !errors.Is(errs["orders"], boom) || len(archive.got) != 1 {
			t.Errorf("batches %t: got %v, archive %v", batches, err, archive.got)
		}
		err = dispatch(about("shop.order.placed", "orders"))
		if errs, _ := errors.AsType[outbox.RouteErrors](err); !errors.Is(errs["orders"], boom) {
			t.Errorf("batches %t: a single leg answered %v", batches, err)
		}
		orders.panics = true
		err = dispatch(about("shop.order.placed", "archive", "orders"))
		if errs, _ := errors.AsType[outbox.RouteErrors](err); len(errs) != 1 || errs["orders"] == nil {
			t.Errorf("batches %t: a panic answered %v", batches, err)
		}
	}
}

func TestARouterWithoutSharedRoutesIsNoFanOut(t *testing.T) {
	r, err := sink.NewRouter(sink.Route{Name: "all", Topics: []string{"**"}, Sink: &tray{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := r.(outbox.FanOut); ok {
		t.Error("the relay would pay for what nobody uses")
	}
}

func TestARouteSaysWhatIsWrongWithIt(t *testing.T) {
	for name, route := range map[string]sink.Route{
		"an unknown field":  {Name: "r", Topics: []string{"a"}, Sink: &tray{}, Topic: "{nobody}"},
		"a bad pattern":     {Name: "r", Topics: []string{"a..b"}, Sink: &tray{}},
		"no sink":           {Name: "r", Topics: []string{"a"}},
		"a bad envelope":    {Name: "r", Topics: []string{"a"}, Sink: &tray{}, Envelope: sink.Envelope{Format: "soap"}},
		"a negative rate":   {Name: "r", Topics: []string{"a"}, Sink: &tray{}, Policy: outbox.RoutePolicy{Rate: -1}},
		"a hopeless policy": {Name: "r", Topics: []string{"a"}, Sink: &tray{}, Policy: outbox.RoutePolicy{Retry: &outbox.RetryPolicy{MaxAttempts: -1}}},
	} {
		if err := route.Validate(); !errors.Is(err, outbox.ErrInvalidConfig) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if err := (sink.Route{Name: "r", Topics: []string{"a.**"}, Sink: &tray{}}).Validate(); err != nil {
		t.Error(err)
	}
}
