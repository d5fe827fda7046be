package sqlitestore

import (
	"encoding/json"
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

// jsonList writes values as a JSON array, the form in which a list of any length is
// one parameter.
func jsonList[T int64 | string](values []T) string {
	if len(values) == 0 {
		return "[]"
	}
	text, err := json.Marshal(values)
	if err != nil { // numbers and strings always marshal
		return "[]"
	}
	return string(text)
}
