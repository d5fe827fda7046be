package memstore

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestIndexKeepsWhatASortedListWould(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		places := make(map[*row]int64) // the model
		x := index{id: inDue, place: func(r *row) int64 { return places[r] }}
		rows := make([]*row, 20)
		for i := range rows {
			rows[i] = new(row)
			rows[i].Sequence = int64(i + 1)
		}

		for range rapid.IntRange(0, 200).Draw(t, "changes") {
			r := rapid.SampledFrom(rows).Draw(t, "row")
			places[r] = rapid.Int64Range(0, 5).Draw(t, "place") // 0 takes it out
			x.file(r)
		}

		place := rapid.Int64Range(0, 6).Draw(t, "from place")
		sequence := rapid.Int64Range(0, 21).Draw(t, "from sequence")
		var before, after []*row
		for _, r := range rows {
			switch e := (entry{places[r], r}); {
			case places[r] == 0:
			case e.compare(place, sequence) > 0:
				after = append(after, r)
			case e.compare(place, sequence) < 0:
				before = append(before, r)
			}
		}
		byPlace := func(a, b *row) int {
			return cmp.Or(cmp.Compare(places[a], places[b]), cmp.Compare(a.Sequence, b.Sequence))
		}
		slices.SortFunc(after, byPlace)
		slices.SortFunc(before, byPlace)
		slices.Reverse(before)
		if got := slices.Collect(x.after(place, sequence)); !slices.Equal(got, after) {
			t.Fatalf("after: got %d rows, want %d", len(got), len(after))
		}
		if got := slices.Collect(x.before(place, sequence)); !slices.Equal(got, before) {
			t.Fatalf("before: got %d rows, want %d", len(got), len(before))
		}
	})
}
