package torture

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

// A Rule is a promise that a run may break.
type Rule string

// The rules.
const (
	// Loss: a committed event was neither accepted by the sink nor is it dead
	// with a reason, or it counts as published and no sink ever accepted it.
	Loss Rule = "loss"
	// Phantom: something was delivered that was not committed.
	Phantom Rule = "phantom"
	// Atomicity: the business row and the events are not there together, or not
	// as the producer was told.
	Atomicity Rule = "atomicity"
	// Integrity: a delivery differs from what was enqueued.
	Integrity Rule = "integrity"
	// Duplicate: an event that the sink had was delivered again, and nothing
	// explains it: no fault, no lost lease, no ambiguous answer, no operator.
	Duplicate Rule = "duplicate"
	// Order: an event was delivered before an earlier one of its key had been
	// accepted, or again after a later one was settled.
	Order Rule = "order"
	// Attempts: an event was tried more often than it may be.
	Attempts Rule = "attempts"
	// Burial: a dead event does not say why it is dead, or says it in a way that
	// nobody should read.
	Burial Rule = "burial"
	// Limbo: something is left over at the end.
	Limbo Rule = "limbo"
	// Finality: a row changed in a way that no row may.
	Finality Rule = "finality"
	// Fencing: a row was changed by a process that did not hold the lease, or a
	// lease went back to an earlier epoch.
	Fencing Rule = "fencing"
	// Liveness: after the last fault the backlog took too long.
	Liveness Rule = "liveness"
	// Resources: a relay used more than it may, or did not give it back.
	Resources Rule = "resources"
	// Cleaner: a message was deleted that was not published, or not long enough.
	Cleaner Rule = "cleaner"
	// Paused: something was delivered although an operator had stopped everything.
	Paused Rule = "pause"
	// Noise: a relay logged more than a line per second while the database was
	// down.
	Noise Rule = "noise"
	// Alarm: a relay panicked, or the race detector found something in it.
	Alarm Rule = "alarm"
)

// Rules lists the rules with the numbers they have in docs/reliability.md.
var Rules = []struct {
	ID   string
	Rule Rule
}{
	{"I1", Loss},
	{"I2", Phantom},
	{"I2", Atomicity},
	{"I3", Integrity},
	{"I4", Duplicate},
	{"I5", Order},
	{"I6", Attempts},
	{"I7", Burial},
	{"I8", Limbo},
	{"I9", Finality},
	{"I9", Fencing},
	{"I10", Liveness},
	{"I11", Resources},
	{"I12", Cleaner},
	{"-", Paused},
	{"-", Noise},
	{"-", Alarm},
}

// A Violation is a broken rule and the facts that show it.
type Violation struct {
	Rule Rule
	Text string
}

func (v Violation) String() string { return string(v.Rule) + ": " + v.Text }

// Check returns every violation in a history.
func Check(h *History) []Violation { return check(h).found }

func check(h *History) *checker {
	c := newChecker(h)
	c.atomicity()
	c.phantoms()
	c.losses()
	c.integrity()
	c.duplicates()
	c.order()
	c.attempts()
	c.burials()
	c.limbo()
	c.transitions()
	c.handovers()
	c.pauses()
	c.liveness()
	c.resources()
	c.noise()
	c.alarms()
	return c
}

// Deaths tells of every message that is dead without anybody having asked for it.
func Deaths(h *History) []string {
	c := newChecker(h)
	var list []string
	for _, r := range h.Final.Rows {
		expected := r.Reason == outbox.DeadDiscarded || r.Reason == outbox.DeadPermanent // an operator's wish, and the sink's
		if f := c.fates[r.Event]; r.Dead && f != nil && !expected {
			list = append(list, fmt.Sprintf("dead(%s) after %d attempts:%s", r.Reason, r.Attempts, c.story(f)))
		}
	}
	return list
}

