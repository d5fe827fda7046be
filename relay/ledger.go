package relay

import (
	"iter"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/go-outbox/outbox"
)

// A ledger is everything a relay knows about one shard: what was read, what is in
// flight, what waits behind what. It decides and never acts: no goroutine, no I/O,
// no clock of its own. Its shift calls it under one lock.
//
// Truth is the row state. The ledger can be thrown away at any time, and is when
// the lease is lost.
type ledger struct {
	cfg     *Config
	table   string
	info    outbox.LeaseInfo
	routing *routing

	scan     scan
	holds    map[laneKey]*hold
	lanes    map[string]*lane // of keys that order across routes; a route has its own
	circuits map[string]*circuit
	recent   struct { // the last circuit that was asked for
		topic   string
		circuit *circuit
	}
	idleLanes []*lane // to be used again

	// live batches hold at least one message that is not settled. retired ones
	// are remembered until no read is outstanding that started before they were
	// settled: its page may still show their messages as unpublished.
	live    map[int64]*batch
	retired []*batch
	nextNo  int64
	highest int64 // that any of them ever held

	unrecorded []*batch
	finished   results
	spare      results // space of a step that is written
	done       []*batch
	starts     []*batch
	beats      []int64
	suspects   []*batch
	turns      []turn
	stops      []stop

	// queued are the routes with messages ready, readyCount how many entries
	// they have. throttled is when a rate allows the next; zero when none waits
	// for that.
	queued       []*circuit
	readyCount   int
	throttled    time.Time
	fullSince    time.Time // the window is full; zero when it is not
	pausedRoutes map[string]bool

	owned   int // messages read and not settled
	bytes   int // their payload bytes
	running int // dispatches in flight

	released  int64 // the lowest message let go at the end; 0 is none
	published int
}

// itemBlock is how many items are allocated at once: more would be a large object, which
// is cleared and given back as a whole.
const itemBlock = 128

// An item is a message between read and settle.
type item struct {
	rec     *outbox.Record
	batch   *batch
	circuit *circuit
	legs    []leg // of a message that goes to several routes; circuit is the first
	lane    *lane // where it waits; nil without a key, and of suspects
	state   itemState
	// gen is the read that was outstanding when the item was settled.
	gen   uint64
	probe bool
	holds bool   // finished, and the later ones of its key wait for it
	text  string // the sanitised error of its dispatch
}

type itemState uint8

const (
	waiting  itemState = iota // read, or recorded and queued
	running                   // dispatched
	finished                  // has an outcome that is not settled
	settled                   // its outcome is durable
	dropped                   // let go without an outcome: parked or released
)

// A batch is what was recorded together.
type batch struct {
	no    int64
	items []*item // in sequence order
	left  int     // items neither settled nor dropped
	gen   uint64
	// recorded: it is durable that the batch is in flight.
	recorded bool
	// The rest is of suspect batches; see crash.go. unsaved: not recorded yet.
	// startedCh is closed when it is durable that the batch is in flight.
	crashes   int
	solo      bool
	unsaved   bool
	startedCh chan struct{}
}

func newLedger(cfg *Config, table string, info outbox.LeaseInfo, routing *routing) *ledger {
	return &ledger{
		cfg: cfg, table: table, info: info, routing: routing,
		scan:     newScan(info),
		holds:    make(map[laneKey]*hold),
		lanes:    make(map[string]*lane),
		circuits: make(map[string]*circuit),
		live:     make(map[int64]*batch),
		nextNo:   1,
	}
}

// owns reports whether a message of page generation gen is already in our hands, or
// was settled while the page was being read.
func (l *ledger) owns(seq int64, gen uint64) bool { return l.ours(seq, gen) != nil }

// ours returns the message that owns reports, or nil.
func (l *ledger) ours(seq int64, gen uint64) *item {
	if seq > l.highest {
		return nil
	}
	for _, b := range l.live {
		if it := b.find(seq); it != nil && it.owned(gen) {
			return it
		}
	}
	for _, b := range l.retired {
		if it := b.find(seq); it != nil && it.owned(gen) {
			return it
		}
	}
	return nil
}

func (it *item) owned(gen uint64) bool {
	switch it.state {
	case settled:
		return it.gen >= gen
	case dropped:
		return false
	default:
		return true
	}
}

func (b *batch) find(seq int64) *item {
	n := len(b.items)
	if n == 0 || seq < b.items[0].rec.Sequence || seq > b.items[n-1].rec.Sequence {
		return nil
	}
	i := sort.Search(n, func(i int) bool { return b.items[i].rec.Sequence >= seq })
	if i < n && b.items[i].rec.Sequence == seq {
		return b.items[i]
	}
	return nil
}

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

// circuits are those of the routes that the message goes to now.
func (it *item) circuits() iter.Seq[*circuit] {
	return func(yield func(*circuit) bool) {
		if it.legs == nil {
			yield(it.circuit)
			return
		}
		for i := range it.legs {
			if !yield(it.legs[i].circuit) {
				return
			}
		}
	}
}

