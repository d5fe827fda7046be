package relay

import (
	"cmp"
	"slices"
	"time"

	"github.com/go-outbox/outbox"
)

// Taking in: what a ledger does with a page that was read.

// itemBlock is how many items are allocated at once: more would be a large object, which
// is cleared and given back as a whole.
const itemBlock = 128

// accept takes in a page: it decides for each message, in sequence order, whether
// it is dispatched, waits behind its key or route, or is none of our business.
func (l *ledger) accept(req outbox.ReadRequest, page outbox.Page, now time.Time) (admitted int) {
	l.scan.reading--
	gen := l.scan.gen - uint64(l.scan.reading) // pages are taken in in the order they were asked for
	l.scan.arrived(req, page, now, l.cfg)

	var b *batch
	var block []item // few allocations instead of one per message
	records := merge(page.Fresh, page.Others)
	for i, rec := range records {
		l.scan.gaps.remove(rec.Sequence)
		if it := l.ours(rec.Sequence, gen); it != nil {
			l.holdAgain(it)
			continue
		}
		if l.unreached(rec) || !l.mayGo(rec, req, page, now) {
			continue
		}
		if b == nil {
			b = l.newBatch()
		}
		if len(block) == 0 {
			block = make([]item, min(len(records)-i, itemBlock))
		}
		l.admit(b, &block[0], rec, now)
		block = block[1:]
		admitted++
		if len(b.items) == l.cfg.Batch {
			b = l.closeBatch(b)
		}
	}
	l.closeBatch(b)
	l.scan.finishRewind(req, page)
	for _, s := range page.Strays {
		if s.Sequence <= l.scan.pos && !l.owns(s.Sequence, gen) && !l.parked(s) {
			l.scan.gaps.add(s.Sequence, s.Sequence, now)
		}
	}
	l.retired = slices.DeleteFunc(l.retired, func(b *batch) bool { return b.gen <= gen })
	l.scan.found(admitted, req, page, now)
	return admitted
}

// unreached reports whether a message is due and was found ahead of the reading
// position, before earlier ones of its key may have been read. Reading comes to it in its
// turn. One that was tried before had its turn.
func (l *ledger) unreached(rec *outbox.Record) bool {
	return rec.Sequence > l.scan.pos && rec.Attempts == 0 && l.key(rec) != noLane
}

// mayGo applies the holds: a message waits behind a lower one of its key that
// failed, is scheduled or is dead, and behind a route that is blocked.
func (l *ledger) mayGo(rec *outbox.Record, req outbox.ReadRequest, page outbox.Page, now time.Time) bool {
	key := l.key(rec)
	if h := l.holds[key]; key != noLane && h != nil && rec.Sequence > h.head {
		h.park(rec.Sequence)
		return false
	}
	routes := l.routesOf(rec)
	if l.scan.rewind != nil && l.scan.beyondRewind(rec, key, l.circuitsOf(rec, routes), req, page) {
		if routes != nil {
			l.holdFor(rec)
		}
		return false
	}
	// A message that was never scheduled nor put back is due by nature. Its time is
	// its transaction's, which may lie after the moment the database took as the
	// read's own.
	if !rec.Due && rec.AvailableAt.After(rec.CreatedAt) {
		l.holdFor(rec)
		l.scan.dueIn(rec.AvailableAt.Sub(page.Now), now)
		return false
	}
	if l.stillborn(rec) != "" {
		return true // settled as dead without a dispatch
	}
	if routes != nil {
		return l.mayGoSomewhere(rec, routes, now)
	}
	c := l.circuit(rec.Topic)
	if !c.admits(rec, now) {
		c.park(rec.Sequence, rec.Topic)
		return false
	}
	return true
}

// stillborn says why a row can never be dispatched, or "". Rows may be written by
// others: a malformed one must not stop the rest.
func (l *ledger) stillborn(rec *outbox.Record) string {
	switch {
	case rec.Corrupt != "":
		return outbox.DeadCorrupt
	case len(rec.Payload) > l.cfg.MaxPayload:
		return outbox.DeadSize
	}
	return ""
}

func (l *ledger) parked(s outbox.Stray) bool {
	key := l.laneOf(s.Key, s.Topic)
	if h := l.holds[key]; key != noLane && h != nil && s.Sequence > h.head {
		return true
	}
	c := l.circuit(s.Topic)
	return c.blocked() || l.scan.rewind.hasKey(key) || l.scan.rewind.hasRoute(c)
}

func (l *ledger) newBatch() *batch {
	b := &batch{no: l.nextNo, items: make([]*item, 0, 16)}
	l.nextNo++
	return b
}

func (l *ledger) closeBatch(b *batch) *batch {
	if b != nil && len(b.items) > 0 {
		l.live[b.no] = b
		l.unrecorded = append(l.unrecorded, b)
	}
	return nil
}

func (l *ledger) admit(b *batch, it *item, rec *outbox.Record, now time.Time) {
	it.rec, it.batch, it.circuit = rec, b, l.circuit(rec.Topic)
	b.items = append(b.items, it)
	b.left++
	l.highest = max(l.highest, rec.Sequence)
	l.setOff(it, now)
	l.owned++
	l.bytes += len(rec.Payload)
	for c := range it.circuits() {
		c.owned++
		c.bytes += len(rec.Payload)
	}
	if key := l.key(rec); key != noLane {
		l.enterLane(it, key)
	}
	if it.legs != nil && len(it.legs) == 0 { // every route has it; only its row does not know
		l.finish(it, l.outcome(it, outbox.Published, nil, 0), now)
		return
	}
	if reason := l.stillborn(rec); reason != "" {
		l.finish(it, l.deadOutcome(it, reason, errStillborn(rec, reason, l.cfg.MaxPayload), 0), now)
	}
}

// setOff chooses where a message goes now. One that goes to a route whose circuit is
// open is its probe.
func (l *ledger) setOff(it *item, now time.Time) {
	if routes := l.routesOf(it.rec); routes != nil {
		l.setLegs(it, routes, now)
		return
	}
	if c := it.circuit; c.open() {
		it.probe = true
		c.probe(it.rec.Sequence)
		l.scan.cancelRewind(c)
	}
}

// merge joins the fresh messages, which are in order, with the others, which are
// not, so that a key's messages are always met in sequence order.
func merge(fresh, others []*outbox.Record) []*outbox.Record {
	if len(others) == 0 {
		return fresh
	}
	all := append(slices.Clone(others), fresh...)
	slices.SortFunc(all, func(a, b *outbox.Record) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return slices.CompactFunc(all, func(a, b *outbox.Record) bool { return a.Sequence == b.Sequence })
}
