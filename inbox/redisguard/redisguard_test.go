package redisguard_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/inbox/redisguard"
	"github.com/go-outbox/outbox/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func connect(t *testing.T) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(testenv.Redis(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { client.Close() })
	return client
}

func newGuard(t *testing.T, client redis.Cmdable) *redisguard.Guard {
	t.Helper()
	guard, err := redisguard.New(client, redisguard.Config{Failed: func(err error) { t.Errorf("redis: %v", err) }})
	if err != nil {
		t.Fatal(err)
	}
	return guard
}

func message() outbox.DispatchedMessage {
	return outbox.DispatchedMessage{Meta: outbox.Meta{EventID: uuid.New(), Topic: "shop.order.placed.v1"}, Payload: []byte(`{}`)}
}

func TestTheKeyIsWrittenAfterTheEffectForADay(t *testing.T) {
	client := connect(t)
	guard, event := newGuard(t, client), uuid.New()
	key := "outbox:dispatched:" + event.String()

	ran, err := guard.Once(t.Context(), event, func() error { return errors.New("broken") })
	if ran || err == nil || client.Exists(t.Context(), key).Val() != 0 {
		t.Errorf("a failed handler: %v, %v, or a key", ran, err)
	}
	ran, err = guard.Once(t.Context(), event, func() error {
		if client.Exists(t.Context(), key).Val() != 0 {
			t.Error("the key is there before the effect")
		}
		return nil
	})
	if !ran || err != nil {
		t.Errorf("got %v, %v", ran, err)
	}
	if ttl := client.TTL(t.Context(), key).Val(); ttl < 23*time.Hour || ttl > 24*time.Hour {
		t.Errorf("the key lives for %s", ttl)
	}
	if ran, err := guard.Once(t.Context(), event, func() error { t.Error("it ran twice"); return nil }); ran || err != nil {
		t.Errorf("the duplicate: %v, %v", ran, err)
	}
}

func TestAPanicLeavesNoKey(t *testing.T) {
	client := connect(t)
	guard, event := newGuard(t, client), uuid.New()
	func() {
		defer func() { _ = recover() }()
		_, _ = guard.Once(t.Context(), event, func() error { panic("crash") })
	}()
	if ran, err := guard.Once(t.Context(), event, func() error { return nil }); !ran || err != nil {
		t.Errorf("got %v, %v", ran, err)
	}
}

func TestARedisThatIsDownLetsEverythingThrough(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	defer client.Close()
	var failures []error
	guard, err := redisguard.New(client, redisguard.Config{Failed: func(err error) { failures = append(failures, err) }})
	if err != nil {
		t.Fatal(err)
	}
	event := uuid.New()
	for range 2 {
		if ran, err := guard.Once(t.Context(), event, func() error { return nil }); !ran || err != nil {
			t.Errorf("got %v, %v", ran, err)
		}
	}
	sent := 0
	next := outbox.DispatcherFunc(func(context.Context, outbox.DispatchedMessage) error { sent++; return nil })
	if err := guard.Dispatcher(next).Dispatch(t.Context(), message()); err != nil || sent != 1 {
		t.Errorf("sent %d: %v", sent, err)
	}
	if len(failures) != 6 {
		t.Errorf("it told of %d failures: %v", len(failures), failures)
	}
}

func TestARelayMarksWhatTheSinkAcknowledged(t *testing.T) {
	client := connect(t)
	var answer error
	sent := 0
	dispatcher := newGuard(t, client).Dispatcher(outbox.DispatcherFunc(func(ctx context.Context, msg outbox.DispatchedMessage) error {
		sent++
		if client.Exists(ctx, "outbox:dispatched:"+msg.Meta.DedupID()).Val() != 0 {
			t.Error("the key is there before the acknowledgement")
		}
		return answer
	}))
	if _, ok := dispatcher.(outbox.BatchDispatcher); ok {
		t.Error("it takes batches, and what it guards does not")
	}
	if _, ok := dispatcher.(outbox.Router); ok {
		t.Error("it has routes, and what it guards does not")
	}
	msg := message()
	for _, step := range []struct {
		answer error
		replay int
		want   int
	}{{errors.New("unknown"), 0, 1}, {nil, 0, 2}, {nil, 0, 2}, {nil, 1, 3}, {nil, 1, 3}} {
		answer, msg.Meta.Replays = step.answer, step.replay
		if err := dispatcher.Dispatch(t.Context(), msg); !errors.Is(err, answer) || sent != step.want {
			t.Fatalf("sent %d times, want %d: %v", sent, step.want, err)
		}
	}
}

