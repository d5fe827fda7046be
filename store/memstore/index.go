package memstore

import (
	"cmp"
	"iter"
	"slices"
	"sort"
)

const (
	inAll = iota
	inOpen
	inHeads
	inDue
	inPublished
	inDead
	indexCount
)

// indexes are the orders in which committed rows are looked for.
type indexes struct {
	all       index // by sequence
	open      index // neither published nor dead, by sequence
	heads     index // those that may hold their key, by sequence
	due       index // scheduled or put back, by (available_at, sequence)
	published index // by (published_at, sequence)
	dead      index // by (dead_at, sequence)
}

func newIndexes() indexes {
	return indexes{
		all:  index{id: inAll, place: func(*row) int64 { return 1 }},
		open: index{id: inOpen, place: func(r *row) int64 { return placeIf(r.open(), 1) }},
		heads: index{id: inHeads, place: func(r *row) int64 {
			dead := !r.DeadAt.IsZero() && !r.discarded()
			return placeIf(r.Key != "" && (dead || r.waits()), 1)
		}},
		due:       index{id: inDue, place: func(r *row) int64 { return placeIf(r.waits(), r.AvailableAt.UnixMicro()) }},
		published: index{id: inPublished, place: func(r *row) int64 { return placeIf(!r.PublishedAt.IsZero(), r.PublishedAt.UnixMicro()) }},
		dead:      index{id: inDead, place: func(r *row) int64 { return placeIf(!r.DeadAt.IsZero(), r.DeadAt.UnixMicro()) }},
	}
}

func placeIf(ok bool, place int64) int64 {
	if ok {
		return place
	}
	return 0
}

func (x *indexes) each() [indexCount]*index {
	return [...]*index{&x.all, &x.open, &x.heads, &x.due, &x.published, &x.dead}
}

// reindex files a row anew after it has changed.
func (x *indexes) reindex(r *row) {
	for _, i := range x.each() {
		i.file(r)
	}
}

// An index keeps rows in order of (place, sequence). Places of rows that have moved
// on are left behind stale and cleared when they are in front or become many, so
// that working a backlog from its beginning costs a constant per row.
type index struct {
	id int
	// place is where a row belongs; 0 means nowhere.
	place   func(*row) int64
	entries []entry
	stale   int
}

type entry struct {
	place int64
	row   *row
}

func (e entry) compare(place, sequence int64) int {
	return cmp.Or(cmp.Compare(e.place, place), cmp.Compare(e.row.Sequence, sequence))
}

func (x *index) live(e entry) bool { return e.row.in[x.id] == e.place }

func (x *index) file(r *row) {
	place := x.place(r)
	if r.deleted {
		place = 0
	}
	was := r.in[x.id]
	if place == was {
		return
	}
	r.in[x.id] = place
	if was != 0 {
		x.stale++
	}
	if place != 0 {
		x.insert(entry{place, r})
	}
	x.tidy()
}

func (x *index) insert(e entry) {
	i := x.search(e.place, e.row.Sequence)
	if i < len(x.entries) && x.entries[i] == e {
		x.stale-- // it was left behind here and is back
		return
	}
	x.entries = slices.Insert(x.entries, i, e)
}

// search finds the first entry at or after a position.
func (x *index) search(place, sequence int64) int {
	n := len(x.entries)
	if n > 0 && x.entries[n-1].compare(place, sequence) < 0 {
		return n // appending is the common case
	}
	return sort.Search(n, func(i int) bool { return x.entries[i].compare(place, sequence) >= 0 })
}

func (x *index) tidy() {
	for len(x.entries) > 0 && !x.live(x.entries[0]) {
		x.entries[0] = entry{}
		x.entries = x.entries[1:]
		x.stale--
	}
	if x.stale > 64 && x.stale > len(x.entries)/2 {
		x.entries = slices.DeleteFunc(x.entries, func(e entry) bool { return !x.live(e) })
		x.stale = 0
	}
}

// after yields the rows behind a position, in order. The index must not change
// meanwhile.
func (x *index) after(place, sequence int64) iter.Seq[*row] {
	return func(yield func(*row) bool) {
		for _, e := range x.entries[x.search(place, sequence+1):] {
			if x.live(e) && !yield(e.row) {
				return
			}
		}
	}
}

// before yields the rows in front of a position, backwards.
func (x *index) before(place, sequence int64) iter.Seq[*row] {
	return func(yield func(*row) bool) {
		for _, e := range slices.Backward(x.entries[:x.search(place, sequence)]) {
			if x.live(e) && !yield(e.row) {
				return
			}
		}
	}
}

// find returns the row of a sequence in an index by sequence.
func (x *index) find(sequence int64) *row {
	i := x.search(1, sequence)
	if i < len(x.entries) && x.entries[i].row.Sequence == sequence && x.live(x.entries[i]) {
		return x.entries[i].row
	}
	return nil
}
