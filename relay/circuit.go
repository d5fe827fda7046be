package relay

import (
	"time"

	"github.com/go-outbox/outbox"
)

const (
	circuitBase = time.Second
	circuitMax  = time.Minute
	// maxCircuitTopics bounds what a parked route remembers; beyond it the sweep
	// finds the rest.
	maxCircuitTopics = 100_000
)

// A circuit guards a route. It opens when the destination is unavailable: the
// route's messages are parked, no attempt is spent, and after a while one message
// probes it.
type circuit struct {
	route    string
	failures int // consecutive; 0 is closed
	until    time.Time
	probing  bool

	parked int64 // the lowest waiting sequence; 0 when nothing waits
	topics map[string]struct{}
}

func (l *ledger) circuit(topic string) *circuit {
	if l.recent.circuit != nil && l.recent.topic == topic { // most messages are like the one before
		return l.recent.circuit
	}
	route := l.route(topic)
	c := l.circuits[route]
	if c == nil {
		c = &circuit{route: route, topics: map[string]struct{}{}}
		l.circuits[route] = c
	}
	l.recent.topic, l.recent.circuit = topic, c
	return c
}

func (c *circuit) open() bool { return c.failures > 0 }

// admits reports whether a message may be dispatched: always while closed, and one
// probe at a time once the wait is over. A keyed probe must not overtake a parked
// message, which may be of its key.
func (c *circuit) admits(rec *outbox.Record, now time.Time) bool {
	if !c.open() {
		return true
	}
	if c.probing || now.Before(c.until) {
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

// trip opens the circuit, or keeps it open for longer, and returns the wait.
func (c *circuit) trip(now time.Time, random float64) time.Duration {
	if c.open() && now.Before(c.until) {
		return c.until.Sub(now) // a dispatch that was under way when it opened
	}
	c.failures++
	d := circuitBase
	for i := 1; i < c.failures && d < circuitMax; i++ {
		d *= 2
	}
	d = min(d, circuitMax)
	d += time.Duration(random * float64(d) / 4)
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

// tripCircuit opens the circuit of an item whose destination is unavailable.
func (l *ledger) tripCircuit(c *circuit, now time.Time, err error) time.Duration {
	was := c.open()
	wait := c.trip(now, l.random())
	if !was {
		l.parkRoute(c)
		l.turns = append(l.turns, turn{route: c.route, open: true, wait: wait, err: outbox.SanitizeError(err, nil, 0)})
	}
	return wait
}

// parkRoute parks everything of a route that was read and not dispatched, all at
// once: if some of it stayed, it could overtake the rest when the circuit closes.
func (l *ledger) parkRoute(c *circuit) {
	for _, b := range l.live {
		if b.crashes > 0 {
			continue
		}
		for _, it := range b.items {
			if it.circuit == c && it.state == waiting {
				c.park(it.rec.Sequence, it.rec.Topic)
				l.drop(it)
			}
		}
	}
}

// closeCircuit lets the route's messages flow again.
func (l *ledger) closeCircuit(c *circuit) {
	if !c.open() {
		return
	}
	c.failures = 0
	l.turns = append(l.turns, turn{route: c.route})
	if c.parked > 0 {
		l.scan.rewindTopics(c)
		c.parked = 0
		clear(c.topics)
	}
}

// probeAt is when the next circuit wants its probe; it sends the scan back for one
// when the time has come.
func (l *ledger) probeAt(now time.Time) time.Time {
	var at time.Time
	for _, c := range l.circuits {
		if !c.open() || c.probing || c.parked == 0 {
			continue
		}
		if !now.Before(c.until) {
			l.scan.rewindTopics(c)
			c.parked = 0 // the first of them to come back is the probe
			continue
		}
		if at.IsZero() || c.until.Before(at) {
			at = c.until
		}
	}
	return at
}
