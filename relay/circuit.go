package relay

import (
	"errors"
	"time"

	"github.com/go-outbox/outbox"
)

const (
	circuitBase = time.Second
	circuitMax  = time.Minute
	// failingMax is the longest wait of a circuit that opened because everything
	// failed: the destination answers, so a probe tells more and costs less.
	failingMax = 10 * time.Second
	// tripAfter failures of different messages in a row open a circuit.
	tripAfter = 20
	// stopAfter messages in a row that a destination refused for good pause its
	// route: a bad deployment must not kill a million messages.
	stopAfter = 100
	// maxCircuitTopics bounds what a parked route remembers; beyond it the sweep
	// finds the rest.
	maxCircuitTopics = 100_000
)

const stopped = "the destination refused 100 messages in a row for good"

// A circuit guards a route. It opens when the destination is unavailable, or when
// everything fails: the route's messages are parked, no attempt is spent, and after a
// while one message probes it. A paused or congested route parks its messages too, and
// has no probe.
type circuit struct {
	route    string
	policy   outbox.RoutePolicy
	limiter  *limiter // nil: no limit
	failures int      // of the probe in a row; 0 is closed
	failing  bool     // it opened because everything failed
	since    time.Time
	reason   string
	until    time.Time
	probing  bool

	paused    bool
	congested bool // its share of the window is full

	streak     int   // messages that failed in a row
	lastFailed int64 // the last of them
	refused    int   // messages that were refused for good in a row

	lanes  map[string]*lane
	ready  queue
	queued bool // it stands in the ledger's line of routes with messages ready
	owned  int  // messages read and not settled
	bytes  int  // their payload bytes
	calls  int  // dispatches that run

	note outbox.RouteNote // for operators

	parked int64 // the lowest waiting sequence; 0 when nothing waits
	topics map[string]struct{}
}

func (c *circuit) open() bool { return c.failures > 0 }

// blocked: what is read of the route is parked.
func (c *circuit) blocked() bool { return c.open() || c.paused || c.congested }

// admits reports whether a message may be dispatched: always while closed, and one
// probe at a time once the wait is over. A keyed probe must not overtake a parked
// message, which may be of its key.
func (c *circuit) admits(rec *outbox.Record, now time.Time) bool {
	if !c.blocked() {
		return true
	}
	if c.paused || c.congested || c.probing || now.Before(c.until) {
		return false
	}
	return rec.Key == "" || c.parked == 0 || rec.Sequence <= c.parked
}

// probe takes a message as the probe. What was parked lies behind it.
func (c *circuit) probe(seq int64) {
	c.probing = true
	if c.parked == 0 || c.parked > seq+1 {
		c.parked = seq + 1
	}
}

func (c *circuit) park(seq int64, topic string) {
	if c.parked == 0 || seq < c.parked {
		c.parked = seq
	}
	if len(c.topics) < maxCircuitTopics {
		c.topics[topic] = struct{}{}
	}
}

// trip opens the circuit, or keeps it open for longer, and returns the wait: at least
// the given one.
func (c *circuit) trip(now time.Time, least time.Duration, random float64) time.Duration {
	if c.open() && now.Before(c.until) {
		return c.until.Sub(now) // a dispatch that was under way when it opened
	}
	c.failures++
	longest := circuitMax
	if c.failing {
		longest = failingMax
	}
	d := circuitBase
	for i := 1; i < c.failures && d < longest; i++ {
		d *= 2
	}
	d = min(d, longest)
	d += time.Duration(random * float64(d) / 4)
	d = max(d, least)
	c.until = now.Add(d)
	return d
}

// A turn is a circuit that opened or closed.
type turn struct {
	route string
	open  bool
	wait  time.Duration
	err   string
}

// A stop is a route that the relay pauses by itself, with the reason.
type stop struct {
	route  string
	reason string
}

// tripCircuit opens a circuit because of what happened to an item.
func (l *ledger) tripCircuit(c *circuit, it *item, least time.Duration, err error, now time.Time) time.Duration {
	was := c.open()
	wait := c.trip(now, least, l.random())
	if !was {
		c.since, c.reason = now, l.reason(it, err)
		l.parkRoute(c, now)
		l.turns = append(l.turns, turn{route: c.route, open: true, wait: wait, err: c.reason})
	}
	return wait
}

// reason is the error of an item as people may see it: its destination may have quoted
// the payload.
func (l *ledger) reason(it *item, err error) string {
	if it.legs == nil && it.text != "" {
		return it.text
	}
	return outbox.SanitizeError(err, it.rec.Payload, l.cfg.MaxError)
}

