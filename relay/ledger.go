package relay

import (
	"iter"
	"math"
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

const never = time.Duration(math.MaxInt64)
