package pgstore_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/store/pgstore"
)

// A page that follows a full one is read with another statement.
func TestTheNextPageOfABacklogSaysWhatTheFirstWould(t *testing.T) {
	pool := testenv.Postgres(t).Pool(t)
	store := newStore(t, pool, pgstore.Config{})
	ids := enqueue(t, store, "a", "b", "c", "d", "e")
	exec(t, pool, fmt.Sprintf(`UPDATE %s SET published_at = now() WHERE sequence = $1`, store.Table()), ids[2])
	exec(t, pool, fmt.Sprintf(`UPDATE %s SET available_at = now() + interval '1 hour' WHERE sequence = $1`, store.Table()), ids[3])
	lease := acquire(t, store)
	page := func(before int, req outbox.ReadRequest) outbox.Page {
		t.Helper()
		if _, err := lease.Read(t.Context(), outbox.ReadRequest{Limit: before}); err != nil {
			t.Fatal(err)
		}
		got, err := lease.Read(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if got.Now.IsZero() {
			t.Errorf("%+v: nobody tells the time", req)
		}
		got.Now = time.Time{}
		return got
	}

	for _, after := range []int64{0, ids[0], ids[1], ids[2], ids[3], ids[4]} {
		for _, all := range []bool{false, true} {
			req := outbox.ReadRequest{After: after, Limit: 10, All: all}
			first, next := page(1000, req), page(1, req)
			if !reflect.DeepEqual(first, next) {
				t.Errorf("after %d, all %t: the first page is %+v, the next %+v", after, all, first, next)
			}
		}
	}
	for _, r := range page(1, outbox.ReadRequest{Limit: 10}).Fresh {
		if r.Due != (r.Sequence != ids[3]) {
			t.Errorf("message %d: due is %t", r.Sequence, r.Due)
		}
	}
}

func TestALostLeaseIsNoticedByTheNextPageOfABacklog(t *testing.T) {
	pool := testenv.Postgres(t).Pool(t)
	for name, messages := range map[string][]string{"more": {"a", "b"}, "nothing more": {"a"}} {
		t.Run(name, func(t *testing.T) {
			store := newStore(t, pool, pgstore.Config{})
			ids := enqueue(t, store, messages...)
			lease := acquire(t, store)
			if _, err := lease.Read(t.Context(), outbox.ReadRequest{Limit: 1}); err != nil {
				t.Fatal(err)
			}
			exec(t, pool, fmt.Sprintf(`UPDATE %s_lease SET epoch = epoch + 1`, store.Table()))

			_, err := lease.Read(t.Context(), outbox.ReadRequest{After: ids[0], Limit: 1})

			if !errors.Is(err, outbox.ErrLeaseLost) {
				t.Errorf("got %v, want ErrLeaseLost", err)
			}
		})
	}
}
