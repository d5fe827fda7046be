package relay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/store/memstore"
)

// A network is a dispatcher with three topics and two routes: one topic for each, and
// one that goes to both. Its routes go down, hang and are paused, while relays are
// stopped and killed. At the end every route must have every message it is due, once
// committed, in the order of its key.
type network struct {
	t     *testing.T
	store *memstore.Store

	mu     sync.Mutex
	tick   int
	events map[uuid.UUID]*delivery
	down   map[string]time.Time
	hang   map[string]time.Time
	policy outbox.RoutePolicy
	calm   bool
	plain  bool // no topic goes to both routes
}

type delivery struct {
	key, topic       string
	seq              int64
	began, committed int
	first            map[string]int
	fails            int
}

var networkRoutes = map[string][]string{"x.to.a.v1": {"a"}, "x.to.b.v1": {"b"}, "x.to.both.v1": {"a", "b"}, "x.also.a.v1": {"a"}}

func (n *network) Route(topic string) string              { return networkRoutes[topic][0] }
func (n *network) Routes(topic string) []string           { return networkRoutes[topic] }
func (n *network) Policy(route string) outbox.RoutePolicy { return n.policy }

func (n *network) Dispatch(ctx context.Context, msg outbox.DispatchedMessage) error {
	routes := msg.Meta.Routes
	if routes == nil {
		if routes = networkRoutes[msg.Meta.Topic]; len(routes) != 1 {
			n.t.Errorf("message %d goes to %v and was not told where to", msg.Meta.Sequence, routes)
		}
		return n.deliver(ctx, routes[0], msg)
	}
	errs := outbox.RouteErrors{}
	for _, route := range routes {
		if err := n.deliver(ctx, route, msg); err != nil {
			errs[route] = err
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return errs
}

func (n *network) deliver(ctx context.Context, route string, msg outbox.DispatchedMessage) error {
	n.mu.Lock()
	hang := n.hang[route]
	n.mu.Unlock()
	if time.Now().Before(hang) {
		<-ctx.Done()
		return ctx.Err()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.events[msg.Meta.EventID]
	if e.committed == 0 {
		n.t.Errorf("message %d was dispatched before it was committed", e.seq)
	}
	switch {
	case !slices.Contains(networkRoutes[e.topic], route):
		n.t.Errorf("message %d of %s came to %s", e.seq, e.topic, route)
	case time.Now().Before(n.down[route]):
		return outbox.Unavailable(errors.New("down"))
	case e.fails > 0 && !n.calm:
		e.fails--
		return errors.New("no")
	}
	if e.first[route] == 0 {
		n.tick++
		e.first[route] = n.tick
		n.inOrder(e, route) //nolint:contextcheck // it asks the store of the test, whatever becomes of the dispatch
	}
	return nil
}

func (n *network) inOrder(e *delivery, route string) {
	if e.key == "" {
		return
	}
	for id, o := range n.events {
		if o.key == e.key && slices.Contains(networkRoutes[o.topic], route) &&
			o.first[route] == 0 && o.committed > 0 && o.committed < e.began &&
			get(n.t, n.store, id).DeadReason == "" { // a dead one lets its key go on
			n.t.Errorf("route %s: message %d of %s came before %d, which was committed before it began", route, e.seq, e.key, o.seq)
		}
	}
}

func TestRandomRoutesKeepTheGuarantees(t *testing.T) {
	for seed := *fromSeed; seed < *fromSeed+uint64(*seeds); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 7))
				n := &network{
					t: t, store: newStore(t, memstore.Config{Gapless: r.IntN(3) == 0}), events: map[uuid.UUID]*delivery{},
					down: map[string]time.Time{}, hang: map[string]time.Time{},
				}
				switch r.IntN(3) {
				case 0:
					n.policy.Rate = 50 + r.Float64()*200
				case 1:
					n.policy.Concurrency = 1 + r.IntN(3)
				}
				n.plain = r.IntN(2) == 0
				n.run(r)
				n.check()
			})
		})
	}
}

func (n *network) run(r *rand.Rand) {
	var producers, rest sync.WaitGroup
	for range 1 + r.IntN(5) {
		own := rand.New(rand.NewPCG(r.Uint64(), 2))
		producers.Go(func() { n.produce(own) })
	}
	for range 1 + r.IntN(2) {
		own := rand.New(rand.NewPCG(r.Uint64(), 3))
		rest.Go(func() { n.relay(own) })
	}
	own := rand.New(rand.NewPCG(r.Uint64(), 4))
	rest.Go(func() { n.trouble(own) })
	producers.Wait()
	rest.Wait()
	n.mu.Lock()
	n.calm = true
	clear(n.down)
	clear(n.hang)
	n.mu.Unlock()
	newProcess(n.store).live(n.t, n.dispatcher(n), n.config(r), 10*time.Minute)
}

