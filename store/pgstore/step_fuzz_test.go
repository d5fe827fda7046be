package pgstore

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"
)

// A batch is stored as a multirange: what the server reads from it, and expand makes of
// it, is exactly its messages. A range is used only for a set without holes.
func FuzzMultirange(f *testing.F) {
	f.Add([]byte{1, 0, 2, 0, 3, 0, 9, 0})
	f.Add([]byte{})
	f.Add([]byte{5, 0, 5, 0, 4, 0})
	types := pgtype.NewMap()
	f.Fuzz(func(t *testing.T, raw []byte) {
		var ids []int64
		for ; len(raw) >= 2; raw = raw[2:] {
			ids = append(ids, int64(binary.LittleEndian.Uint16(raw)))
		}
		want := slices.Compact(slices.Sorted(slices.Values(ids)))
		var ranges pgtype.Multirange[pgtype.Range[pgtype.Int8]]
		if err := types.Scan(pgtype.Int8multirangeOID, pgtype.TextFormatCode, []byte(multirange(ids)), &ranges); err != nil {
			t.Fatal(err)
		}
		if got := expand(ranges); !slices.Equal(got, want) {
			t.Errorf("stored %v, want %v", got, want)
		}
		if lo, hi, ok := dense(slices.Clone(want)); ok && hi-lo+1 != int64(len(want)) {
			t.Errorf("%v is taken for %d to %d", want, lo, hi)
		}
	})
}
