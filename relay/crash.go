package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-outbox/outbox"
)

const (
	suspectGroup = 8               // messages dispatched together after one crash
	aloneAfter   = 2               // crashes, after which each message is dispatched alone
	soloTimeout  = 5 * time.Second // bounds a dispatch alone in the process
	soloBeat     = time.Second     // after this long a solo dispatch is not what kills the process
	suspectPoll  = 20 * time.Millisecond
	recoverChunk = 1000
)

var (
	errCrash       = errors.New("the process ended while it dispatched this message alone")
	errUnknownSolo = errors.New("the process ended while it dispatched this message; the result is unknown")
)

// recover adopts what earlier owners left behind.
//
// A batch that was in flight when its owner crashed is suspect: one of its messages
// may be what ended the process. After one crash it is dispatched in small groups,
// after two each message alone. A message that takes the process with it alone is
// dead; everybody else is innocent, whatever max_attempts says. So a poison message
// costs at most three processes, and an outage or an out-of-memory kill costs nobody
// anything.
func (s *shift) recover(ctx context.Context) error {
	orphans, err := s.lease.Recover(ctx)
	if err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	hit(atRecovered)
	records, err := s.load(ctx, orphans)
	if err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	s.mu.Lock() // the renewer is at work already
	step := s.ledger.adopt(orphans, records)
	s.mu.Unlock()
	if step.Empty() {
		return nil
	}
	if err := s.lease.Step(ctx, step); err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	return nil
}

func (s *shift) load(ctx context.Context, orphans []outbox.Orphan) (map[int64]*outbox.Record, error) {
	var ids []int64
	for _, o := range orphans {
		ids = append(ids, o.IDs...)
	}
	records := make(map[int64]*outbox.Record, len(ids))
	for chunk := range slices.Chunk(ids, recoverChunk) {
		page, err := s.lease.Read(ctx, outbox.ReadRequest{IDs: chunk})
		if err != nil {
			return nil, err
		}
		for _, rec := range page.Others {
			records[rec.Sequence] = rec
		}
	}
	return records, nil
}

// adopt decides about each orphan and returns the step that makes it durable.
func (l *ledger) adopt(orphans []outbox.Orphan, records map[int64]*outbox.Record) outbox.Step {
	// A message can be in two batches when it was parked and read again; the
	// higher suspicion counts.
	slices.SortFunc(orphans, func(a, b outbox.Orphan) int { return cmp.Compare(b.Crashes, a.Crashes) })
	for _, o := range orphans {
		l.nextNo = max(l.nextNo, o.No+1)
	}
	var step outbox.Step
	for _, o := range orphans {
		var items []*item
		for _, id := range o.IDs {
			if rec := records[id]; rec != nil {
				items = append(items, &item{rec: rec, circuit: l.circuit(rec.Topic)})
				delete(records, id)
			}
		}
		slices.SortFunc(items, bySequence)
		switch {
		case o.Crashes == 0 || len(items) == 0:
			step.Done = append(step.Done, o.No) // ordinary messages again
		case o.Solo && o.Crashes > aloneAfter: // also if an owner learned it and could not write it down
			step.Done = append(step.Done, o.No)
			step.Outcomes = append(step.Outcomes, l.lostSolo(items[0], o.Beat))
		case o.Crashes < aloneAfter && len(items) <= suspectGroup, o.Solo:
			l.suspect(&batch{no: o.No, items: items, crashes: o.Crashes, solo: o.Solo})
		default:
			step.Done = append(step.Done, o.No)
			for _, b := range l.split(items, o.Crashes) {
				step.Record = append(step.Record, b.record())
			}
		}
	}
	l.holdSuspects()
	return step
}

// holdSuspects lets the followers of suspect messages wait. The heads that recovery
// itself put back or killed come in with the others, from the table.
func (l *ledger) holdSuspects() {
	slices.SortFunc(l.suspects, func(a, b *batch) int { return bySequence(a.items[0], b.items[0]) })
	for _, b := range l.suspects {
		for _, it := range b.items {
			if key := l.key(it.rec); key != noLane {
				l.holdKey(key, it.rec.Sequence)
			}
		}
	}
}

func (l *ledger) split(items []*item, crashes int) []*batch {
	size := suspectGroup
	if crashes >= aloneAfter {
		size = 1
	}
	var groups []*batch
	for group := range slices.Chunk(items, size) {
		b := &batch{no: l.nextNo, items: slices.Clone(group), crashes: crashes, solo: crashes >= aloneAfter}
		l.nextNo++
		l.suspect(b)
		groups = append(groups, b)
	}
	return groups
}

// suspect takes a batch into custody. It does not count against the window: a
// suspect may have to wait behind a dead head for days.
func (l *ledger) suspect(b *batch) {
	for _, it := range b.items {
		it.batch = b
		l.highest = max(l.highest, it.rec.Sequence)
	}
	b.left = len(b.items)
	b.startedCh = make(chan struct{})
	l.live[b.no] = b
	l.suspects = append(l.suspects, b)
}

// lostSolo judges a message that was alone when its process ended.
func (l *ledger) lostSolo(it *item, beat bool) outbox.Outcome {
	if !beat {
		return l.deadOutcome(it, outbox.DeadCrash, errCrash, 0)
	}
	return l.failed(it, errUnknownSolo, 0, 0)
}

func (b *batch) record() outbox.Batch {
	ids := make([]int64, len(b.items))
	for i, it := range b.items {
		ids[i] = it.rec.Sequence
	}
	return outbox.Batch{No: b.no, IDs: ids, Crashes: b.crashes, Queued: b.crashes > 0, Solo: b.solo}
}

