package mysqlstore

import (
	"slices"
	"testing"
)

func TestBatchesAreStoredAsRuns(t *testing.T) {
	for _, c := range []struct {
		name string
		ids  []int64
		want string
	}{
		{"none", nil, "[]"},
		{"one", []int64{7}, "[[7,7]]"},
		{"dense", []int64{1, 2, 3}, "[[1,3]]"},
		{"gap", []int64{1, 2, 4}, "[[1,2],[4,4]]"},
		{"unsorted and repeated", []int64{4, 1, 2, 1}, "[[1,2],[4,4]]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := encodeRuns(c.ids)
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			want := slices.Compact(slices.Sorted(slices.Values(c.ids)))
			if back, err := decodeRuns(got); err != nil || !slices.Equal(back, want) {
				t.Errorf("read back as %v %v, want %v", back, err, want)
			}
		})
	}
}

func TestRunsThatWeDidNotWriteAreErrors(t *testing.T) {
	for _, text := range []string{"", "{}", "[1]", `[["a","b"]]`, "[[1,9000000000000000000]]"} {
		if ids, err := decodeRuns(text); err == nil {
			t.Errorf("%s is read as %d ids", text, len(ids))
		}
	}
}
