package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/ops"
	"github.com/go-outbox/outbox/relay"
)

// A moody sink refuses some messages for good and notes the generations that it took.
type moody struct {
	mu   sync.Mutex
	calm bool
	took map[uuid.UUID]int // the highest generation that was delivered
}

func (m *moody) Dispatch(_ context.Context, msg outbox.DispatchedMessage) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.calm && rand.IntN(4) == 0 {
		return outbox.Permanent(errors.New("refused"))
	}
	m.took[msg.Meta.EventID] = max(m.took[msg.Meta.EventID], msg.Meta.Replays+1)
	return nil
}

// An operator replays and discards at random, by hand and in bulk, and takes leases
// away, while two relays work: no replay is lost, nothing that was discarded comes
// back, and the audit trail agrees with the rows.
func TestOperatorsBesideRelaysAndTakeovers(t *testing.T) {
	for _, database := range databases {
		t.Run(database.name, func(t *testing.T) {
			store := database.open(t)
			sink := &moody{took: map[uuid.UUID]int{}}
			for i := range 2 {
				start(t, store, sink, relay.Config{Instance: fmt.Sprint("relay-", i), Lease: 500 * time.Millisecond, OnDead: relay.Skip})
			}
			var ids []uuid.UUID
			for i := range 150 {
				ids = append(ids, enqueue(t, store, "shop.order.placed.v1", fmt.Sprint("k", i%10)))
			}

			last := map[uuid.UUID]outbox.Verb{}
			bulkDone := 0
			for i := range 300 {
				switch {
				case i%50 == 25:
					bulkDone += replayWhatIsDead(t, store)
				case i%30 == 29: // nobody may hold it at the moment
					_, _ = store.Apply(t.Context(), outbox.Action{Verb: outbox.VerbReleaseLease, Actor: "ada", Reason: "a test"})
				default:
					a := outbox.Action{Verb: outbox.VerbReplay, EventID: ids[rand.IntN(len(ids))], Actor: "ada", Reason: "a test"}
					if rand.IntN(3) == 0 {
						a.Verb = outbox.VerbDiscard
					}
					if _, err := store.Apply(t.Context(), a); err == nil {
						last[a.EventID] = a.Verb
					} else if !errors.Is(err, outbox.ErrNotApplicable) {
						t.Fatal(err)
					}
				}
			}
			sink.mu.Lock()
			sink.calm = true
			sink.mu.Unlock()
			eventually(t, "nothing waits any more", func() bool {
				stats, err := store.Stats(t.Context())
				return err == nil && stats.Pending == 0
			})

			agree(t, store, sink, ids, last, bulkDone)
		})
	}
}

func replayWhatIsDead(t *testing.T, store fullStore) int {
	t.Helper()
	req := replayAll(0, 0)
	preview, err := store.PreviewJob(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	req.Expect = preview.Count
	job, err := store.StartJob(t.Context(), req)
	if errors.Is(err, outbox.ErrDrift) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	if job, err = ops.RunJob(t.Context(), store, job.ID, "test", nil); err != nil {
		t.Fatal(err)
	}
	return job.Done
}

// agree compares the rows with what was asked, delivered and audited.
func agree(t *testing.T, store fullStore, sink *moody, ids []uuid.UUID, last map[uuid.UUID]outbox.Verb, bulkDone int) {
	t.Helper()
	generations := 0
	for _, id := range ids {
		rec, err := store.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		generations += rec.Replays
		status := rec.Status(time.Now())
		if (last[id] == outbox.VerbDiscard) != (status == outbox.StatusDiscarded) {
			t.Errorf("%s is %s, and the last thing done to it was %q", id, status, last[id])
		}
		if status == outbox.StatusPublished && sink.took[id] != rec.Replays+1 {
			t.Errorf("%s is published as generation %d, and the sink saw %d", id, rec.Replays, sink.took[id]-1)
		}
	}
	audited := 0
	f := outbox.AuditFilter{Limit: outbox.MaxPage}
	for {
		page, err := store.Audit(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page {
			audited += e.Messages
		}
		if len(page) < outbox.MaxPage {
			break
		}
		f.Before = page[len(page)-1].ID
	}
	if audited != generations {
		t.Errorf("%d changes are audited, the rows have seen %d", audited, generations)
	}
	t.Logf("%d changes, %d of them by jobs", generations, bulkDone)
}