// A fate is all that is known about one event.
type fate struct {
	Event
	tx         *Transaction
	row        *Row
	deliveries []*Delivery
	first      int64 // delivery
	accepted   int64 // the first accepted delivery, or 0
	settled    int64 // when it was first published, or 0
	replayed   int64 // when an operator first sent it again, or 0
	discarded  int64 // when an operator first gave it up, or 0
	refused    bool  // the sink wants it never
	purged     bool
	purgedDead bool // as a dead message, by an operator
}

type checker struct {
	*History
	fates   map[uuid.UUID]*fate
	byKey   map[string][]*fate
	began   int64               // the first transaction
	struck  map[string][]window // by process; "" is everybody
	lost    map[string][]int64  // when each process lost leases
	found   []Violation
	extra   int // deliveries of what the sink had
	excuses map[string]int
}

// A window is a time in which duplicates are to be expected.
type window struct {
	from, to int64
	kind     string
}

// story tells what happened to an event, in milliseconds since the first transaction.
func (c *checker) story(f *fate) string {
	at := func(ns int64) float64 { return float64(ns-c.began) / 1e6 }
	s := fmt.Sprintf("\n\t%s\n\t  enqueued %.3f, committed %.3f", f, at(f.tx.Begun), at(f.tx.Ended))
	for _, d := range f.deliveries {
		s += fmt.Sprintf(", %s delivered %.3f (attempt %d, accepted %t)", d.Relay, at(d.At), d.Attempt, d.Accepted)
	}
	return s
}

func newChecker(h *History) *checker {
	c := &checker{
		History: h, fates: make(map[uuid.UUID]*fate), byKey: make(map[string][]*fate),
		struck: make(map[string][]window), lost: make(map[string][]int64), excuses: make(map[string]int),
	}
	for i := range h.Transactions {
		tx := &h.Transactions[i]
		c.began = earliest(c.began, tx.Begun)
		for _, e := range tx.Events {
			f := &fate{Event: e, tx: tx}
			c.fates[e.ID] = f
			if e.Key != "" {
				c.byKey[e.Key] = append(c.byKey[e.Key], f) // in order within a transaction
			}
		}
	}
	for i := range h.Final.Rows {
		if f := c.fates[h.Final.Rows[i].Event]; f != nil {
			f.row = &h.Final.Rows[i]
		}
	}
	for i := range h.Deliveries {
		d := &h.Deliveries[i]
		if f := c.fates[d.Event]; f != nil {
			f.deliveries = append(f.deliveries, d)
			f.first = earliest(f.first, d.At)
			f.refused = f.refused || d.Final
			if d.Accepted {
				f.accepted = earliest(f.accepted, d.At)
			}
		}
	}
	for _, t := range h.Transitions {
		if f := c.fates[t.Event]; f != nil {
			f.purged = f.purged || t.Deleted
			f.purgedDead = f.purgedDead || t.Deleted && t.WasDead
			switch again := t.Writer == coordinator && t.IsReplays == t.WasReplays+1; {
			case again && t.IsDead:
				f.discarded = earliest(f.discarded, h.mono(t.At))
			case again:
				f.replayed = earliest(f.replayed, h.mono(t.At))
			}
			if t.IsPublished {
				f.settled = earliest(f.settled, h.mono(t.At))
			}
		}
	}
	for _, r := range h.Replays {
		if f := c.fates[r.Event]; f != nil {
			f.replayed = earliest(f.replayed, r.At)
		}
	}
	c.remember()
	return c
}

func earliest(a, b int64) int64 {
	if a == 0 {
		return b
	}
	return min(a, b)
}

func (c *checker) fail(rule Rule, format string, args ...any) {
	c.found = append(c.found, Violation{rule, fmt.Sprintf(format, args...)})
}

func (f *fate) String() string {
	s := fmt.Sprintf("event %s (transaction %s: %s, key %q no. %d)", f.ID, f.tx.ID, f.tx.Outcome, f.Key, f.N)
	if f.row != nil {
		s += fmt.Sprintf(" at sequence %d", f.row.Sequence)
	}
	return s
}

