package relay

import (
	"slices"
	"sync"
	"time"

	"github.com/go-outbox/outbox"
)

// routing is what the engine knows about its dispatcher.
type routing struct {
	route   func(topic string) string
	fanOut  func(topic string) []string // nil: every message has one route
	policy  func(route string) outbox.RoutePolicy
	many    bool // there may be more than one route
	batches bool

	mu       sync.Mutex
	limiters map[string]*limiter // shared by the shards
}

func newRouting(d outbox.Dispatcher) *routing {
	r := &routing{
		route:    func(string) string { return "" },
		policy:   func(string) outbox.RoutePolicy { return outbox.RoutePolicy{} },
		limiters: map[string]*limiter{},
	}
	if router, ok := d.(outbox.Router); ok {
		r.route, r.many = router.Route, true
	}
	_, r.batches = d.(outbox.BatchDispatcher)
	if router, ok := d.(outbox.FanOut); ok {
		r.fanOut = router.Routes
	}
	if router, ok := d.(outbox.PolicyRouter); ok {
		r.policy = router.Policy
	}
	return r
}

// limiter is the one of a route, or nil when its rate is not limited.
func (r *routing) limiter(route string, rate float64) *limiter {
	if rate <= 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.limiters[route] == nil {
		r.limiters[route] = &limiter{rate: rate}
	}
	return r.limiters[route]
}

// circuit is the circuit of a topic that has one route.
func (l *ledger) circuit(topic string) *circuit {
	if l.recent.circuit != nil && l.recent.topic == topic { // most messages are like the one before
		return l.recent.circuit
	}
	c := l.routeCircuit(l.routing.route(topic))
	l.recent.topic, l.recent.circuit = topic, c
	return c
}

func (l *ledger) routeCircuit(route string) *circuit {
	c := l.circuits[route]
	if c == nil {
		policy := l.routing.policy(route)
		c = &circuit{
			route: route, policy: policy, limiter: l.routing.limiter(route, policy.Rate),
			lanes: map[string]*lane{}, topics: map[string]struct{}{},
		}
		l.circuits[route] = c
	}
	return c
}

// skipDead reports whether a dead message of the topic lets its key go on.
func (l *ledger) skipDead(topic string) bool {
	return l.cfg.OnDead == Skip || l.circuit(topic).policy.SkipDead
}

func (l *ledger) retry(it *item) outbox.RetryPolicy {
	if own := it.circuit.policy.Retry; own != nil {
		return *own
	}
	return l.cfg.Retries.For(it.rec.Topic)
}

// hogAfter is how long the window may be full before the routes that fill it give
// room to the others.
const hogAfter = 200 * time.Millisecond

// makeRoom runs while the window is full. A route that hangs or crawls must not keep
// the others from being read: those that own more than their share of the window are
// congested, and what they have beyond it is parked until half of the share is settled.
// It returns how long to wait before it is asked again; a dispatcher without routes has
// nobody to make room for.
func (l *ledger) makeRoom(now time.Time) time.Duration {
	if !l.routing.many || l.room() >= l.roomToRead() {
		l.fullSince = time.Time{}
		return never
	}
	if l.fullSince.IsZero() {
		l.fullSince = now
	}
	if full := now.Sub(l.fullSince); full < hogAfter {
		return hogAfter - full
	}
	for _, c := range l.circuits {
		if c.owned > l.share() || c.bytes > l.cfg.MaxBytes/(len(l.circuits)+1) {
			l.congest(c, now)
		}
	}
	l.fullSince = time.Time{}
	return hogAfter
}

// roomToRead is how much room a read wants: a statement costs the database something
// whatever it returns.
func (l *ledger) roomToRead() int { return min(l.cfg.Batch, (l.cfg.Window+1)/2) }

// share is how many messages of one route may stay in a window that is full.
func (l *ledger) share() int { return l.cfg.Window / (len(l.circuits) + 1) }

