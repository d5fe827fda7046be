package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/store/memstore"
)

// A switchboard is a dispatcher whose routes answer as told. A topic is the name of its
// route, or of several joined by "+".
type switchboard struct {
	mu       sync.Mutex
	routes   map[string][]string // topic to routes; a topic that is not in it is its own
	policies map[string]outbox.RoutePolicy
	answer   func(ctx context.Context, route string, msg outbox.DispatchedMessage) error
	got      map[string][]outbox.DispatchedMessage
	at       map[string][]time.Time
}

func newSwitchboard() *switchboard {
	return &switchboard{
		routes: map[string][]string{}, policies: map[string]outbox.RoutePolicy{},
		got: map[string][]outbox.DispatchedMessage{}, at: map[string][]time.Time{},
	}
}

func (s *switchboard) Routes(topic string) []string {
	if routes := s.routes[topic]; routes != nil {
		return routes
	}
	return []string{topic}
}

func (s *switchboard) Route(topic string) string              { return s.Routes(topic)[0] }
func (s *switchboard) Policy(route string) outbox.RoutePolicy { return s.policies[route] }

func (s *switchboard) Dispatch(ctx context.Context, msg outbox.DispatchedMessage) error {
	if msg.Meta.Routes == nil {
		return s.deliver(ctx, s.Route(msg.Meta.Topic), msg)
	}
	errs := outbox.RouteErrors{}
	for _, route := range msg.Meta.Routes {
		if err := s.deliver(ctx, route, msg); err != nil {
			errs[route] = err
		}
	}
	if len(errs) > 0 {
		return errs
	}
	return nil
}

func (s *switchboard) deliver(ctx context.Context, route string, msg outbox.DispatchedMessage) error {
	s.mu.Lock()
	answer := s.answer
	s.mu.Unlock()
	if answer != nil {
		if err := answer(ctx, route, msg); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got[route] = append(s.got[route], msg)
	s.at[route] = append(s.at[route], time.Now())
	return nil
}

func (s *switchboard) answers(f func(ctx context.Context, route string, msg outbox.DispatchedMessage) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = f
}

func (s *switchboard) count(route string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.got[route])
}

// send enqueues a message of a topic.
func send(t *testing.T, s *memstore.Store, topic, key string) uuid.UUID {
	t.Helper()
	id := uuid.New()
	msg := outbox.Message{Topic: topic, Key: key, Payload: []byte(`1`), EventID: id}
	if _, err := s.EnqueueAutocommit(t.Context(), msg); err != nil {
		t.Fatal(err)
	}
	return id
}

// free is a store that takes any topic.
func free(t *testing.T) *memstore.Store {
	t.Helper()
	return newStore(t, memstore.Config{Gate: outbox.Gate{Topics: outbox.AnyTopic}})
}

func operate(t *testing.T, s outbox.Operator, a outbox.Action) {
	t.Helper()
	a.Actor, a.Reason = "ann", "test"
	if _, err := s.Apply(t.Context(), a); err != nil {
		t.Fatal(err)
	}
}

func TestAPausedRouteWaitsAndTheOthersGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := free(t), newSwitchboard()
		_, stop := start(t, store, sink, Config{})
		operate(t, store, outbox.Action{Verb: outbox.VerbPause, Route: "a"})
		pass(time.Minute)
		var ids []uuid.UUID
		for range 10 {
			ids = append(ids, send(t, store, "a", "k"))
			send(t, store, "b", "k")
		}
		pass(time.Hour)
		if sink.count("a") != 0 || sink.count("b") != 10 {
			t.Errorf("a got %d, b %d", sink.count("a"), sink.count("b"))
		}
		stop() // a pause outlives the relay
		_, stop = start(t, store, sink, Config{})
		defer stop()
		pass(time.Minute)
		if sink.count("a") != 0 {
			t.Error("the next relay delivers to a paused route")
		}
		operate(t, store, outbox.Action{Verb: outbox.VerbResume, Route: "a"})
		pass(time.Minute)
		if sink.count("a") != 10 || !slices.IsSortedFunc(sink.got["a"], bySequenceOf) {
			t.Errorf("a got %d when it was resumed", sink.count("a"))
		}
		for _, id := range ids {
			if rec := get(t, store, id); rec.Attempts != 1 {
				t.Errorf("the pause cost %d attempts", rec.Attempts-1)
			}
		}
	})
}

