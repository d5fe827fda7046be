package mysqlstore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/relay"
	"github.com/go-outbox/outbox/store/mysqlstore"
)

// BenchmarkDrain relays a backlog to a dispatcher that does nothing. One iteration is one
// message: run it with -benchtime=50000x.
func BenchmarkDrain(b *testing.B) {
	for _, mode := range []struct {
		name   string
		remove bool
	}{{"keep", false}, {"delete", true}} {
		b.Run(mode.name, func(b *testing.B) {
			store, _ := newMigrated(b)
			load(b, store, b.N)
			ctx, cancel := context.WithTimeout(b.Context(), 5*time.Minute)
			defer cancel()
			var handled atomic.Int64
			r, err := relay.New(store, outbox.DispatcherFunc(func(context.Context, outbox.DispatchedMessage) error {
				if handled.Add(1) == int64(b.N) {
					cancel()
				}
				return nil
			}), relay.Config{Batch: 2000, DeleteOnPublish: mode.remove})
			if err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			if err := r.Run(ctx); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			if n := handled.Load(); n < int64(b.N) {
				b.Fatalf("%d of %d were relayed", n, b.N)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
		})
	}
}

// BenchmarkEnqueue is one message in a transaction of the caller.
func BenchmarkEnqueue(b *testing.B) {
	for _, params := range [][]string{nil, {"interpolateParams=true"}} {
		name := "prepared"
		if len(params) > 0 {
			name = "interpolated"
		}
		b.Run(name, func(b *testing.B) {
			store, db := newMigrated(b, params...)
			b.ResetTimer()
			for range b.N {
				tx, err := db.BeginTx(b.Context(), nil)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := store.Enqueue(b.Context(), tx, message("key")); err != nil {
					b.Fatal(err)
				}
				if err := tx.Commit(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkEnqueueMany is a message among a thousand of one transaction.
func BenchmarkEnqueueMany(b *testing.B) {
	store, _ := newMigrated(b, "interpolateParams=true")
	b.ResetTimer()
	load(b, store, b.N)
}

// load commits n messages of a hundred keys.
func load(t testing.TB, store *mysqlstore.Store, n int) {
	t.Helper()
	for n > 0 {
		msgs := make([]outbox.Message, min(n, 1000))
		for i := range msgs {
			msgs[i] = message(fmt.Sprintf("key-%d", i%100))
		}
		n -= len(msgs)
		tx, err := mysqlstore.DB(store).BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.EnqueueMany(t.Context(), tx, msgs); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
}
