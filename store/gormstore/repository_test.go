package gormstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/compat"
	"github.com/go-outbox/outbox/relay"
	"github.com/go-outbox/outbox/store/gormstore"
)

// The tests of this file are the lines of docs/coming-from.md: what the repositories,
// entities and publishers of other outboxes say, and who says it here.

// tenants has, for tenant a: a pending, a scheduled, a retrying, a published and a dead
// message, and for tenant b a pending one.
func tenants(t *testing.T, b *backend) map[string]uuid.UUID {
	t.Helper()
	ids := map[string]uuid.UUID{}
	of := func(tenant, key string) outbox.Message {
		msg := message(key)
		msg.TenantID, msg.EventID = tenant, uuid.New()
		ids[key] = msg.EventID
		return msg
	}
	b.commit(t, of("a", "published"), of("a", "dies"), of("a", "retrying"))
	b.publish(t, func(msg outbox.DispatchedMessage) error {
		switch msg.Meta.Key {
		case "dies":
			return outbox.Permanent(errBusiness)
		case "retrying":
			return errBusiness
		}
		return nil
	})
	later := of("a", "scheduled")
	later.AvailableAt = time.Now().Add(time.Hour)
	b.commit(t, of("a", "pending"), later, of("b", "other"))
	return ids
}

// publish dispatches what is due, once.
func (b *backend) publish(t *testing.T, dispatch func(outbox.DispatchedMessage) error) {
	t.Helper()
	policy, err := compat.Retry("b")
	ok(t, err)
	r, err := relay.New(b.store, outbox.DispatcherFunc(func(_ context.Context, msg outbox.DispatchedMessage) error {
		return dispatch(msg)
	}), relay.Config{Retries: outbox.Retries{Default: policy}})
	ok(t, err)
	_, err = r.PublishPending(t.Context())
	ok(t, err)
}

func TestTheInspectorAnswersWhatARepositoryIsAsked(t *testing.T) {
	for name, open := range backends {
		t.Run(name, func(t *testing.T) {
			b := open(t, gorm.Config{})
			ids := tenants(t, b)
			for _, tt := range []struct {
				method string
				filter outbox.Filter
				want   string // a key
			}{
				{"FindUnpublishedEventsByTenant", outbox.Filter{Status: outbox.StatusPending, TenantID: "b"}, "other"},
				{"FindEventsForRetry", outbox.Filter{Status: outbox.StatusRetrying}, "retrying"},
				{"GetFailed", outbox.Filter{Status: outbox.StatusDead}, "dies"},
				{"FindUnpublishedEvents", outbox.Filter{Status: outbox.StatusPending, OldestFirst: true, Limit: 1}, "pending"},
			} {
				list, err := b.store.List(t.Context(), tt.filter)
				ok(t, err)
				if len(list.Records) != 1 || list.Records[0].EventID != ids[tt.want] {
					t.Errorf("%s: %d messages, want that of %s", tt.method, len(list.Records), tt.want)
				}
			}

			found, err := b.store.Get(t.Context(), ids["dies"])
			ok(t, err)
			if found.Key != "dies" || string(found.Payload) != `{"n":1}` {
				t.Errorf("FindByID: got %+v", found)
			}
			stats, err := b.store.Stats(t.Context())
			ok(t, err)
			if stats.Pending != 4 || stats.Dead != 1 {
				t.Errorf("CountUnpublishedEvents: %d and %d dead, want 4 and 1", stats.Pending, stats.Dead)
			}
			// With GORM at hand, a count by tenant is one query.
			var unpublished int64
			ok(t, b.db.Table(b.table).Model(&gormstore.Message{}).
				Where("tenant_id = ? AND published_at IS NULL AND dead_at IS NULL", "a").Count(&unpublished).Error)
			if unpublished != 3 {
				t.Errorf("CountUnpublishedEventsByTenant: %d, want 3", unpublished)
			}
		})
	}
}