func bySequenceOf(a, b outbox.DispatchedMessage) int { return int(a.Meta.Sequence - b.Meta.Sequence) }

// S-38: a destination that is gone is not asked again until a person says so.
func TestARouteThatIsGoneIsPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := free(t), newSwitchboard()
		var asked atomic.Int64
		sink.answers(func(context.Context, string, outbox.DispatchedMessage) error {
			asked.Add(1)
			return outbox.Unavailable(outbox.ErrGone.Wrap(errors.New("410")))
		})
		_, stop := start(t, store, sink, Config{})
		defer stop()
		id := send(t, store, "a", "")
		pass(24 * time.Hour)
		if asked.Load() != 1 {
			t.Errorf("it was asked %d times", asked.Load())
		}
		stats, err := store.Stats(t.Context())
		if err != nil || len(stats.Paused) != 1 || stats.Paused[0].Route != "a" {
			t.Fatalf("paused are %+v, %v", stats.Paused, err)
		}
		sink.answers(nil)
		operate(t, store, outbox.Action{Verb: outbox.VerbResume, Route: "a"})
		pass(2 * time.Minute)
		if status(t, store, id) != outbox.StatusPublished {
			t.Errorf("it is %s after the resume", status(t, store, id))
		}
	})
}

// F-41: a receiver that refuses everything stops the line.
func TestAFloodOfRefusalsStopsTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := free(t), newSwitchboard()
		sink.answers(func(_ context.Context, route string, _ outbox.DispatchedMessage) error {
			if route == "a" {
				return outbox.Permanent(errors.New("400 bad request"))
			}
			return nil
		})
		for range 1500 {
			send(t, store, "a", "")
			send(t, store, "b", "")
		}
		_, stop := start(t, store, sink, Config{Concurrency: 8})
		defer stop()
		pass(time.Hour)
		stats, err := store.Stats(t.Context())
		if err != nil || stats.Dead < stopAfter || stats.Dead > stopAfter+8 {
			t.Errorf("%d are dead, want %d and what was in flight (%v)", stats.Dead, stopAfter, err)
		}
		if len(stats.Paused) != 1 || stats.Paused[0].Route != "a" || sink.count("b") != 1500 {
			t.Errorf("paused are %+v, b got %d", stats.Paused, sink.count("b"))
		}
	})
}

// F-40, and 5xx or timeouts instead of a refused connection: whoever fails everything
// is not asked everything.
func TestADestinationThatFailsEverythingIsProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := free(t), newSwitchboard()
		var asked atomic.Int64
		sink.answers(func(context.Context, string, outbox.DispatchedMessage) error { asked.Add(1); return errors.New("500") })
		var ids []uuid.UUID
		for range 1000 {
			ids = append(ids, send(t, store, "a", ""))
		}
		_, stop := start(t, store, sink, Config{Concurrency: 4})
		defer stop()
		pass(10 * time.Minute)
		if most := int64(tripAfter + 4 + 2*60); asked.Load() > most {
			t.Errorf("it was asked %d times in ten minutes, want at most %d", asked.Load(), most)
		}
		for _, id := range ids[500:] {
			if rec := get(t, store, id); rec.Attempts != 0 {
				t.Fatalf("a message that was never sent has %d attempts", rec.Attempts)
			}
		}
		sink.answers(nil)
		pass(2 * time.Minute)
		if sink.count("a") != 1000 {
			t.Errorf("%d were delivered when it was back", sink.count("a"))
		}
		entries, err := store.Audit(t.Context(), outbox.AuditFilter{})
		if err != nil || len(entries) != 2 || entries[0].Verb != outbox.VerbCircuitClose || entries[1].Verb != outbox.VerbCircuitOpen || entries[1].Route != "a" {
			t.Errorf("the outage is recorded as %+v, %v", entries, err)
		}
	})
}

