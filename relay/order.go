package relay

import (
	"slices"

	"github.com/go-outbox/outbox"
)

// A laneKey is what orders messages: their key, within a route. Where a message can go
// to several routes, keys order across all of them: it has to keep its place in each.
type laneKey struct {
	circuit *circuit
	key     string
}

// noLane is that of messages without order.
var noLane laneKey

func (l *ledger) key(rec *outbox.Record) laneKey { return l.laneOf(rec.Key, rec.Topic) }

func (l *ledger) laneOf(key, topic string) laneKey {
	if key == "" {
		return noLane
	}
	c := l.circuit(topic)
	switch {
	case c.policy.Unordered:
		return noLane
	case l.routing.fanOut != nil:
		return laneKey{key: key}
	}
	return laneKey{c, key}
}

// A hold stops the messages of a key behind its head: a message of that key that
// failed, is scheduled or is dead. Only higher sequences wait. The messages that
// wait are not kept in memory: parked is the lowest of them, and the scan goes back
// there when the head is out of the way.
type hold struct {
	head   int64
	parked int64 // 0 when nothing waits
}

func (h *hold) park(seq int64) {
	if h.parked == 0 || seq < h.parked {
		h.parked = seq
	}
}

// holdKey makes seq a head of its key, and parks whatever of the key is queued
// behind it.
func (l *ledger) holdKey(key laneKey, seq int64) {
	h := l.holds[key]
	switch {
	case h == nil:
		h = &hold{head: seq}
		l.holds[key] = h
	case seq < h.head:
		h.park(h.head)
		h.head = seq
	case seq > h.head:
		h.park(seq)
	}
	if ln := l.lanesOf(key)[key.key]; ln != nil {
		for _, it := range ln.items {
			if it.state == waiting && it.rec.Sequence > h.head {
				h.park(it.rec.Sequence)
				l.drop(it)
			}
		}
	}
}

// releaseKey lifts the hold of a key when its head seq is done, and sends the scan
// back for what waited.
func (l *ledger) releaseKey(key laneKey, seq int64) {
	h := l.holds[key]
	if h == nil || h.head != seq {
		return
	}
	delete(l.holds, key)
	if next := l.suspectAfter(key, seq); next > 0 {
		l.holds[key] = &hold{head: next}
		if h.parked > next {
			l.holds[key].parked = h.parked
			return
		}
	}
	if h.parked > 0 {
		l.scan.rewindKey(key, h.head)
	}
}

// A lane is the queue of a key: everything of it that was read and neither settled
// nor dropped. At most one of its messages is in the ready queue or running, and it
// is always the lowest.
type lane struct {
	key   laneKey
	items []*item // in sequence order
	// active: the lane stands in the ready queue, or one of its messages runs.
	active bool
	left   bool     // it is nobody's
	space  [2]*item // for the many lanes that never hold more
}

// lanesOf are the lanes beside that of a key. A map by key alone is found in half the
// time of one by route and key.
func (l *ledger) lanesOf(key laneKey) map[string]*lane {
	if key.circuit == nil {
		return l.lanes
	}
	return key.circuit.lanes
}

func (l *ledger) enterLane(it *item, key laneKey) {
	lanes := l.lanesOf(key)
	ln := lanes[key.key]
	if ln == nil {
		ln = l.newLane(key)
		lanes[key.key] = ln
	}
	it.lane = ln
	i := len(ln.items)
	for i > 0 && ln.items[i-1].rec.Sequence > it.rec.Sequence {
		i-- // a late commit goes before what is queued already
	}
	if i == len(ln.items) {
		ln.items = append(ln.items, it)
		return
	}
	ln.items = slices.Insert(ln.items, i, it)
}

// newLane takes a lane that was left, with its space, or makes one.
func (l *ledger) newLane(key laneKey) *lane {
	if n := len(l.idleLanes); n > 0 {
		ln := l.idleLanes[n-1]
		l.idleLanes = l.idleLanes[:n-1]
		ln.key, ln.left = key, false
		return ln
	}
	ln := &lane{key: key}
	ln.items = ln.space[:0]
	return ln
}

// first is the lowest message of the lane, if it may be dispatched. Nothing overtakes
// a message that is not recorded yet.
func (ln *lane) first() *item {
	ln.tidy()
	if len(ln.items) == 0 || !ln.items[0].batch.recorded {
		return nil
	}
	return ln.items[0]
}

func (ln *lane) advance() {
	ln.items[0] = nil
	ln.items = ln.items[1:]
}

// tidy forgets what was dropped at the head of the lane.
func (ln *lane) tidy() {
	for len(ln.items) > 0 && ln.items[0].state != waiting {
		ln.items[0] = nil
		ln.items = ln.items[1:]
	}
}

// laneIdle runs when the lane's message is done: the next one gets ready, now or
// when it is recorded.
func (l *ledger) laneIdle(ln *lane) {
	if ln == nil {
		return
	}
	ln.active = false
	l.wakeLane(ln)
}

// wakeLane puts a lane into the ready queue if its lowest message may be dispatched.
func (l *ledger) wakeLane(ln *lane) {
	if ln == nil || ln.active {
		return
	}
	ln.tidy()
	switch {
	case len(ln.items) == 0:
		l.leaveLane(ln)
	case ln.items[0].batch.recorded:
		ln.active = true
		l.push(ln.items[0].circuit, entry{lane: ln})
	}
}

func (l *ledger) leaveLane(ln *lane) {
	if ln.left {
		return
	}
	delete(l.lanesOf(ln.key), ln.key.key)
	ln.left = true
	ln.items = ln.space[:0]
	l.idleLanes = append(l.idleLanes, ln)
}

// An entry of the ready queue is a message, or a lane whose lowest message is ready.
type entry struct {
	item *item
	lane *lane
}

// queue is a first-in, first-out ring.
type queue struct {
	buf  []entry
	head int
	n    int
}

func (q *queue) len() int { return q.n }

func (q *queue) push(e entry) {
	if q.n == len(q.buf) {
		grown := make([]entry, max(64, 2*len(q.buf)))
		for i := range q.n {
			grown[i] = q.buf[(q.head+i)%len(q.buf)]
		}
		q.buf, q.head = grown, 0
	}
	q.buf[(q.head+q.n)%len(q.buf)] = e
	q.n++
}

func (q *queue) pop() (entry, bool) {
	if q.n == 0 {
		return entry{}, false
	}
	e := q.buf[q.head]
	q.buf[q.head] = entry{}
	q.head = (q.head + 1) % len(q.buf)
	q.n--
	return e, true
}
