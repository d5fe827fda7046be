package torture

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-outbox/outbox"
)

// remember sorts out what can explain a duplicate.
func (c *checker) remember() {
	for _, f := range c.Faults {
		if harmless[f.Kind] {
			continue
		}
		targets := f.Targets
		if len(targets) == 0 {
			targets = []string{""}
		}
		for _, name := range targets {
			c.struck[name] = append(c.struck[name], window{f.From, f.To, f.Kind})
		}
	}
	for _, l := range c.LogLines {
		if strings.Contains(l.Text, `"lease lost"`) {
			c.lost[l.Relay] = append(c.lost[l.Relay], c.mono(l.At))
		}
	}
}

// harmless faults explain nothing: whoever is asked to stop finishes what it has begun,
// and a sink that refuses has nothing to get twice.
var harmless = map[string]bool{
	StopRelay: true, TermStorm: true, RollingRestart: true, SinkDown: true, SinkGone: true, StepClock: true, SinkFoggy: true,
	KillProducer: true, PauseProducer: true, DropCommits: true,
}

// duplicates wants a reason for each delivery of an event that the sink already had.
func (c *checker) duplicates() {
	for _, f := range c.fates {
		slices.SortStableFunc(f.deliveries, func(a, b *Delivery) int { return cmp.Compare(a.At, b.At) })
		var kept *Delivery
		for _, d := range f.deliveries {
			if kept != nil {
				c.extra++
				why := c.excuse(kept, d)
				if c.excuses[why]++; why == "" || c.Calm {
					c.fail(Duplicate, "for no reason:%s", c.story(f))
				}
				c.jump(f, d, why)
			}
			if d.Accepted || d.Kept {
				kept = d
			}
		}
	}
}

// lateWord is how much later than its successor's first delivery a relay may say that it
// lost its lease: it was stopped, or the machine is busy.
const lateWord = int64(10 * time.Second)

// onItsWay is how much later than that a delivery may arrive which the relay had begun
// before: what is cut short has a second to notice.
const onItsWay = int64(time.Second)

// excuse says why an event was delivered again, or "".
func (c *checker) excuse(before, again *Delivery) string {
	if again.Replay > before.Replay {
		return "replay"
	}
	if !before.Accepted {
		return "ambiguous answer"
	}
	for _, name := range []string{before.Relay, again.Relay, ""} {
		for _, w := range c.struck[name] {
			if w.from <= again.At && w.to >= before.At {
				return w.kind
			}
		}
	}
	for _, name := range []string{before.Relay, again.Relay} {
		for _, at := range c.lost[name] {
			if at >= before.At-onItsWay && at <= again.At+lateWord {
				return "lease lost"
			}
		}
	}
	return ""
}

// jump wants that nothing is delivered again once a later event of its key is settled:
// a redelivery repeats a suffix. Who lost its lease meanwhile may not know.
func (c *checker) jump(f *fate, again *Delivery, why string) {
	if f.Key == "" || f.replayed != 0 || why == "replay" || c.holderAt(again) != again.Relay {
		return
	}
	for _, later := range c.byKey[f.Key] {
		if later.settled != 0 && later.settled < again.At-int64(clockError) && follows(later, f) && later.replayed == 0 {
			c.fail(Order, "key %q: the first was delivered again after the second was settled%s%s", f.Key, c.story(f), c.story(later))
			return
		}
	}
}

// follows: the transaction of b had committed before that of a began.
func follows(a, b *fate) bool {
	return b.tx.Outcome == OK && b.tx.Ended < a.tx.Begun
}

// holderAt names who held the shard of a delivery's relay when it was made, and surely:
// it changed hands neither then nor within the next moment.
func (c *checker) holderAt(d *Delivery) string {
	shard, found := 0, false
	holder := make(map[int]string)
	for _, l := range c.Handovers {
		at := c.mono(l.At)
		if at > d.At+int64(time.Second) {
			break
		}
		if at > d.At {
			if found && l.Shard == shard {
				return ""
			}
			continue
		}
		if l.Instance == d.Relay && l.Held {
			shard, found = l.Shard, true
		}
		holder[l.Shard] = ""
		if l.Held {
			holder[l.Shard] = l.Instance
		}
	}
	if !found {
		return ""
	}
	return holder[shard]
}

func (c *checker) attempts() {
	limit := c.Limits.MaxAttempts
	if limit == 0 {
		return
	}
	for _, d := range c.Deliveries {
		if d.Attempt > limit {
			c.fail(Attempts, "%s delivered sequence %d as attempt %d of %d", d.Relay, d.Sequence, d.Attempt, limit)
		}
	}
	for _, r := range c.Final.Rows {
		if r.Attempts > limit {
			c.fail(Attempts, "sequence %d has %d attempts of %d", r.Sequence, r.Attempts, limit)
		}
	}
}

var reasons = []string{
	outbox.DeadAttempts, outbox.DeadPermanent, outbox.DeadCrash, outbox.DeadCorrupt, outbox.DeadSize, outbox.DeadNoRoute,
	outbox.DeadDiscarded,
}

func (c *checker) burials() {
	for _, r := range c.Final.Rows {
		if !r.Dead {
			continue
		}
		switch {
		case !slices.Contains(reasons, r.Reason):
			c.fail(Burial, "sequence %d is dead for the reason %q", r.Sequence, r.Reason)
		case r.Reason == outbox.DeadDiscarded: // it need not have failed
			if f := c.fates[r.Event]; f != nil && f.discarded == 0 {
				c.fail(Burial, "sequence %d is discarded, and no operator did that", r.Sequence)
			}
		case r.Reason == outbox.DeadPermanent && c.fates[r.Event] != nil && !c.fates[r.Event].refused:
			c.fail(Burial, "sequence %d is dead as refused for good, and the sink never did", r.Sequence)
		case r.Error == "" || len(r.Error) > outbox.MaxErrorBytes || !utf8.ValidString(r.Error) || strings.ContainsFunc(r.Error, unicode.IsControl):
			c.fail(Burial, "sequence %d is dead with the error %q", r.Sequence, r.Error)
		}
	}
}

const (
	// drainGrace is for a busy machine, drainRate what the slowest of them relays
	// in a second.
	drainGrace = 30 * time.Second
	drainRate  = 100
)

func (c *checker) liveness() {
	d, l := c.Drain, c.Limits
	allowed := l.Lease + l.MaxBackoff + drainGrace + 2*time.Duration(d.Backlog)*time.Second/drainRate
	if d.Took > allowed {
		c.fail(Liveness, "%d messages took %s after the last fault, more than %s", d.Backlog, d.Took, allowed)
	}
}

const (
	maxLeak   = 10      // goroutines that pools may keep
	maxMemory = 1 << 30 // of a relay, under the race detector too
)

func (c *checker) resources() {
	for _, u := range c.Resources {
		if u.After > u.Before+maxLeak {
			c.fail(Resources, "%s had %d goroutines before it ran and %d after", u.Relay, u.Before, u.After)
		}
		if u.MaxRSS > maxMemory {
			c.fail(Resources, "%s took %d MiB of memory", u.Relay, u.MaxRSS>>20)
		}
		if limit := c.Limits.Connections; limit > 0 && u.Connections > limit+1 { // the listener has its own
			c.fail(Resources, "%s had %d connections, more than %d", u.Relay, u.Connections, limit+1)
		}
	}
}