func TestOneMessageThatFailsSaysNothingAboutItsRoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := free(t), newSwitchboard()
		sink.answers(func(_ context.Context, _ string, m outbox.DispatchedMessage) error {
			if m.Meta.Key == "poison" {
				return errors.New("500")
			}
			return nil
		})
		var opened atomic.Bool
		_, stop := start(t, store, sink, Config{
			Retries: outbox.Retries{Default: outbox.RetryPolicy{MaxAttempts: 1000}},
			Hooks: Hooks{Circuit: func(_, _ string, open bool) {
				if open {
					opened.Store(true)
				}
			}},
		})
		defer stop()
		send(t, store, "a", "poison")
		pass(time.Hour)
		if opened.Load() {
			t.Error("a single message opened the circuit")
		}
	})
}

// F-39, F-40: an outage of ten minutes kills nobody and costs no attempt, and what has
// piled up returns at the rate of the route.
func TestAfterAnOutageTheRateHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, rate = 6_000, 500
		store, sink := free(t), newSwitchboard()
		sink.policies["a"] = outbox.RoutePolicy{Rate: rate}
		down := time.Now().Add(10 * time.Minute)
		var probes atomic.Int64
		sink.answers(func(context.Context, string, outbox.DispatchedMessage) error {
			if time.Now().Before(down) {
				probes.Add(1)
				return outbox.Unavailable(errors.New("connection refused"))
			}
			return nil
		})
		var ids []uuid.UUID
		for range n {
			ids = append(ids, send(t, store, "a", ""))
		}
		_, stop := start(t, store, sink, Config{})
		defer stop()
		pass(10*time.Minute + 2*time.Minute)
		if sink.count("a") != n {
			t.Fatalf("%d of %d delivered", sink.count("a"), n)
		}
		for _, id := range ids {
			if rec := get(t, store, id); rec.Attempts != 1 {
				t.Fatalf("the outage cost %d attempts", rec.Attempts-1)
			}
		}
		at := sink.at["a"]
		for i := range at {
			last, _ := slices.BinarySearchFunc(at, at[i].Add(time.Second), time.Time.Compare)
			if last-i > rate*11/10 {
				t.Fatalf("%d messages within a second, the rate is %d", last-i, rate)
			}
		}
		if took := at[n-1].Sub(at[0]); took > time.Duration(n/rate)*time.Second*11/10 {
			t.Errorf("it took %s", took)
		}
		if probes.Load() > 100 {
			t.Errorf("%d probes in ten minutes", probes.Load())
		}
	})
}

func TestTheConcurrencyOfARouteHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := free(t), newSwitchboard()
		sink.policies["a"] = outbox.RoutePolicy{Concurrency: 3}
		var mu sync.Mutex
		now, most := map[string]int{}, map[string]int{}
		sink.answers(func(_ context.Context, route string, _ outbox.DispatchedMessage) error {
			mu.Lock()
			now[route]++
			most[route] = max(most[route], now[route])
			mu.Unlock()
			<-time.After(100 * time.Millisecond)
			mu.Lock()
			now[route]--
			mu.Unlock()
			return nil
		})
		for range 100 {
			send(t, store, "a", "")
			send(t, store, "b", "")
		}
		_, stop := start(t, store, sink, Config{Concurrency: 20})
		defer stop()
		pass(time.Minute)
		if most["a"] != 3 || most["b"] != 20 || sink.count("a") != 100 || sink.count("b") != 100 {
			t.Errorf("at once %v, delivered %d and %d", most, sink.count("a"), sink.count("b"))
		}
	})
}

