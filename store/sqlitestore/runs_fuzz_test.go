package sqlitestore

import (
	"encoding/binary"
	"encoding/json"
	"slices"
	"testing"
)

// A batch is stored as runs: they hold exactly its messages, in order and without two
// that touch.
func FuzzRuns(f *testing.F) {
	f.Add([]byte{1, 0, 2, 0, 3, 0, 9, 0})
	f.Add([]byte{})
	f.Add([]byte{5, 0, 5, 0, 4, 0})
	f.Fuzz(func(t *testing.T, raw []byte) {
		var ids []int64
		for ; len(raw) >= 2; raw = raw[2:] {
			ids = append(ids, int64(binary.LittleEndian.Uint16(raw)))
		}
		var runs [][2]int64
		if err := json.Unmarshal([]byte(encodeRuns(ids)), &runs); err != nil {
			t.Fatal(err)
		}
		var got []int64
		for i, r := range runs {
			if r[0] > r[1] || i > 0 && runs[i-1][1] >= r[0]-1 {
				t.Errorf("%v is stored as %v", ids, runs)
			}
			for id := r[0]; id <= r[1]; id++ {
				got = append(got, id)
			}
		}
		if want := slices.Compact(slices.Sorted(slices.Values(ids))); !slices.Equal(got, want) {
			t.Errorf("stored %v, want %v", got, want)
		}
	})
}
