package bulk

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

// countPage is how many messages a count looks at in one statement.
const countPage = 10_000

// A Count is what a request matches.
type Count struct {
	N      int
	Capped bool
	// Keys are the first matches with a key, up to outbox.GroupCap.
	Keys   []Candidate
	topics map[string]int
}

// CountMatches counts what a request would change as of now.
func CountMatches(ctx context.Context, req outbox.JobRequest, now time.Time, m Messages) (Count, error) {
	req = Normal(req)
	c := Count{topics: map[string]int{}}
	for after := int64(0); ; {
		page, err := m.Page(ctx, req.Filter, after, countPage)
		if err != nil {
			return c, err
		}
		for _, cand := range page {
			after = cand.Sequence
			if !req.Filter.Matches(cand.Record, cand.Route, now) {
				continue
			}
			if c.N == req.Cap {
				c.Capped = true
				return c, nil
			}
			c.add(cand)
		}
		if len(page) < countPage {
			return c, nil
		}
	}
}

func (c *Count) add(cand Candidate) {
	c.N++
	c.topics[cand.Topic]++
	if cand.Key != "" && len(c.Keys) < outbox.GroupCap {
		c.Keys = append(c.Keys, cand)
	}
}

// First is the lowest sequence and the distinct keys of c.Keys, for the search for
// later deliveries of them.
func (c *Count) First() (sequence int64, keys []string) {
	seen := map[string]bool{}
	for _, cand := range c.Keys {
		if !seen[cand.Key] {
			seen[cand.Key] = true
			keys = append(keys, cand.Key)
		}
	}
	if len(c.Keys) > 0 {
		sequence = c.Keys[0].Sequence
	}
	return sequence, keys
}

// Preview is the count for people. delivered is the highest delivered sequence of a
// key, where one is known.
func (c *Count) Preview(req outbox.JobRequest, delivered map[string]int64) outbox.JobPreview {
	p := outbox.JobPreview{Count: c.N, Capped: c.Capped}
	for topic, n := range c.topics {
		p.Topics = append(p.Topics, outbox.TopicCount{Topic: topic, Count: n})
	}
	slices.SortFunc(p.Topics, func(a, b outbox.TopicCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Topic, b.Topic))
	})
	if req.Verb == outbox.VerbReplay {
		for _, cand := range c.Keys {
			if delivered[cand.Key] > cand.Sequence {
				p.KeyConflicts++
			}
		}
	}
	if req.Rate > 0 {
		p.Takes = Takes(c.N, req.Rate)
	}
	return p
}

// ConflictCap bounds how many messages behind the first match are searched for later
// deliveries of the same keys.
const ConflictCap = 1_000_000

// Groups sorts dead messages by what they have in common. Make it with NewGroups.
type Groups struct {
	f      outbox.Filter
	now    time.Time
	groups map[groupKey]*outbox.Group
	newest map[groupKey]int64
	prints map[string]string // the same error has the same fingerprint
}

type groupKey struct{ topic, route, reason, text string }

// NewGroups sorts the dead messages that match f as of now.
func NewGroups(f outbox.Filter, now time.Time) *Groups {
	f.Status = outbox.StatusDead
	return &Groups{f: f, now: now, groups: map[groupKey]*outbox.Group{}, newest: map[groupKey]int64{}, prints: map[string]string{}}
}

// Add sorts one message in, unless it does not match.
func (g *Groups) Add(c Candidate) {
	if !g.f.Matches(c.Record, c.Route, g.now) {
		return
	}
	k := groupKey{c.Topic, c.Route, c.DeadReason, g.fingerprint(c.LastError)}
	group := g.groups[k]
	if group == nil {
		group = &outbox.Group{Topic: k.topic, Route: k.route, Reason: k.reason, Error: k.text, First: c.DeadAt, Last: c.DeadAt}
		g.groups[k] = group
	}
	group.Count++
	if c.DeadAt.Before(group.First) {
		group.First = c.DeadAt
	}
	if !c.DeadAt.Before(group.Last) && (group.Sample == uuid.Nil || c.DeadAt.After(group.Last) || c.Sequence > g.newest[k]) {
		group.Last, group.Sample = c.DeadAt, c.EventID
		g.newest[k] = c.Sequence
	}
}

func (g *Groups) fingerprint(text string) string {
	f, ok := g.prints[text]
	if !ok {
		f = outbox.Fingerprint(text)
		g.prints[text] = f
	}
	return f
}

// Result is what was sorted, the largest group first. capped says that there is more.
func (g *Groups) Result(capped bool) outbox.Groups {
	out := outbox.Groups{Capped: capped, Now: g.now}
	for _, group := range g.groups {
		out.Groups = append(out.Groups, *group)
	}
	slices.SortFunc(out.Groups, func(a, b outbox.Group) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), b.Last.Compare(a.Last), cmp.Compare(a.Topic, b.Topic),
			cmp.Compare(a.Route, b.Route), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Error, b.Error))
	})
	return out
}