// A route that hangs for good keeps neither the workers nor the window.
func TestARouteThatHangsLeavesRoomForTheOthers(t *testing.T) {
	for name, ids := range map[string]func(i int) string{
		"without keys": func(int) string { return "" },
		"with keys":    func(i int) string { return fmt.Sprint(i % 50) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const n = 2000
				store, sink := free(t), newSwitchboard()
				var hangs atomic.Bool
				hangs.Store(true)
				sink.answers(func(ctx context.Context, route string, _ outbox.DispatchedMessage) error {
					if route == "a" && hangs.Load() {
						<-ctx.Done()
						return ctx.Err()
					}
					return nil
				})
				for i := range n {
					send(t, store, "a", ids(i))
				}
				for i := range n {
					send(t, store, "b", ids(i))
				}
				r, stop := start(t, store, single{sink}, Config{ // keys order within a route
					Batch: 50, Concurrency: 16, DispatchTimeout: 20 * time.Second,
					Retries: outbox.Retries{Default: outbox.RetryPolicy{MaxAttempts: 1000}},
				})
				defer stop()
				pass(19 * time.Second) // before the first call of the other route has timed out
				if sink.count("b") != n {
					t.Errorf("b got %d of %d while a hangs", sink.count("b"), n)
				}
				r.mu.Lock()
				shift := r.shifts[0]
				r.mu.Unlock()
				shift.mu.Lock()
				owned := shift.ledger.owned
				shift.mu.Unlock()
				if owned > r.cfg.Window {
					t.Errorf("%d messages in memory, the window is %d", owned, r.cfg.Window)
				}
				hangs.Store(false)
				pass(10 * time.Minute)
				if sink.count("a") != n {
					t.Errorf("a got %d of %d when it was back", sink.count("a"), n)
				}
			})
		})
	}
}

func TestTheRetryPolicyOfARouteApplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := free(t), newSwitchboard()
		sink.policies["a"] = outbox.RoutePolicy{Retry: &outbox.RetryPolicy{MaxAttempts: 2}}
		sink.answers(func(context.Context, string, outbox.DispatchedMessage) error { return errors.New("no") })
		_, stop := start(t, store, sink, Config{})
		defer stop()
		a, b := send(t, store, "a", ""), send(t, store, "b", "")
		pass(time.Minute)
		if rec := get(t, store, a); rec.DeadReason != outbox.DeadAttempts || rec.Attempts != 2 {
			t.Errorf("a is %s after %d attempts", rec.DeadReason, rec.Attempts)
		}
		if status(t, store, b) != outbox.StatusRetrying {
			t.Errorf("b is %s", status(t, store, b))
		}
	})
}

func TestTheOrderOfARouteApplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := free(t), newSwitchboard()
		sink.policies["skip"] = outbox.RoutePolicy{SkipDead: true}
		sink.policies["loose"] = outbox.RoutePolicy{Unordered: true}
		sink.answers(func(_ context.Context, _ string, m outbox.DispatchedMessage) error {
			if m.Meta.Sequence <= 3 {
				return outbox.Permanent(errors.New("never"))
			}
			return nil
		})
		run := func() {
			_, stop := start(t, store, sink, Config{})
			defer stop()
			pass(time.Minute)
		}
		for _, route := range []string{"strict", "skip", "loose"} {
			send(t, store, route, route)
		}
		run()
		for _, route := range []string{"strict", "skip", "loose"} {
			send(t, store, route, route)
		}
		run() // the next relay learns of the dead ones from the table
		if sink.count("strict") != 0 || sink.count("skip") != 1 || sink.count("loose") != 1 {
			t.Errorf("strict %d, skip %d, loose %d", sink.count("strict"), sink.count("skip"), sink.count("loose"))
		}
	})
}

func TestAMessageForTwoRoutesIsPublishedWhenBothHaveIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := free(t), newSwitchboard()
		sink.routes["both"] = []string{"a", "b"}
		var fails atomic.Int64
		sink.answers(func(_ context.Context, route string, _ outbox.DispatchedMessage) error {
			if route == "b" && fails.Add(1) <= 2 {
				return errors.New("500")
			}
			return nil
		})
		_, stop := start(t, store, sink, Config{})
		defer stop()
		id := send(t, store, "both", "")
		pass(100 * time.Millisecond)
		if rec := get(t, store, id); !slices.Equal(rec.RoutesDone, []string{"a"}) || rec.LastError == "" {
			t.Errorf("after the first try %v have it: %s", rec.RoutesDone, rec.LastError)
		}
		pass(time.Minute)
		if status(t, store, id) != outbox.StatusPublished || sink.count("a") != 1 || sink.count("b") != 1 {
			t.Errorf("it is %s; a got it %d times, b %d", status(t, store, id), sink.count("a"), sink.count("b"))
		}
	})
}

