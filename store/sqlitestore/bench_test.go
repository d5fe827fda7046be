package sqlitestore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-outbox/outbox"
)

func benchMessage(i int) outbox.Message {
	return outbox.Message{
		Topic: "shop.order.placed.v1", Key: fmt.Sprint("order-", i%1000),
		Payload: []byte(`{"order":"8c7a5a0e","lines":[{"sku":"a-1","n":2},{"sku":"b-2","n":1}],"total":"12.30","currency":"EUR"}`),
	}
}

func BenchmarkEnqueue(b *testing.B) {
	store, db := newMigrated(b)
	tx, err := db.BeginTx(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer tx.Rollback()
	for i := 0; b.Loop(); i++ {
		if _, err := store.Enqueue(b.Context(), tx, benchMessage(i)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEnqueueMany(b *testing.B) {
	store, db := newMigrated(b)
	msgs := make([]outbox.Message, 1000)
	for i := range msgs {
		msgs[i] = benchMessage(i)
	}
	tx, err := db.BeginTx(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer tx.Rollback()
	for b.Loop() {
		if _, err := store.EnqueueMany(b.Context(), tx, msgs); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(msgs)), "ns/msg")
}

// BenchmarkDrain reads, records and settles a backlog the way a relay does.
func BenchmarkDrain(b *testing.B) {
	for _, remove := range []bool{false, true} {
		b.Run(fmt.Sprintf("delete=%t", remove), func(b *testing.B) {
			const batch = 500
			store, db := newMigrated(b)
			msgs := make([]outbox.Message, batch)
			for i := range msgs {
				msgs[i] = benchMessage(i)
			}
			tx, err := db.BeginTx(b.Context(), nil)
			if err != nil {
				b.Fatal(err)
			}
			for range b.N {
				if _, err := store.EnqueueMany(b.Context(), tx, msgs); err != nil {
					b.Fatal(err)
				}
			}
			if err := tx.Commit(); err != nil {
				b.Fatal(err)
			}
			lease, err := store.Acquire(b.Context(), outbox.LeaseRequest{Instance: "bench", TTL: time.Hour})
			if err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			var after int64
			var step outbox.Step
			for i := range b.N {
				page, err := lease.Read(b.Context(), outbox.ReadRequest{After: after, Limit: batch, Due: 100})
				if err != nil || len(page.Fresh) != batch {
					b.Fatal(len(page.Fresh), err)
				}
				after = page.Last
				ids := make([]int64, batch)
				outcomes := make([]outbox.Outcome, batch)
				for j, rec := range page.Fresh {
					ids[j] = rec.Sequence
					outcomes[j] = outbox.Outcome{Sequence: rec.Sequence, Spent: 1}
				}
				step.Record = []outbox.Batch{{No: int64(i + 1), IDs: ids}}
				if err := lease.Step(b.Context(), step); err != nil {
					b.Fatal(err)
				}
				step = outbox.Step{Outcomes: outcomes, Done: []int64{int64(i + 1)}, Delete: remove}
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "msg/s")
		})
	}
}
