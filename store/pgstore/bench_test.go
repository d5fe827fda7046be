package pgstore_test

import (
	"fmt"
	"testing"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/store/pgstore"
)

// BenchmarkDrain is the store's share of relaying a dense backlog: read, record,
// settle, one statement at a time. One iteration is one message.
func BenchmarkDrain(b *testing.B) {
	for _, mode := range []struct {
		name   string
		remove bool
	}{{"keep", false}, {"delete", true}} {
		b.Run(mode.name, func(b *testing.B) {
			pool := testenv.Postgres(b).Pool(b)
			store := newStore(b, pool, pgstore.Config{})
			fill(b, pool, store.Table(), 10*b.N)
			lease := acquire(b, store)
			b.ReportAllocs()
			b.ResetTimer()
			drain(b, lease, int64(b.N), mode.remove)
		})
	}
}

func drain(b *testing.B, lease outbox.Lease, after int64, remove bool) {
	var previous outbox.Step
	for no, left := int64(1), b.N; left > 0; no++ {
		page, err := lease.Read(b.Context(), outbox.ReadRequest{After: after, Limit: min(1000, left)})
		if err != nil {
			b.Fatal(err)
		}
		after, left = page.Last, left-len(page.Fresh)
		batch := outbox.Batch{No: no}
		next := outbox.Step{Done: []int64{no}, Delete: remove}
		for _, r := range page.Fresh {
			batch.IDs = append(batch.IDs, r.Sequence)
			next.Outcomes = append(next.Outcomes, outbox.Outcome{Sequence: r.Sequence, Spent: 1})
		}
		previous.Record = []outbox.Batch{batch}
		if err := lease.Step(b.Context(), previous); err != nil {
			b.Fatal(err)
		}
		previous = next
	}
}

// Missing numbers are probed with every read, so that a late commit keeps its place.
func BenchmarkProbingGaps(b *testing.B) {
	pool := testenv.Postgres(b).Pool(b)
	store := newStore(b, pool, pgstore.Config{})
	fill(b, pool, store.Table(), 100_000)
	lease := acquire(b, store)
	for _, size := range []int64{1, 16} {
		for _, count := range []int{1_000, 10_000} {
			b.Run(fmt.Sprintf("%d numbers in runs of %d", count, size), func(b *testing.B) {
				req := outbox.ReadRequest{After: 200_000, Limit: 1}
				for i := range int64(count) {
					req.IDs = append(req.IDs, 110_000+i+i/size)
				}
				for b.Loop() {
					if _, err := lease.Read(b.Context(), req); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