func (f *fate) dead() bool { return f.row != nil && f.row.Dead }

// exists: its row is there, or the cleaner has seen to it.
func (f *fate) exists() bool { return f.row != nil || f.purged }

// committed: the producer was told so, or was told nothing and the business row says so.
func (c *checker) committed(tx *Transaction) bool {
	return tx.Outcome == OK || tx.Outcome == Unknown && c.Final.Business[tx.ID]
}

func (c *checker) atomicity() {
	for i := range c.Transactions {
		tx := &c.Transactions[i]
		rows, want := 0, 0
		for _, e := range tx.Events {
			if c.fates[e.ID].exists() {
				rows++
			}
			if c.committed(tx) && !e.Undone {
				want++
			}
		}
		business := c.Final.Business[tx.ID]
		if rows != want || business != c.committed(tx) {
			c.fail(Atomicity, "transaction %s (%s) has %d of %d events and business row: %t",
				tx.ID, tx.Outcome, rows, want, business)
		}
	}
	for _, r := range c.Final.Rows {
		if c.fates[r.Event] == nil {
			c.fail(Atomicity, "nobody enqueued event %s at sequence %d", r.Event, r.Sequence)
		}
	}
}

func (c *checker) phantoms() {
	for _, d := range c.Deliveries {
		switch f := c.fates[d.Event]; {
		case f == nil:
			c.fail(Phantom, "%s delivered event %s at sequence %d, which nobody enqueued", d.Relay, d.Event, d.Sequence)
		case !c.committed(f.tx):
			c.fail(Phantom, "%s delivered %s, which was not committed", d.Relay, f)
		case f.Undone:
			c.fail(Phantom, "%s delivered %s, whose savepoint was rolled back", d.Relay, f)
		}
	}
}

func (c *checker) losses() {
	for i := range c.Transactions {
		tx := &c.Transactions[i]
		if !c.committed(tx) {
			continue
		}
		for _, e := range tx.Events {
			f := c.fates[e.ID]
			switch {
			case f.Undone:
			case f.dead() && f.row.Reason == "":
				c.fail(Loss, "%s is dead without a reason", f)
			case f.accepted == 0 && f.row != nil && f.row.Published:
				c.fail(Loss, "%s counts as published and was never accepted", f)
			case f.accepted == 0 && !f.dead() && !f.purgedDead: // whoever deletes the dead is looked at elsewhere
				c.fail(Loss, "%s was never accepted", f)
			}
		}
	}
}

func (c *checker) integrity() {
	for _, d := range c.Deliveries {
		f := c.fates[d.Event]
		if f == nil {
			continue
		}
		if d.Sum != f.Sum || d.Damage != "" || d.Key != f.Key || d.N != f.N {
			c.fail(Integrity, "%s delivered %s with another content (key %q no. %d) %s", d.Relay, f, d.Key, d.N, d.Damage)
		}
		if f.row != nil && d.Sequence != f.row.Sequence {
			c.fail(Integrity, "%s delivered %s as sequence %d", d.Relay, f, d.Sequence)
		}
	}
}

// order holds the relay to this: when A's COMMIT had returned before B's enqueue began,
// or A was enqueued before B in the same transaction, then B is not delivered before A
// has been accepted. That A was delivered and refused does not help: its key waits.
// Whoever is dead holds nobody up here, because the relays run with Skip.
func (c *checker) order() {
	for _, all := range c.byKey {
		var fates []*fate
		for _, f := range all {
			// What an operator sent again before it was delivered is where it was
			// put, not where it was. What was given up holds nobody.
			early := f.replayed != 0 && f.replayed < f.accepted || f.discarded != 0 && f.discarded < f.accepted
			if f.accepted != 0 && !f.dead() && !early {
				fates = append(fates, f)
			}
		}
		c.orderWithin(fates)
		c.orderBetween(fates)
	}
}

func (c *checker) orderWithin(fates []*fate) {
	for i := 1; i < len(fates); i++ {
		if a, b := fates[i-1], fates[i]; a.tx == b.tx {
			c.inOrder(a, b)
		}
	}
}