// unavailable opens the circuit of a destination that cannot be reached, or pauses its
// route when it asked to be left alone. It returns how long to wait.
func (l *ledger) unavailable(c *circuit, it *item, least time.Duration, err error, now time.Time) time.Duration {
	wait := l.tripCircuit(c, it, least, err, now)
	if errors.Is(err, outbox.ErrGone) {
		l.pauseRoute(c, l.reason(it, err), now)
	}
	return wait
}

// answered notes what a dispatch says about its destination, beside what it says about
// the message.
func (l *ledger) answered(c *circuit, it *item, verdict outbox.Verdict, err error, now time.Time) {
	switch verdict {
	case outbox.VerdictDelivered:
		c.streak, c.refused = 0, 0
		l.closeCircuit(c)
	case outbox.VerdictPermanent:
		l.closeCircuit(c) // it answered
		if c.refused++; c.refused == stopAfter {
			l.pauseRoute(c, stopped, now)
		}
	default:
		l.failing(c, it, err, now)
	}
}

// failing counts failures of different messages in a row. A single one that fails
// again and again says nothing about its destination.
func (l *ledger) failing(c *circuit, it *item, err error, now time.Time) {
	if seq := it.rec.Sequence; seq != c.lastFailed {
		c.streak++
		c.lastFailed = seq
	}
	switch {
	case c.streak >= tripAfter:
		c.failing = true
		l.tripCircuit(c, it, 0, err, now)
	default:
		l.closeCircuit(c) // it answered, whatever it said
	}
}

// parkRoute parks everything of a route that was read and not dispatched, all at
// once: if some of it stayed, it could overtake the rest when the circuit closes.
func (l *ledger) parkRoute(c *circuit, now time.Time) {
	for _, b := range l.live {
		if b.crashes > 0 {
			continue
		}
		for _, it := range b.items {
			if it.state == waiting && it.goesTo(c) {
				l.parkItem(it, c, now)
			}
		}
	}
}

// parkItem lets a message go until its route goes on. One that has other routes goes
// there, and comes back for this one.
func (l *ledger) parkItem(it *item, c *circuit, now time.Time) {
	if it.legs != nil && l.redirect(it, c, now) {
		return
	}
	c.park(it.rec.Sequence, it.rec.Topic)
	l.drop(it)
	if it.legs != nil {
		l.holdFor(it.rec)
	}
}

// closeCircuit lets the route's messages flow again.
func (l *ledger) closeCircuit(c *circuit) {
	if !c.open() {
		return
	}
	c.failures, c.failing, c.streak = 0, false, 0
	l.turns = append(l.turns, turn{route: c.route})
	l.flow(c)
}

// flow goes back for what was parked, once nothing is in the way any more.
func (l *ledger) flow(c *circuit) {
	if c.parked == 0 || c.blocked() {
		return
	}
	l.scan.rewindRoute(c)
	c.parked = 0
	clear(c.topics)
}

// pauseRoute stops a route until a person resumes it.
func (l *ledger) pauseRoute(c *circuit, why string, now time.Time) {
	if c.paused {
		return
	}
	c.paused = true
	l.parkRoute(c, now)
	l.stops = append(l.stops, stop{route: c.route, reason: why})
}

// setPaused takes over which routes operators have paused. A route that was stopped
// here stays so until that is in the table.
func (l *ledger) setPaused(routes []string, now time.Time) {
	if len(routes) == 0 && len(l.pausedRoutes) == 0 {
		return
	}
	paused := make(map[string]bool, len(routes))
	for _, route := range routes {
		paused[route] = true
		if c := l.routeCircuit(route); !c.paused {
			c.paused = true
			l.parkRoute(c, now)
		}
	}
	for route := range l.pausedRoutes {
		if c := l.routeCircuit(route); !paused[route] {
			c.paused, c.refused = false, 0
			l.flow(c)
		}
	}
	l.pausedRoutes = paused
}

// probeAt is when the next circuit wants its probe; it sends the scan back for one
// when the time has come.
func (l *ledger) probeAt(now time.Time) time.Time {
	var at time.Time
	for _, c := range l.circuits {
		if !c.open() || c.probing || c.paused || c.parked == 0 {
			continue
		}
		if !now.Before(c.until) {
			l.scan.rewindRoute(c)
			c.parked = 0 // the first of them to come back is the probe
			continue
		}
		if at.IsZero() || c.until.Before(at) {
			at = c.until
		}
	}
	return at
}