// A fanOut takes batches and has two routes.
type fanOut struct {
	got  []outbox.DispatchedMessage
	fail map[string]error
	bad  bool
}

func (f *fanOut) Route(string) string                  { return "a" }
func (f *fanOut) Routes(string) []string               { return []string{"a", "b"} }
func (f *fanOut) Policy(string) outbox.RoutePolicy     { return outbox.RoutePolicy{Rate: 7} }
func (f *fanOut) one(m outbox.DispatchedMessage) error { f.got = append(f.got, m); return f.result(m) }

func (f *fanOut) Dispatch(_ context.Context, m outbox.DispatchedMessage) error { return f.one(m) }

func (f *fanOut) DispatchBatch(_ context.Context, msgs []outbox.DispatchedMessage) []error {
	if f.bad {
		return nil
	}
	errs := make([]error, len(msgs))
	for i, m := range msgs {
		errs[i] = f.one(m)
	}
	return errs
}

func (f *fanOut) result(m outbox.DispatchedMessage) error {
	errs := outbox.RouteErrors{}
	for _, route := range m.Meta.Routes {
		if err := f.fail[route]; err != nil {
			errs[route] = err
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("batch: %w", errs)
}

func TestEachRouteHasItsOwnKey(t *testing.T) {
	sink := &fanOut{fail: map[string]error{"b": errors.New("down")}}
	dispatcher := newGuard(t, connect(t)).Dispatcher(sink)
	if r := dispatcher.(outbox.FanOut); r.Route("x") != "a" || len(r.Routes("x")) != 2 {
		t.Error("the routes are not those of the sink")
	}
	if p := dispatcher.(outbox.PolicyRouter); p.Policy("a").Rate != 7 {
		t.Error("the policy is not that of the sink")
	}
	batch := dispatcher.(outbox.BatchDispatcher)
	both, plain := message(), message()
	both.Meta.Routes = []string{"a", "b"}
	msgs := []outbox.DispatchedMessage{plain, both}

	if errs := batch.DispatchBatch(t.Context(), msgs); errs[0] != nil || errs[1] == nil {
		t.Fatalf("got %v", errs)
	}
	sink.fail, sink.got = nil, nil
	if errs := batch.DispatchBatch(t.Context(), msgs); errs[0] != nil || errs[1] != nil {
		t.Fatalf("got %v", errs)
	}
	if len(sink.got) != 1 || !slices.Equal(sink.got[0].Meta.Routes, []string{"b"}) {
		t.Errorf("sent again: %v", sink.got)
	}
	sink.got = nil
	if errs := batch.DispatchBatch(t.Context(), msgs); errs[0] != nil || errs[1] != nil || len(sink.got) != 0 {
		t.Errorf("got %v, sent %v", errs, sink.got)
	}
	if !slices.Equal(both.Meta.Routes, []string{"a", "b"}) {
		t.Error("the message of the relay was changed")
	}
}

func TestABatchWithoutResultsFails(t *testing.T) {
	dispatcher := newGuard(t, connect(t)).Dispatcher(&fanOut{bad: true}).(outbox.BatchDispatcher)
	msgs := []outbox.DispatchedMessage{message(), message()}
	if errs := dispatcher.DispatchBatch(t.Context(), msgs); len(errs) == len(msgs) {
		t.Errorf("got %v", errs)
	}
}

func TestBadInputIsRefused(t *testing.T) {
	if _, err := redisguard.New(nil, redisguard.Config{TTL: -1, Timeout: -1}); !errors.Is(err, outbox.ErrInvalidConfig) {
		t.Errorf("got %v", err)
	}
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	guard, err := redisguard.New(client, redisguard.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := guard.Once(t.Context(), uuid.Nil, func() error { t.Error("it ran"); return nil }); !errors.Is(err, outbox.ErrInvalidMessage) {
		t.Errorf("got %v", err)
	}
}
