package pgstore_test

import (
	"sync"
	"testing"

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