func (l *ledger) congest(c *circuit, now time.Time) {
	c.congested = true
	var waits []*item
	for _, b := range l.live {
		for _, it := range b.items {
			if b.crashes == 0 && it.state == waiting && it.goesTo(c) {
				waits = append(waits, it)
			}
		}
	}
	slices.SortFunc(waits, bySequence)
	for len(waits) > 0 && (c.owned > l.share() || c.bytes > l.cfg.MaxBytes/(len(l.circuits)+1)) {
		last := len(waits) - 1
		l.parkItem(waits[last], c, now) // the highest: nothing of its key is overtaken
		waits = waits[:last]
	}
}

func (l *ledger) relieve(c *circuit) {
	if c.congested && c.owned <= l.share()/2 {
		c.congested = false
		l.flow(c)
	}
}

// push puts an entry into the ready queue of its route.
func (l *ledger) push(c *circuit, e entry) {
	c.ready.push(e)
	l.readyCount++
	if !c.queued {
		c.queued = true
		l.queued = append(l.queued, c)
	}
}

// take returns the next message of any route that may send one, the routes in turn,
// and counts it as a call. It returns nil when none may; throttled then says when a
// rate allows the next.
func (l *ledger) take(now time.Time) *item {
	l.throttled = time.Time{}
	for range len(l.queued) {
		c := l.queued[0]
		var it *item
		if c.calls < l.callLimit(c) {
			it = l.takeFrom(c, now)
		}
		l.rotate()
		if it != nil {
			c.calls++
			return it
		}
	}
	return nil
}

// rotate moves the first route with messages ready to the end of the line.
func (l *ledger) rotate() {
	c := l.queued[0]
	switch {
	case c.ready.len() == 0:
		c.queued = false
		l.queued = l.queued[1:]
	case len(l.queued) > 1:
		l.queued = append(l.queued[1:], c)
	}
}

// takeFrom returns the next message of a route, or nil when it has none, or its rate
// allows none now.
func (l *ledger) takeFrom(c *circuit, now time.Time) *item {
	for c.ready.len() > 0 && l.withinRate(c, now) {
		e, _ := c.ready.pop()
		l.readyCount--
		it := e.item
		if e.lane != nil {
			if it = e.lane.first(); it == nil {
				l.laneIdle(e.lane)
				continue
			}
		}
		if it.state != waiting {
			continue // dropped while it was queued
		}
		if it.circuit != c { // the lane's next message is for another route, or it lost a leg
			l.push(it.circuit, e)
			continue
		}
		if e.lane != nil {
			e.lane.advance()
		}
		it.state = running
		l.running++
		l.spend(it, now)
		return it
	}
	return nil
}

func (l *ledger) callLimit(c *circuit) int {
	limit := l.cfg.Concurrency
	if l.routing.batches {
		limit = min(limit, batchWorkers)
	}
	if own := c.policy.Concurrency; own > 0 {
		limit = min(limit, own)
	}
	return limit
}

func (l *ledger) withinRate(c *circuit, now time.Time) bool {
	if c.limiter == nil {
		return true
	}
	wait := c.limiter.wait(now)
	if wait == 0 {
		return true
	}
	if at := now.Add(wait); l.throttled.IsZero() || at.Before(l.throttled) {
		l.throttled = at
	}
	return false
}

func (l *ledger) spend(it *item, now time.Time) {
	if it.legs == nil {
		it.circuit.limiter.spend(now)
		return
	}
	for _, leg := range it.legs {
		leg.circuit.limiter.spend(now)
	}
}

// A limiter lets rate messages a second pass, evenly: what was not used is not saved
// up, or a destination would be flooded when it returns. It is safe for concurrent use;
// nil limits nothing.
type limiter struct {
	rate float64

	mu   sync.Mutex
	next time.Time // when the next message may pass
}

// slack is how much of the past may be made up for: workers are not woken exactly on
// time.
const slack = 50 * time.Millisecond

func (m *limiter) wait(now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(m.next.Sub(now), 0)
}

func (m *limiter) spend(now time.Time) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if past := now.Add(-slack); m.next.Before(past) {
		m.next = past
	}
	m.next = m.next.Add(time.Duration(float64(time.Second) / m.rate))
}