// record runs when a batch is durable: its messages may be dispatched.
func (l *ledger) record(b *batch) {
	if b.unsaved {
		b.unsaved = false // a suspect: it waits for its turn
		return
	}
	b.recorded = true
	for _, it := range b.items {
		switch {
		case it.state != waiting:
		case it.lane == nil:
			l.push(it.circuit, entry{item: it})
		default:
			l.wakeLane(it.lane)
		}
	}
}

// drop lets a message go without an outcome. Its row is untouched: whoever parked
// or released it remembers how to find it again.
func (l *ledger) drop(it *item) {
	if it.probe {
		it.probe, it.circuit.probing = false, false
	}
	for i := range it.legs {
		if g := &it.legs[i]; g.probe {
			g.probe, g.circuit.probing = false, false
		}
	}
	it.state = dropped
	l.leave(it)
	l.forget(it)
}

// release lets a message go because the shift ends; the next owner reads from there.
func (l *ledger) release(it *item) {
	if l.released == 0 || it.rec.Sequence < l.released {
		l.released = it.rec.Sequence
	}
	l.drop(it)
}

// leave takes a message out of its batch; the last one ends it.
func (l *ledger) leave(it *item) {
	it.batch.left--
	if it.batch.left == 0 {
		l.done = append(l.done, it.batch)
	}
}

func (l *ledger) forget(it *item) {
	if it.batch.crashes > 0 {
		return
	}
	l.owned--
	l.bytes -= len(it.rec.Payload)
	for c := range it.circuits() {
		c.owned--
		c.bytes -= len(it.rec.Payload)
		l.relieve(c)
	}
	it.rec.Payload = nil // a batch with one slow message must not keep the others' payloads
}

// finish notes the outcome of a message and lets its key go on or wait.
func (l *ledger) finish(it *item, o outbox.Outcome, now time.Time) {
	ran := it.state == running
	if ran {
		l.running--
	}
	it.state = finished
	l.finished.add(it, o)
	l.scan.dueAfter(o, now)
	if key, seq := l.key(it.rec), it.rec.Sequence; key != noLane {
		if it.holds = l.holdsKey(it, o.Kind); !it.holds {
			l.releaseKey(key, seq)
		} else {
			l.holdKey(key, seq)
		}
	}
	if ran {
		l.laneIdle(it.lane)
	}
}

// holdsKey reports whether an outcome of a message lets the later ones of its key wait.
func (l *ledger) holdsKey(it *item, outcome outbox.OutcomeKind) bool {
	switch outcome {
	case outbox.Published:
		return false
	case outbox.Dead:
		return !l.skipDead(it.rec.Topic)
	}
	return true
}

// holdAgain lets the later messages of a key wait for one whose outcome the page does not
// know yet: a hold in front of it may have taken its own with it.
func (l *ledger) holdAgain(it *item) {
	if (it.state == finished || it.state == settled) && it.holds {
		l.holdFor(it.rec)
	}
}

// settledAll runs when a step is durable.
func (l *ledger) settledAll(r results) {
	for i, it := range r.items {
		it.state = settled
		it.gen = l.scan.gen
		if r.outcomes[i].Kind == outbox.Published {
			l.published++
		}
		l.forget(it)
	}
}

// retire forgets batches whose deletion is durable.
func (l *ledger) retire(batches []*batch) {
	for _, b := range batches {
		delete(l.live, b.no)
		b.gen = l.scan.gen
		if l.scan.reading > 0 {
			l.retired = append(l.retired, b)
		}
	}
}

// room is how many more messages the window takes.
func (l *ledger) room() int {
	if l.bytes >= l.cfg.MaxBytes {
		return 0
	}
	return l.cfg.Window - l.owned
}

// low is the highest sequence below which nothing waits that only a scan can find.
// Rows in backoff, scheduled or dead are found by their own indexes, and adopted
// batches by recovery.
func (l *ledger) low() int64 {
	low := l.scan.low()
	for _, b := range l.live {
		for _, it := range b.items {
			if it.state != settled && it.state != dropped {
				low = min(low, it.rec.Sequence-1)
				break
			}
		}
	}
	for _, h := range l.holds {
		if h.parked > 0 {
			low = min(low, h.parked-1)
		}
	}
	for _, c := range l.circuits {
		if c.parked > 0 {
			low = min(low, c.parked-1)
		}
	}
	if l.released > 0 {
		low = min(low, l.released-1)
	}
	return max(low, 0)
}

// idle reports whether there is nothing left to do for what was read.
func (l *ledger) idle() bool {
	return l.owned == 0 && l.running == 0 && l.finished.len() == 0 && len(l.done) == 0 && len(l.unrecorded) == 0
}

// merge joins the fresh messages, which are in order, with the others, which are
// not, so that a key's messages are always met in sequence order.
func merge(fresh, others []*outbox.Record) []*outbox.Record {
	if len(others) == 0 {
		return fresh
	}
	all := append(slices.Clone(others), fresh...)
	slices.SortFunc(all, func(a, b *outbox.Record) int {
		switch {
		case a.Sequence < b.Sequence:
			return -1
		case a.Sequence > b.Sequence:
			return 1
		}
		return 0
	})
	return slices.CompactFunc(all, func(a, b *outbox.Record) bool { return a.Sequence == b.Sequence })
}

const never = time.Duration(math.MaxInt64)
