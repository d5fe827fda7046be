package relay

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/go-outbox/outbox"
)

func fresh(seqs ...int64) outbox.Page {
	var page outbox.Page
	for _, s := range seqs {
		page.Fresh = append(page.Fresh, &outbox.Record{Sequence: s})
	}
	return page
}

func TestGapsAreTheNumbersBetweenWhatWasSeen(t *testing.T) {
	var g gaps
	now := time.Unix(0, 0)
	page := fresh(3, 4, 8)
	page.Seen = []int64{6}
	g.observe(0, page, now)
	if got := g.ids(); !slices.Equal(got, []int64{1, 2, 5, 7}) {
		t.Fatalf("gaps are %v", got)
	}
	g.remove(5)
	g.remove(1)
	if got := g.ids(); !slices.Equal(got, []int64{2, 7}) || g.low(8) != 1 {
		t.Fatalf("gaps are %v, low is %d", got, g.low(8))
	}
}

func TestAGapIsKeptWhileItsTransactionMayRun(t *testing.T) {
	var g gaps
	now := time.Unix(0, 0)
	g.add(1, 1, now)
	g.expire(outbox.Page{Oldest: 100, Next: 100}, now)                    // too young for anything
	g.expire(outbox.Page{Oldest: 5, Next: 50}, now.Add(2*time.Second))    // marked: 50 is next
	g.expire(outbox.Page{Oldest: 49, Next: 90}, now.Add(100*time.Second)) // one that began before still runs
	if g.count != 1 {
		t.Fatal("given up although a transaction from before the mark still ran")
	}
	g.expire(outbox.Page{Oldest: 50, Next: 91}, now.Add(101*time.Second))
	if g.count != 0 {
		t.Fatal("kept although every transaction from before the mark has ended")
	}
}

// Removing numbers one by one, in any order, leaves exactly the others.
func TestGapsAreASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g gaps
		want := map[int64]bool{}
		now := time.Unix(0, 0)
		pos := int64(0)
		for range rapid.IntRange(1, 20).Draw(t, "ranges") {
			lo := pos + rapid.Int64Range(1, 5).Draw(t, "skip")
			hi := lo + rapid.Int64Range(0, 5).Draw(t, "length")
			g.add(lo, hi, now)
			for s := lo; s <= hi; s++ {
				want[s] = true
			}
			pos = hi + 1
		}
		for range rapid.IntRange(0, 60).Draw(t, "removals") {
			s := rapid.Int64Range(1, pos).Draw(t, "number")
			g.remove(s)
			delete(want, s)
		}
		got := g.ids()
		if len(got) != len(want) || int64(len(got)) != g.count || !slices.IsSorted(got) {
			t.Fatalf("gaps are %v, want %d numbers", got, len(want))
		}
		for _, s := range got {
			if !want[s] {
				t.Fatalf("%d was removed and is still a gap", s)
			}
		}
	})
}
