package memstore_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/store/memstore"
)

func TestLeaseExpiresInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, memstore.Config{})
		acquire(t, store, "one")

		<-time.After(time.Minute)
		_, early := store.Acquire(t.Context(), outbox.LeaseRequest{Instance: "two", TTL: time.Minute})
		<-time.After(time.Microsecond)
		_, late := store.Acquire(t.Context(), outbox.LeaseRequest{Instance: "two", TTL: time.Minute})

		if !errors.Is(early, outbox.ErrLeaseHeld) || late != nil {
			t.Fatalf("early: %v, late: %v; want ErrLeaseHeld, then nil", early, late)
		}
	})
}

func TestPutBackIsDueAtOnceOnAClockThatStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, memstore.Config{})
		lease := acquire(t, store, "one")
		id := enqueue(t, store, message())
		err := lease.Step(t.Context(), outbox.Step{Outcomes: []outbox.Outcome{{Sequence: id, Kind: outbox.Deferred}}})
		if err != nil {
			t.Fatal(err)
		}

		page, err := lease.Read(t.Context(), outbox.ReadRequest{Due: 1})

		if err != nil || len(page.Others) != 1 || !page.Others[0].Due {
			t.Fatalf("got %+v, %v; want the message", page.Others, err)
		}
	})
}

func TestEnqueueOfAnEventWaitsForTheOtherTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, memstore.Config{})
		msg := message()
		msg.EventID = uuid.New()
		tx := store.Begin()
		want, err := store.Enqueue(t.Context(), tx, msg)
		if err != nil {
			t.Fatal(err)
		}

		got := make(chan int64, 1)
		go func() { got <- enqueue(t, store, msg) }()
		synctest.Wait()
		select {
		case id := <-got:
			t.Fatalf("got %d before the other transaction ended", id)
		default:
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}

		if id := <-got; id != want {
			t.Fatalf("got sequence %d, want %d", id, want)
		}
	})
}

func TestEnqueueThatWaitsEndsWithItsContext(t *testing.T) {
	for name, cfg := range map[string]memstore.Config{"for an event id": {}, "for its turn": {Gapless: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newStore(t, cfg)
				msg := message()
				msg.EventID = uuid.New()
				tx := store.Begin()
				if _, err := store.Enqueue(t.Context(), tx, msg); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()

				_, err := store.EnqueueAutocommit(ctx, msg)

				if !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("got %v, want a deadline", err)
				}
			})
		})
	}
}

func TestTransactionsThatWaitForEachOtherAreToldSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, memstore.Config{})
		a, b := message(), message()
		a.EventID, b.EventID = uuid.New(), uuid.New()
		one, two := store.Begin(), store.Begin()
		if err := errors.Join(try(t, store, one, a), try(t, store, two, b)); err != nil {
			t.Fatal(err)
		}

		waited := make(chan error, 1)
		go func() { waited <- try(t, store, one, b) }()
		synctest.Wait()
		err := try(t, store, two, a)
		if rollback := two.Rollback(); err == nil || rollback != nil {
			t.Fatalf("got %v and %v, want a deadlock", err, rollback)
		}

		if err := <-waited; err != nil {
			t.Fatalf("the other transaction: %v", err)
		}
	})
}

func TestNewRefusesImpossibleShards(t *testing.T) {
	for _, n := range []int{-1, 257} {
		if _, err := memstore.New(memstore.Config{Shards: n}); !errors.Is(err, outbox.ErrInvalidConfig) {
			t.Errorf("%d shards: got %v, want ErrInvalidConfig", n, err)
		}
	}
}

func TestEndedTransactionRefusesEverything(t *testing.T) {
	store := newStore(t, memstore.Config{})
	tx := store.Begin()
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}

	for name, err := range map[string]error{
		"enqueue": try(t, store, tx, message()), "commit": tx.Commit(), "rollback": tx.Rollback(), "rollback to": tx.RollbackTo(0),
	} {
		if err == nil {
			t.Errorf("%s succeeded", name)
		}
	}
}

func message() outbox.Message {
	return outbox.Message{Topic: "shop.order.placed.v1", Payload: []byte(`{}`)}
}

func try(t *testing.T, store *memstore.Store, tx *memstore.Tx, msg outbox.Message) error {
	_, err := store.Enqueue(t.Context(), tx, msg)
	return err
}

func enqueue(t *testing.T, store *memstore.Store, msg outbox.Message) int64 {
	id, err := store.EnqueueAutocommit(t.Context(), msg)
	if err != nil {
		t.Error(err)
	}
	return id
}

func acquire(t *testing.T, store *memstore.Store, instance string) outbox.Lease {
	t.Helper()
	lease, err := store.Acquire(t.Context(), outbox.LeaseRequest{Instance: instance, TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}
