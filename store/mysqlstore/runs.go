package mysqlstore

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// A run is every sequence from its first to its second number.
type run [2]int64

// runsOf finds the runs in ids, which may be in any order.
func runsOf(ids []int64) []run {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	var runs []run
	for _, id := range ids {
		if n := len(runs); n > 0 && runs[n-1][1] == id-1 {
			runs[n-1][1] = id
			continue
		}
		runs = append(runs, run{id, id})
	}
	return runs
}

// encodeRuns writes ids as [[1,500],[502,502]].
func encodeRuns(ids []int64) string {
	b := []byte{'['}
	for i, r := range runsOf(ids) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '[')
		b = strconv.AppendInt(b, r[0], 10)
		b = append(b, ',')
		b = strconv.AppendInt(b, r[1], 10)
		b = append(b, ']')
	}
	return string(append(b, ']'))
}

// decodeRuns lists the sequences that encodeRuns has written.
func decodeRuns(text string) ([]int64, error) {
	var runs []run
	if err := json.Unmarshal([]byte(text), &runs); err != nil {
		return nil, fmt.Errorf("ids of a batch: %w", err)
	}
	var ids []int64
	for _, r := range runs {
		if r[1]-r[0] >= maxRun {
			return nil, fmt.Errorf("ids of a batch: a run from %d to %d", r[0], r[1])
		}
		for id := r[0]; id <= r[1]; id++ {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// maxRun is more than any batch has; a longer run was not written by us.
const maxRun = 10_000_000