// suspectAfter is the next suspect of a key above seq, or 0. It is looked for among
// all suspect batches, also the one being dispatched.
func (l *ledger) suspectAfter(key laneKey, seq int64) int64 {
	next := int64(0)
	for _, b := range l.live {
		if b.crashes == 0 {
			continue
		}
		for _, it := range b.items {
			if it.rec.Key == key.key && l.key(it.rec) == key && it.rec.Sequence > seq && it.state == waiting && (next == 0 || it.rec.Sequence < next) {
				next = it.rec.Sequence
			}
		}
	}
	return next
}

// nextSuspect returns the first suspect batch whose first message may go.
func (l *ledger) nextSuspect(now time.Time) *batch {
	for i, b := range l.suspects {
		if b.unsaved || !l.suspectFree(b.items[0], now) {
			continue
		}
		l.suspects = slices.Delete(l.suspects, i, i+1)
		return b
	}
	return nil
}

// suspectFree reports whether nothing of a suspect's key can be before it: the scan
// has passed it, goes back for nothing, and whatever it found has been delivered.
func (l *ledger) suspectFree(it *item, now time.Time) bool {
	if !l.admitted(it, now) {
		return false
	}
	key, seq := l.key(it.rec), it.rec.Sequence
	return key == noLane ||
		(l.scan.pos >= seq && !l.held(it) && !l.rewinding(it.rec) && !l.underway(key, seq))
}

// admitted reports whether a route of a suspect takes it now.
func (l *ledger) admitted(it *item, now time.Time) bool {
	routes := l.routesOf(it.rec)
	if routes == nil {
		return it.circuit.admits(it.rec, now)
	}
	return slices.ContainsFunc(routes, func(c *circuit) bool { return c.admits(it.rec, now) })
}

func (l *ledger) rewinding(rec *outbox.Record) bool {
	if l.scan.rewind == nil {
		return false
	}
	return l.scan.rewind.hasKey(l.key(rec)) || slices.ContainsFunc(l.circuitsOf(rec, l.routesOf(rec)), l.scan.rewind.hasRoute)
}

// underway reports whether a lower message of a key is in our hands.
func (l *ledger) underway(key laneKey, seq int64) bool {
	for _, b := range l.live {
		for _, it := range b.items {
			if it.rec.Sequence >= seq {
				break
			}
			if it.rec.Key == key.key && l.key(it.rec) == key && (it.state == waiting || it.state == running) {
				return true
			}
		}
	}
	return false
}

// held reports whether an earlier message of the same key is in the way.
func (l *ledger) held(it *item) bool {
	key := l.key(it.rec)
	h := l.holds[key]
	return key != noLane && h != nil && h.head < it.rec.Sequence
}

// takeSuspect readies a suspect for dispatch. One that may not go yet returns to the
// suspects in a batch of its own, so that it stays suspect.
func (l *ledger) takeSuspect(it *item, now time.Time) bool {
	if it.state != waiting {
		return false
	}
	if l.suspectFree(it, now) {
		it.state = running
		l.running++
		if routes := l.routesOf(it.rec); routes != nil {
			l.setLegs(it, routes, now)
		}
		return true
	}
	old := it.batch
	again := &item{rec: it.rec, circuit: it.circuit}
	l.drop(it)
	for _, b := range l.split([]*item{again}, old.crashes) {
		b.unsaved = true
		l.unrecorded = append(l.unrecorded, b)
	}
	return false
}

// isolate dispatches suspects one batch at a time.
func (s *shift) isolate(ctx, dispatching context.Context) {
	for ctx.Err() == nil {
		s.mu.Lock()
		var b *batch
		if !s.halted() {
			b = s.ledger.nextSuspect(time.Now())
		}
		none := len(s.ledger.suspects) == 0
		s.mu.Unlock()
		switch {
		case b != nil:
			s.hooks.Isolated(s.table, len(b.items), b.crashes)
			s.dispatchSuspects(ctx, dispatching, b)
		case none:
			return
		default: // all wait for something: look again soon
			if !pause(ctx, suspectPoll) {
				return
			}
		}
	}
}

// dispatchSuspects dispatches the messages of a batch one after the other, and
// those that killed twice alone in the process. It is alone before it says that the
// batch is in flight: otherwise whatever else ends the process would be blamed on it.
func (s *shift) dispatchSuspects(ctx, dispatching context.Context, b *batch) {
	if b.solo {
		s.gate.enterAlone()
		defer s.gate.leaveAlone()
	} else {
		s.gate.enter()
		defer s.gate.leave()
	}
	if !s.awaitStart(ctx, b) {
		return
	}
	if b.solo {
		beat := time.AfterFunc(soloBeat, func() { s.beat(b.no) })
		defer beat.Stop()
	}
	for _, it := range b.items {
		if dispatching.Err() != nil {
			return
		}
		s.mu.Lock()
		ok := s.ledger.takeSuspect(it, time.Now())
		s.mu.Unlock()
		if ok {
			s.dispatchOne(dispatching, it, nil, min(s.cfg.DispatchTimeout, soloTimeout))
		}
	}
	s.kickWriter()
}

// awaitStart waits until it is durable that the batch is in flight.
func (s *shift) awaitStart(ctx context.Context, b *batch) bool {
	s.mu.Lock()
	s.ledger.starts = append(s.ledger.starts, b)
	s.mu.Unlock()
	s.kickWriter()
	select {
	case <-b.startedCh:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *shift) beat(no int64) {
	s.mu.Lock()
	s.ledger.beats = append(s.ledger.beats, no)
	s.mu.Unlock()
	s.kickWriter()
}

func bySequence(a, b *item) int { return cmp.Compare(a.rec.Sequence, b.rec.Sequence) }
