package relay

import (
	"errors"
	"slices"
	"time"

	"github.com/go-outbox/outbox"
)

// A leg is one route of a message that goes to several.
type leg struct {
	circuit *circuit
	probe   bool
}

// routesOf are the routes that do not have a message yet, or nil for a message that
// has one route only.
func (l *ledger) routesOf(rec *outbox.Record) []*circuit {
	if l.routing.fanOut == nil {
		return nil
	}
	all := l.routing.fanOut(rec.Topic)
	if len(all) < 2 {
		return nil
	}
	left := make([]*circuit, 0, len(all))
	for _, route := range all {
		if !slices.Contains(rec.RoutesDone, route) {
			left = append(left, l.routeCircuit(route))
		}
	}
	return left
}

// circuitsOf are the circuits of a message: its routes, or the one it has.
func (l *ledger) circuitsOf(rec *outbox.Record, routes []*circuit) []*circuit {
	if routes == nil {
		return []*circuit{l.circuit(rec.Topic)}
	}
	return routes
}

// mayGoSomewhere reports whether at least one of the routes takes the message now. If
// none does, it is parked for all of them, and so is its key: the later messages may
// be for a route that is free.
func (l *ledger) mayGoSomewhere(rec *outbox.Record, routes []*circuit, now time.Time) bool {
	// It may have been put back for one route while an earlier message of its key
	// was parked for another: that one must be read first.
	if l.key(rec) != noLane && rec.Sequence > l.scan.pos {
		return false
	}
	for _, c := range routes {
		if c.admits(rec, now) {
			return true
		}
	}
	if len(routes) == 0 {
		return true // all have it: only its row does not know yet
	}
	for _, c := range routes {
		c.park(rec.Sequence, rec.Topic)
	}
	l.holdFor(rec)
	return false
}

// holdFor lets the later messages of a key wait for one that waits itself.
func (l *ledger) holdFor(rec *outbox.Record) {
	if key := l.key(rec); key != noLane {
		l.holdKey(key, rec.Sequence)
	}
}

// setLegs gives an item the legs that it can go now.
func (l *ledger) setLegs(it *item, routes []*circuit, now time.Time) {
	it.legs = make([]leg, 0, len(routes))
	for _, c := range routes {
		if !c.admits(it.rec, now) {
			continue
		}
		probe := c.open()
		if probe {
			c.probe(it.rec.Sequence)
			l.scan.cancelRewind(c)
		}
		it.legs = append(it.legs, leg{circuit: c, probe: probe})
	}
	if len(it.legs) > 0 {
		it.circuit = it.legs[0].circuit
	}
}

// redirect takes a route that is blocked out of a message's way, and reports whether
// it goes on by another one. If none is left, all of them remember that it waits.
func (l *ledger) redirect(it *item, c *circuit, now time.Time) bool {
	it.legs = slices.DeleteFunc(it.legs, func(g leg) bool {
		if g.circuit == c && g.probe {
			c.probing = false
		}
		return g.circuit == c
	})
	c.owned--
	c.bytes -= len(it.rec.Payload)
	if len(it.legs) == 0 {
		routes := l.routesOf(it.rec)
		if !l.mayGoSomewhere(it.rec, routes, now) {
			return false
		}
		l.setLegs(it, routes, now)
		for other := range it.circuits() {
			other.owned++
			other.bytes += len(it.rec.Payload)
		}
	}
	it.circuit = it.legs[0].circuit
	return true
}

func (it *item) goesTo(c *circuit) bool {
	if it.legs == nil {
		return it.circuit == c
	}
	return slices.ContainsFunc(it.legs, func(g leg) bool { return g.circuit == c })
}

func (it *item) routes() []string {
	if it.legs == nil {
		return nil
	}
	names := make([]string, len(it.legs))
	for i, g := range it.legs {
		names[i] = g.circuit.route
	}
	return names
}

// A tally is what the legs of a message came to.
type tally struct {
	done    []string // the routes that have it
	missed  int      // the legs that failed
	refused error    // one of them, for good
	failed  error
	waits   error // a destination was unavailable
	route   string
	after   time.Duration // the delay that was asked for
	wait    time.Duration // until a circuit may be probed
}

// judgeLegs turns the results of several routes into one outcome. The message is
// published when every route has it. While one of them can still take it, it is tried
// again; what has it is remembered in the row, and skipped.
func (l *ledger) judgeLegs(it *item, err error, took time.Duration, now time.Time) outbox.Outcome {
	t := tally{done: slices.Clone(it.rec.RoutesDone)}
	for i := range it.legs {
		g := &it.legs[i]
		if g.probe {
			g.probe, g.circuit.probing = false, false
		}
		l.count(&t, it, g.circuit, legResult(err, g.circuit.route), now)
	}
	o := l.combine(it, &t, took, now)
	o.RoutesDone = t.done
	if t.route != "" {
		o.Route = t.route
	}
	return o
}

func (l *ledger) count(t *tally, it *item, c *circuit, err error, now time.Time) {
	verdict, asked := outbox.Classify(err)
	if verdict == outbox.VerdictDelivered {
		t.done = append(t.done, c.route)
	} else {
		t.missed++
	}
	if verdict == outbox.VerdictUnavailable {
		t.waits = err
		t.wait = max(t.wait, l.unavailable(c, it, asked, err, now))
		return
	}
	l.answered(c, it, verdict, err, now)
	switch verdict {
	case outbox.VerdictPermanent:
		t.refused, t.route = err, c.route
	case outbox.VerdictRetry:
		t.failed, t.route, t.after = err, c.route, max(t.after, asked)
	}
}

// untriedWait is how long a message waits for a route that was not tried because it
// is blocked.
const untriedWait = 5 * time.Second

func (l *ledger) combine(it *item, t *tally, took time.Duration, now time.Time) outbox.Outcome {
	left := 0
	for _, route := range l.routing.fanOut(it.rec.Topic) {
		if !slices.Contains(t.done, route) {
			left++
			if c := l.routeCircuit(route); !it.goesTo(c) {
				t.wait = max(t.wait, c.until.Sub(now), untriedWait)
			}
		}
	}
	switch {
	case left == 0:
		o := l.outcome(it, outbox.Published, nil, took)
		o.Spent = 1
		return o
	case t.failed != nil:
		return l.failed(it, t.failed, t.after, took)
	case t.refused != nil && t.waits == nil && left == t.missed:
		return l.deadOutcome(it, outbox.DeadPermanent, t.refused, took)
	}
	o := l.outcome(it, outbox.Deferred, t.waits, took)
	o.Delay = t.wait
	return o
}

// legResult is what a dispatch says about one route. An error that is no RouteErrors
// (a panic, a timeout) is that of every route.
func legResult(err error, route string) error {
	if results, ok := errors.AsType[outbox.RouteErrors](err); ok {
		return results[route]
	}
	return err
}
