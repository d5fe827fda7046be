package memstore_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/store/memstore"
	"github.com/go-outbox/outbox/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStore(t *testing.T) { storetest.Run(t, harness(memstore.Config{})) }

func TestGaplessStore(t *testing.T) { storetest.Run(t, harness(memstore.Config{Gapless: true})) }

func harness(cfg memstore.Config) func(t *testing.T) storetest.Harness {
	return func(t *testing.T) storetest.Harness {
		store := newStore(t, cfg)
		return storetest.Harness{
			Store:      store,
			Reopen:     func(*testing.T) outbox.Store { return store },
			Begin:      func(*testing.T) storetest.Tx { return &tx{Tx: store.Begin(), store: store, marks: map[string]int{}} },
			Autocommit: store.EnqueueAutocommit,
			Shift:      func(_ *testing.T, d time.Duration) { store.Shift(d) },
			Features:   storetest.Features{Savepoints: true, Shards: true, LateCommit: !cfg.Gapless, Binary: true},
		}
	}
}

func newStore(t *testing.T, cfg memstore.Config) *memstore.Store {
	t.Helper()
	store, err := memstore.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// tx binds the store's functions to one transaction.
type tx struct {
	*memstore.Tx
	store *memstore.Store
	marks map[string]int
}

func (x *tx) Enqueue(ctx context.Context, msg outbox.Message) (int64, error) {
	return x.store.Enqueue(ctx, x.Tx, msg)
}

func (x *tx) EnqueueMany(ctx context.Context, msgs []outbox.Message) ([]int64, error) {
	return x.store.EnqueueMany(ctx, x.Tx, msgs)
}

func (x *tx) Savepoint(name string) error {
	x.marks[name] = x.Tx.Savepoint()
	return nil
}

func (x *tx) RollbackTo(name string) error { return x.Tx.RollbackTo(x.marks[name]) }