func TestWhatOneRouteHasIsNotSentAgainByTheNextRelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := free(t), newSwitchboard()
		sink.routes["both"] = []string{"a", "b"}
		var down atomic.Bool
		down.Store(true)
		sink.answers(func(_ context.Context, route string, _ outbox.DispatchedMessage) error {
			if route == "b" && down.Load() {
				return outbox.Unavailable(errors.New("refused"))
			}
			return nil
		})
		p := newProcess(store)
		time.AfterFunc(10*time.Second, p.die)
		var ids []uuid.UUID
		for range 100 {
			ids = append(ids, send(t, store, "both", ""))
		}
		p.live(t, sink, Config{}, time.Hour)
		if sink.count("a") != 100 {
			t.Errorf("a got %d while b was down", sink.count("a"))
		}
		down.Store(false)
		newProcess(store).live(t, sink, Config{}, 5*time.Minute)
		if sink.count("a") != 100 || sink.count("b") != 100 {
			t.Errorf("a got %d, b %d", sink.count("a"), sink.count("b"))
		}
		for _, id := range ids {
			if rec := get(t, store, id); rec.PublishedAt.IsZero() || rec.Attempts > 1 {
				t.Fatalf("it is %s after %d attempts", rec.Status(time.Now()), rec.Attempts)
			}
		}
	})
}

func TestADeadRouteMakesTheMessageDeadWhenTheOthersHaveIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := free(t), newSwitchboard()
		sink.routes["three"] = []string{"a", "b", "c"}
		var down atomic.Bool
		down.Store(true)
		sink.answers(func(_ context.Context, route string, _ outbox.DispatchedMessage) error {
			switch {
			case route == "b":
				return outbox.Permanent(errors.New("too large"))
			case route == "c" && down.Load():
				return outbox.Unavailable(errors.New("refused"))
			}
			return nil
		})
		_, stop := start(t, store, sink, Config{})
		defer stop()
		id := send(t, store, "three", "")
		pass(time.Minute)
		if status(t, store, id) == outbox.StatusDead {
			t.Error("it is dead although one route may still take it")
		}
		down.Store(false)
		pass(5 * time.Minute)
		rec := get(t, store, id)
		if rec.DeadReason != outbox.DeadPermanent || !slices.Equal(rec.RoutesDone, []string{"a", "c"}) || sink.count("c") != 1 {
			t.Errorf("it is dead(%s), %v have it, c got it %d times", rec.DeadReason, rec.RoutesDone, sink.count("c"))
		}
	})
}

func TestAMessageWhoseLastRouteWasRemovedIsPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := free(t), newSwitchboard()
		sink.routes["many"] = []string{"a", "b", "c"}
		sink.answers(func(_ context.Context, route string, _ outbox.DispatchedMessage) error {
			if route == "c" {
				return errors.New("500")
			}
			return nil
		})
		_, stop := start(t, store, sink, Config{})
		id := send(t, store, "many", "")
		pass(10 * time.Second)
		stop()
		sink.routes["many"] = []string{"a", "b"}
		_, stop = start(t, store, sink, Config{})
		defer stop()
		pass(2 * time.Minute)
		if status(t, store, id) != outbox.StatusPublished || sink.count("a") != 1 {
			t.Errorf("it is %s; a got it %d times", status(t, store, id), sink.count("a"))
		}
	})
}

func TestOperatorsSeeOpenCircuits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink := free(t), newSwitchboard()
		sink.answers(func(context.Context, string, outbox.DispatchedMessage) error {
			return outbox.Unavailable(errors.New("connection refused"))
		})
		_, stop := start(t, store, sink, Config{})
		defer stop()
		send(t, store, "a", "")
		pass(time.Minute)
		stats, err := store.Stats(t.Context())
		if err != nil || len(stats.Relays) != 1 {
			t.Fatalf("relays are %+v, %v", stats.Relays, err)
		}
		note := stats.Relays[0].Note
		if len(note.Routes) != 1 || note.Routes[0].Failed < 2 || note.Routes[0].LastError != "connection refused" {
			t.Errorf("its routes are %+v", note.Routes)
		}
		if note.OnDead != "block" || len(note.Circuits) != 1 || note.Circuits[0].Route != "a" || note.Circuits[0].Error != "connection refused" {
			t.Errorf("the note is %+v", note)
		}
	})
}
