package memstore_test

import (
	"testing"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/store/memstore"
)

// BenchmarkDrain relays b.N messages that all wait already, a batch at a time.
func BenchmarkDrain(b *testing.B) {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		b.Fatal(err)
	}
	ctx := b.Context()
	for range b.N {
		if _, err := store.EnqueueAutocommit(ctx, message()); err != nil {
			b.Fatal(err)
		}
	}
	lease, err := store.Acquire(ctx, outbox.LeaseRequest{Instance: "one", TTL: 1 << 40})
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()

	for after, no := int64(0), int64(1); ; no++ {
		page, err := lease.Read(ctx, outbox.ReadRequest{After: after, Limit: 500})
		if err != nil || len(page.Fresh) == 0 {
			return
		}
		after = page.Last
		step := outbox.Step{Record: []outbox.Batch{{No: no}}, Done: []int64{no - 1}}
		for _, rec := range page.Fresh {
			step.Record[0].IDs = append(step.Record[0].IDs, rec.Sequence)
			step.Outcomes = append(step.Outcomes, outbox.Outcome{Sequence: rec.Sequence, Kind: outbox.Published, Spent: 1})
		}
		if err := lease.Step(ctx, step); err != nil {
			b.Fatal(err)
		}
	}
}
