package torture

import (
	"fmt"
	"time"

	"github.com/go-outbox/outbox"
)

// transitions judges what the trigger saw.
func (c *checker) transitions() {
	epochs := make(map[int]int64) // by shard
	for _, t := range c.Transitions {
		if t.Deleted {
			c.deletion(&t)
			continue
		}
		if t.Writer == coordinator { // an operator locks the leases and needs none
			if wrong := c.operated(&t); wrong != "" {
				c.fail(Finality, "the operator %s (transition %d at sequence %d)", wrong, t.No, t.Sequence)
			}
			continue
		}
		if wrong := t.wrong(); wrong != "" {
			c.fail(Finality, "%s %s (transition %d at sequence %d)", t.Writer, wrong, t.No, t.Sequence)
		}
		if t.Writer != t.Holder {
			c.fail(Fencing, "%s changed sequence %d while %s held shard %d (transition %d)",
				t.Writer, t.Sequence, t.Holder, t.Shard, t.No)
		}
		if t.Epoch < epochs[t.Shard] {
			c.fail(Fencing, "%s changed sequence %d in epoch %d of shard %d, after epoch %d (transition %d)",
				t.Writer, t.Sequence, t.Epoch, t.Shard, epochs[t.Shard], t.No)
		}
		epochs[t.Shard] = max(epochs[t.Shard], t.Epoch)
	}
	c.unseen()
}

// unseen wants that the witness was there: one that misses changes would find nothing.
func (c *checker) unseen() {
	for _, f := range c.fates {
		if (f.purged && !f.purgedDead || f.row != nil && f.row.Published) && f.settled == 0 {
			c.fail(Finality, "%s was published, and the witness did not see it", f)
		}
	}
}

// wrong says what no relay may do: what is published or dead stays as it is.
func (t *Transition) wrong() string {
	switch {
	case t.WasPublished && t.IsPublished:
		return "changed a published message"
	case t.WasPublished:
		return "made a published message unpublished"
	case t.WasDead && t.IsPublished:
		return "published a dead message"
	case t.WasDead:
		return "changed a dead message"
	case t.IsPublished && t.IsDead:
		return "made a message both published and dead"
	case t.WasReplays != t.IsReplays:
		return "changed the replays"
	case t.IsAttempts < t.WasAttempts || t.IsAttempts > t.WasAttempts+1:
		return fmt.Sprintf("changed the attempts from %d to %d", t.WasAttempts, t.IsAttempts)
	}
	return ""
}

// clockError is how much two ways to read the database's clock may differ.
const clockError = 5 * time.Millisecond

func (c *checker) deletion(t *Transition) {
	switch keep := c.Limits.Retention; {
	case t.Writer == coordinator:
		if !c.asked(t, outbox.VerbPurge) {
			c.fail(Cleaner, "the operator deleted sequence %d unasked", t.Sequence)
		}
	case keep == 0:
		c.fail(Cleaner, "%s deleted sequence %d, and nobody cleans up here", t.Writer, t.Sequence)
	case !t.WasPublished || t.WasDead:
		c.fail(Cleaner, "%s deleted sequence %d, which was not published", t.Writer, t.Sequence)
	case t.Age < keep-clockError:
		c.fail(Cleaner, "%s deleted sequence %d %s after it was published; it is kept for %s", t.Writer, t.Sequence, t.Age, keep)
	}
}

// handovers: the epoch of a shard only grows.
func (c *checker) handovers() {
	epochs := make(map[int]int64)
	for _, l := range c.Handovers {
		last := epochs[l.Shard]
		if l.Epoch < last || l.Held && l.Epoch == last {
			c.fail(Fencing, "%s has shard %d in epoch %d, after epoch %d", l.Instance, l.Shard, l.Epoch, last)
		}
		epochs[l.Shard] = l.Epoch
	}
}
