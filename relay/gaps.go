package relay

import (
	"slices"
	"time"

	"github.com/go-outbox/outbox"
)

const (
	// maxGapIDs bounds how many missing numbers are probed with each read; older
	// ones are left to the sweep, and a late commit among them may lose its place.
	maxGapIDs = 65_536
	// gapGrace is how long a gap is probed before anything may close it: a
	// transaction takes its number a moment before the database knows of it.
	gapGrace = time.Second
	// gapLife closes a gap where the database does not number transactions.
	gapLife = time.Minute
)

// gaps are numbers below the reading position that no visible message has: a
// transaction took them and has not committed, or rolled back. They are probed with
// every read, in its snapshot, so that a late commit keeps its place in its key.
// None is ever provably closed; a closed or overflowing gap is left to the sweep.
type gaps struct {
	off    bool // sequence order is commit order
	ranges []gap
	count  int64
}

type gap struct {
	lo, hi int64
	found  time.Time
	// mark is the next transaction as of some time after the grace: once all
	// older ones have ended, whoever took the number has.
	mark uint64
}

// observe adds the numbers that a page skipped.
func (g *gaps) observe(pos int64, page outbox.Page, now time.Time) {
	if g.off {
		return
	}
	fresh, seen := page.Fresh, page.Seen
	for len(fresh)+len(seen) > 0 {
		var seq int64
		if len(seen) == 0 || (len(fresh) > 0 && fresh[0].Sequence < seen[0]) {
			seq, fresh = fresh[0].Sequence, fresh[1:]
		} else {
			seq, seen = seen[0], seen[1:]
		}
		if seq > pos+1 {
			g.add(pos+1, seq-1, now)
		}
		pos = max(pos, seq)
	}
}

func (g *gaps) add(lo, hi int64, now time.Time) {
	i, exists := slices.BinarySearchFunc(g.ranges, lo, func(r gap, lo int64) int {
		switch {
		case r.hi < lo:
			return -1
		case r.lo > lo:
			return 1
		}
		return 0
	})
	if exists {
		return
	}
	g.ranges = slices.Insert(g.ranges, i, gap{lo: lo, hi: hi, found: now})
	g.count += hi - lo + 1
	for g.count > maxGapIDs && len(g.ranges) > 0 {
		g.drop(0)
	}
}

func (g *gaps) drop(i int) {
	g.count -= g.ranges[i].hi - g.ranges[i].lo + 1
	g.ranges = slices.Delete(g.ranges, i, i+1)
}

// remove closes the gap of a number that was found.
func (g *gaps) remove(seq int64) {
	if len(g.ranges) == 0 {
		return
	}
	i, ok := slices.BinarySearchFunc(g.ranges, seq, func(r gap, seq int64) int {
		switch {
		case r.hi < seq:
			return -1
		case r.lo > seq:
			return 1
		}
		return 0
	})
	if !ok {
		return
	}
	r := g.ranges[i]
	g.drop(i)
	if r.lo < seq {
		left := r
		left.hi = seq - 1
		g.ranges = slices.Insert(g.ranges, i, left)
		g.count += left.hi - left.lo + 1
		i++
	}
	if seq < r.hi {
		right := r
		right.lo = seq + 1
		g.ranges = slices.Insert(g.ranges, i, right)
		g.count += right.hi - right.lo + 1
	}
}

// expire gives up gaps whose transactions must have ended.
func (g *gaps) expire(page outbox.Page, now time.Time) {
	for i := len(g.ranges) - 1; i >= 0; i-- {
		r := &g.ranges[i]
		age := now.Sub(r.found)
		switch {
		case age < gapGrace:
		case page.Next == 0:
			if age > gapLife {
				g.drop(i)
			}
		case r.mark == 0:
			r.mark = page.Next
		case page.Oldest >= r.mark:
			g.drop(i)
		}
	}
}

// ids lists the open numbers.
func (g *gaps) ids() []int64 {
	if g.count == 0 {
		return nil
	}
	ids := make([]int64, 0, g.count)
	for _, r := range g.ranges {
		for seq := r.lo; seq <= r.hi; seq++ {
			ids = append(ids, seq)
		}
	}
	return ids
}

// low is the position below the first gap, or pos.
func (g *gaps) low(pos int64) int64 {
	if len(g.ranges) == 0 {
		return pos
	}
	return min(pos, g.ranges[0].lo-1)
}