func TestTheOperatorChangesWhatARepositoryChanges(t *testing.T) {
	for name, open := range backends {
		t.Run(name, func(t *testing.T) {
			b := open(t, gorm.Config{})
			ids := tenants(t, b)
			status := func(key string) outbox.Status {
				r, err := b.store.Get(t.Context(), ids[key])
				ok(t, err)
				return r.Status(time.Now())
			}
			apply := func(a outbox.Action) error {
				a.Actor, a.Reason = "ops", "asked for by a test"
				_, err := b.store.Apply(t.Context(), a)
				return err
			}

			ok(t, apply(outbox.Action{Verb: outbox.VerbReplay, EventID: ids["dies"]}))
			if got := status("dies"); got != outbox.StatusPending {
				t.Errorf("UpdateStatus(CREATED): the message is %s", got)
			}
			ok(t, apply(outbox.Action{Verb: outbox.VerbDiscard, EventID: ids["pending"]}))
			if got := status("pending"); got != outbox.StatusDiscarded || compat.B.Word(got) != "MAX_RETRY" {
				t.Errorf("Delete: the message is %s", got)
			}
			if err := apply(outbox.Action{Verb: outbox.VerbDiscard, EventID: ids["published"]}); !errors.Is(err, outbox.ErrNotApplicable) {
				t.Errorf("Delete of a published event: got %v", err)
			}
			b.shift(t, 48*time.Hour)
			purger := b.store.(outbox.Purger)
			result, err := purger.Purge(t.Context(), outbox.PurgeRequest{Published: 24 * time.Hour, Limit: 1000})
			ok(t, err)
			if result.Published != 1 {
				t.Errorf("DeleteOldPublishedEvents: %d, want 1", result.Published)
			}
			if _, err := b.store.Get(t.Context(), ids["published"]); !errors.Is(err, outbox.ErrNotFound) {
				t.Errorf("the old event: got %v", err)
			}
		})
	}
}

func TestARecordHasTheFieldsOfAnOutboxEvent(t *testing.T) {
	b := sqliteBackend(t, gorm.Config{})
	msg := outbox.Message{
		EventID: uuid.New(), AggregateID: "7", AggregateType: "Order", EventType: "OrderPlaced", EventVersion: 3,
		Topic: "shop.order.placed.v1", Payload: []byte(`{"n":1}`), TenantID: "t",
	}
	b.commit(t, msg)
	b.publish(t, func(outbox.DispatchedMessage) error { return errBusiness })
	record, err := b.store.Get(t.Context(), msg.EventID)
	ok(t, err)
	attempts, err := b.store.Attempts(t.Context(), record.Sequence)
	ok(t, err)
	for _, f := range []struct {
		theirs    string
		got, want any
	}{
		{"ID", record.EventID, msg.EventID},
		{"AggregateID", record.AggregateID, "7"},
		{"AggregateType", record.AggregateType, "Order"},
		{"EventType", record.EventType, "OrderPlaced"},
		{"Payload", string(record.Payload), `{"n":1}`},
		{"CreatedAt", time.Since(record.CreatedAt) < time.Hour, true},
		{"Status", compat.B.Word(record.Status(time.Now())), "FAILED"},
		{"PublishedAt", record.PublishedAt.IsZero(), true},
		{"RetryCount", record.Attempts, 1},
		{"LastRetryAt", len(attempts) == 1 && !attempts[0].At.Before(record.CreatedAt), true},
		{"ErrorMessage", record.LastError, errBusiness.Error()},
		{"TenantID", record.TenantID, "t"},
		{"Version", record.EventVersion, 3},
		{"NextRetryAt", record.AvailableAt.After(attempts[0].At), true},
	} {
		if f.got != f.want {
			t.Errorf("%s: got %v, want %v", f.theirs, f.got, f.want)
		}
	}
}

// The methods of an entity that change its status are what a dispatcher returns.
func TestADispatchersResultIsTheStatus(t *testing.T) {
	b := sqliteBackend(t, gorm.Config{})
	ids := tenants(t, b)
	for key, want := range map[string]string{"published": "PUBLISHED", "retrying": "FAILED", "dies": "MAX_RETRY", "pending": "CREATED"} {
		record, err := b.store.Get(t.Context(), ids[key])
		ok(t, err)
		if got := compat.B.Word(record.Status(time.Now())); got != want {
			t.Errorf("%s is %s, want %s", key, got, want)
		}
		if got := record.PublishedAt.IsZero(); got == (key == "published") {
			t.Errorf("%s: IsPublished is %v", key, !got)
		}
	}
}

func TestMaxRetriesEndsInMaxRetry(t *testing.T) {
	b := sqliteBackend(t, gorm.Config{})
	msg := message("a")
	msg.EventID = uuid.New()
	b.commit(t, msg)
	policy, err := compat.Retry("b")
	ok(t, err)
	for try := 1; try <= policy.MaxAttempts; try++ {
		record, err := b.store.Get(t.Context(), msg.EventID)
		ok(t, err)
		if policy.Exhausted(record.Attempts) || record.Attempts != try-1 {
			t.Fatalf("before try %d: %d attempts", try, record.Attempts)
		}
		b.publish(t, func(outbox.DispatchedMessage) error { return errBusiness })
		b.shift(t, time.Hour) // the longest wait is 30 minutes
	}
	record, err := b.store.Get(t.Context(), msg.EventID)
	ok(t, err)
	if record.Attempts != 6 || record.DeadReason != outbox.DeadAttempts || compat.B.Word(record.Status(time.Now())) != "MAX_RETRY" {
		t.Errorf("after 6 attempts: %+v", record)
	}
}