// orderBetween looks at the events in the order they began. Of those whose COMMIT had
// returned by then it is enough to know the one that was accepted last.
func (c *checker) orderBetween(fates []*fate) {
	begun := slices.SortedStableFunc(slices.Values(fates), func(a, b *fate) int { return cmp.Compare(a.tx.Begun, b.tx.Begun) })
	var ended []*fate
	for _, f := range fates {
		if f.tx.Outcome == OK {
			ended = append(ended, f)
		}
	}
	slices.SortStableFunc(ended, func(a, b *fate) int { return cmp.Compare(a.tx.Ended, b.tx.Ended) })
	var last *fate
	for _, b := range begun {
		for len(ended) > 0 && ended[0].tx.Ended < b.tx.Begun {
			if last == nil || ended[0].accepted > last.accepted {
				last = ended[0]
			}
			ended = ended[1:]
		}
		if last != nil {
			c.inOrder(last, b)
		}
	}
}

func (c *checker) inOrder(a, b *fate) {
	if a.accepted > b.first {
		c.fail(Order, "key %q: the second was delivered before the first was accepted%s%s", a.Key, c.story(a), c.story(b))
	}
}

func (c *checker) limbo() {
	for _, r := range c.Final.Rows {
		if !r.Published && !r.Dead {
			c.fail(Limbo, "sequence %d (key %q, %d attempts) is still pending", r.Sequence, r.Key, r.Attempts)
		}
	}
	for _, held := range c.Final.Held {
		if !c.gaveUp(held) {
			c.fail(Limbo, "%s still holds shard %d after a clean stop", held.By, held.Shard)
		}
	}
	if c.Final.Batches > 0 {
		c.fail(Limbo, "%d batches are still recorded", c.Final.Batches)
	}
	for _, text := range c.Final.Leftovers {
		c.fail(Limbo, "the server still has: %s", text)
	}
}

// gaveUp: the last that the relay said of a lease is that it could not renew it, or give
// it back, in time. That happens on a busy machine, and then the lease expires.
func (c *checker) gaveUp(lease Held) bool {
	lost := false
	for _, l := range c.LogLines {
		if l.Relay != lease.By || !strings.Contains(l.Text, fmt.Sprintf(`"shard":%d,`, lease.Shard)) {
			continue
		}
		switch {
		case strings.Contains(l.Text, `"lease acquired"`), strings.Contains(l.Text, `"lease handed over"`):
			lost = false
		case strings.Contains(l.Text, `"lease lost"`):
			lost = strings.Contains(l.Text, `"release:`) || strings.Contains(l.Text, "could not be renewed in time")
		}
	}
	return lost
}

// noise allows each relay a line per second of an outage, and in a short one that the
// database is gone, for relay and cleaner, and that therefore each of its leases is.
func (c *checker) noise() {
	for _, o := range c.Outages {
		lines := make(map[string][]LogLine)
		for _, l := range c.LogLines {
			if l.At.After(o.From) && l.At.Before(o.To) {
				lines[l.Relay] = append(lines[l.Relay], l)
			}
		}
		for name, said := range lines {
			if allowed := max(2+c.Limits.Shards, int(o.To.Sub(o.From).Seconds())); len(said) > allowed {
				c.fail(Noise, "%s logged %d lines in an outage of %s, the last: %s",
					name, len(said), o.To.Sub(o.From).Round(time.Millisecond), said[len(said)-1].Text)
			}
		}
	}
}

// alarms reports the first words of each relay that did not come from its logger.
func (c *checker) alarms() {
	words := make(map[string][]string)
	for _, l := range c.LogLines {
		if l.Alien && len(words[l.Relay]) < 20 {
			words[l.Relay] = append(words[l.Relay], l.Text)
		}
	}
	for name, said := range words {
		c.fail(Alarm, "%s said:\n\t%s", name, strings.Join(said, "\n\t"))
	}
}
