package sqlitestore

import "testing"

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
		{"unsorted", []int64{4, 1, 2}, "[[1,2],[4,4]]"},
		{"repeated", []int64{1, 1, 2}, "[[1,2]]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := encodeRuns(c.ids); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