func (n *network) config(r *rand.Rand) Config {
	return Config{
		Batch: 1 + r.IntN(10), Window: 8 + r.IntN(40), Concurrency: 1 + r.IntN(8), Lease: 2 * time.Second,
		DrainTimeout: time.Second, DispatchTimeout: time.Second, OnDead: Skip,
		Retries: outbox.Retries{Default: outbox.RetryPolicy{MaxAttempts: 200, Max: 2 * time.Second}, Random: func() float64 { return 0.5 }},
	}
}

func (n *network) produce(r *rand.Rand) {
	topics := []string{"x.to.a.v1", "x.to.b.v1", "x.to.both.v1"}
	if n.plain {
		topics[2] = "x.also.a.v1"
	}
	for range 30 {
		<-time.After(time.Duration(r.IntN(300)) * time.Millisecond)
		tx := n.store.Begin()
		var events []*delivery
		for range 1 + r.IntN(4) {
			id, key := uuid.New(), ""
			if r.IntN(3) > 0 {
				key = fmt.Sprint("k", r.IntN(4))
			}
			e := &delivery{key: key, topic: topics[r.IntN(3)], first: map[string]int{}}
			if r.IntN(15) == 0 {
				e.fails = 1 + r.IntN(3)
			}
			n.mu.Lock()
			n.tick++
			e.began = n.tick
			n.events[id] = e
			n.mu.Unlock()
			seq, err := n.store.Enqueue(n.t.Context(), tx, outbox.Message{Topic: e.topic, Key: key, EventID: id, Payload: []byte(`1`)})
			if err != nil {
				n.t.Error(err)
			}
			e.seq = seq
			events = append(events, e)
		}
		if r.IntN(5) == 0 {
			<-time.After(time.Duration(r.IntN(1000)) * time.Millisecond)
		}
		n.mu.Lock()
		if err := tx.Commit(); err != nil {
			n.t.Error(err)
		}
		n.tick++
		for _, e := range events {
			e.committed = n.tick
		}
		n.mu.Unlock()
	}
}

// trouble takes routes down, lets them hang, and pauses and resumes them.
func (n *network) trouble(r *rand.Rand) {
	for range 12 {
		<-time.After(time.Duration(r.IntN(2000)) * time.Millisecond)
		route := []string{"a", "b"}[r.IntN(2)]
		until := time.Now().Add(time.Duration(r.IntN(3000)) * time.Millisecond)
		switch r.IntN(3) {
		case 0:
			n.mu.Lock()
			n.down[route] = until
			n.mu.Unlock()
		case 1:
			n.mu.Lock()
			n.hang[route] = until
			n.mu.Unlock()
		default:
			n.operate(outbox.VerbPause, route)
			<-time.After(time.Until(until))
			n.operate(outbox.VerbResume, route)
		}
	}
}

func (n *network) operate(verb outbox.Verb, route string) {
	if _, err := n.store.Apply(n.t.Context(), outbox.Action{Verb: verb, Route: route, Actor: "ann", Reason: "test"}); err != nil {
		n.t.Error(err)
	}
}

func (n *network) relay(r *rand.Rand) {
	for range 6 {
		p := newProcess(n.store)
		life := time.Duration(500+r.IntN(6000)) * time.Millisecond
		if r.IntN(3) == 0 {
			time.AfterFunc(life, p.die)
			life = time.Hour
		}
		p.live(n.t, n.dispatcher(dying{n, p}), n.config(r), life)
	}
}

// dispatcher hides that messages can go to several routes when none does.
func (n *network) dispatcher(d policyRouter) outbox.Dispatcher {
	if n.plain {
		return single{d}
	}
	return d
}

type policyRouter interface {
	outbox.Dispatcher
	outbox.PolicyRouter
}

type single struct{ policyRouter }

// dying is the network as a process sees it that may be killed.
type dying struct {
	*network
	p *process
}

func (d dying) Dispatch(ctx context.Context, msg outbox.DispatchedMessage) error {
	if d.p.store.down.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return d.network.Dispatch(ctx, msg)
}

func (n *network) check() {
	n.mu.Lock()
	defer n.mu.Unlock()
	crashed := 0
	for id, e := range n.events {
		rec := get(n.t, n.store, id)
		if rec.DeadReason == outbox.DeadCrash {
			crashed++
			continue
		}
		for _, route := range networkRoutes[e.topic] {
			if e.first[route] == 0 {
				n.t.Errorf("route %s never got message %d of %q, which is %s", route, e.seq, e.key, rec.Status(time.Now()))
			}
		}
		if rec.PublishedAt.IsZero() {
			n.t.Errorf("message %d is %s: %s", e.seq, rec.Status(time.Now()), rec.LastError)
		}
	}
	if crashed > 2 {
		n.t.Errorf("%d messages were taken for poison", crashed)
	}
}
