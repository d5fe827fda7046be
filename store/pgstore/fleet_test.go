package pgstore_test

import (
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/store/pgstore"
)

// Relays that start together all resize: whoever waits for another's change finds
// the leases it had seen gone, and must look again.
func TestRelaysThatStartTogetherMayAllResize(t *testing.T) {
	pool := testenv.Postgres(t).Pool(t)
	store := newStore(t, pool, pgstore.Config{Table: "shop_outbox"})
	for round := range 10 {
		shards := 2 + round%3
		errs := make([]error, 8)
		var group sync.WaitGroup
		for i := range errs {
			group.Go(func() { errs[i] = store.Resize(t.Context(), shards) })
		}
		group.Wait()
		for _, err := range errs {
			if err != nil {
				t.Fatalf("resize to %d: %v", shards, err)
			}
		}
		if got := count(t, pool, `SELECT count(*) FROM shop_outbox_lease`); got != shards {
			t.Fatalf("%d leases after a resize to %d", got, shards)
		}
	}
}

// A subquery that locks is run again for every row of a nested loop, and finds another
// lease each time. The planner chooses that loop when the statistics say that nobody
// gives a lease back.
func TestOneLeaseIsTakenAtATimeWhateverTheStatisticsSay(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t).Pool(t)
	for shards := 2; shards <= 8; shards++ {
		store := newStore(t, pool, pgstore.Config{})
		if err := store.Resize(t.Context(), shards); err != nil {
			t.Fatal(err)
		}
		for _, lease := range acquireAll(t, pool, store, shards) {
			if err := lease.Release(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
		}
		acquireAll(t, pool, store, shards)
	}
}

// acquireAll takes one lease after the other, and has their table analysed at the end.
func acquireAll(t *testing.T, pool *pgxpool.Pool, store *pgstore.Store, shards int) (leases []outbox.Lease) {
	t.Helper()
	for taken := 1; taken <= shards; taken++ {
		lease, err := store.Acquire(t.Context(), outbox.LeaseRequest{Instance: "one", TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		leases = append(leases, lease)
		if held := count(t, pool, `SELECT count(owner) FROM `+store.Table()+`_lease`); held != taken {
			t.Fatalf("%d of %d leases have an owner after %d acquisitions", held, shards, taken)
		}
	}
	if _, err := pool.Exec(t.Context(), `ANALYZE `+store.Table()+`_lease`); err != nil {
		t.Fatal(err)
	}
	return leases
}
