package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

var inspectClaims = []claim{
	{"counts_by_status", func(s *suite) {
		lease := s.lease()
		ids := oneOfEach(s, lease)

		stats := s.stats()

		equal(s, "table", stats.Table, s.Store.Table())
		equal(s, "pending", stats.Pending, 4)
		equal(s, "in flight", stats.InFlight, 1)
		equal(s, "retrying", stats.Retrying, 1)
		equal(s, "scheduled", stats.Scheduled, 1)
		equal(s, "dead", stats.Dead, 1)
		equal(s, "discarded", stats.Discarded, 1)
		s.that(!stats.Capped, "%d messages are too many to count", len(ids))
		s.that(time.Since(stats.Now).Abs() < time.Hour, "now is %v", stats.Now)
	}},
	{"tells_the_age_of_the_oldest_message_that_is_due", func(s *suite) {
		lease := s.lease()
		equal(s, "age in an empty table", s.stats().OldestPending, 0)
		s.enqueue(scheduled("later", 100*time.Hour))
		equal(s, "age of what is not due", s.stats().OldestPending, 0)
		s.Shift(s.T, 10*time.Hour)
		id := s.enqueueKeys("old")[0]
		s.Shift(s.T, time.Hour)
		s.enqueueKeys("new")

		age := s.stats().OldestPending
		s.publish(lease, id)
		younger := s.stats().OldestPending

		s.that(age >= time.Hour && age < 2*time.Hour, "the oldest is %v old", age)
		s.that(younger < time.Hour, "the oldest is %v old after it was published", younger)
	}},
	{"counts_by_tenant_those_with_the_most_first", func(s *suite) {
		of := func(tenant string, n int) []int64 {
			msgs := make([]outbox.Message, n)
			for i := range msgs {
				msgs[i] = message("")
				msgs[i].TenantID = tenant
			}
			return s.enqueue(msgs...)
		}
		of("large", 3)
		s.Shift(s.T, time.Hour)
		small, none := of("small", 4), of("", 1)
		later := scheduled("", time.Hour)
		later.TenantID = "later"
		s.enqueue(later)
		s.Shift(s.T, time.Minute)
		lease := s.lease()
		s.publish(lease, small[0])
		s.step(lease, outbox.Step{Outcomes: []outbox.Outcome{
			{Sequence: small[1], Kind: outbox.Dead, Spent: 1, Reason: outbox.DeadAttempts},
			{Sequence: small[2], Kind: outbox.Dead, Spent: 1, Reason: outbox.DeadAttempts},
			{Sequence: none[0], Kind: outbox.Retry, Spent: 1, Delay: time.Hour},
		}})
		s.discard(small[2])

		all, err := s.inspector().Tenants(s.Context(), 10)
		s.ok(err)
		top, err := s.inspector().Tenants(s.Context(), 1)
		s.ok(err)

		equal(s, "tenants", len(all.Tenants), 4)
		for i, want := range []outbox.TenantCount{{TenantID: "large", Pending: 3}, {TenantID: "small", Pending: 1, Dead: 1}, {Pending: 1}, {TenantID: "later", Pending: 1}} {
			got := all.Tenants[i]
			due := got.TenantID == "large" || got.TenantID == "small"
			s.that((got.OldestPending >= time.Minute) == due && (got.OldestPending >= time.Hour) == (got.TenantID == "large"),
				"the oldest of %q is %v old", got.TenantID, got.OldestPending)
			got.OldestPending = 0
			equal(s, "count", got, want)
		}
		equal(s, "left out", all.Others, 0)
		s.that(!all.Capped, "ten messages are too many to count")
		equal(s, "the first alone", top.Tenants[0].TenantID, "large")
		equal(s, "tenants of one", len(top.Tenants), 1)
		equal(s, "left out of one", top.Others, 3)
	}},
	{"shows_leases_and_their_batches", func(s *suite) {
		free := s.stats().Leases
		lease := s.lease()
		ids := s.enqueueCount(2)
		s.record(lease, 1, ids[0])
		s.record(lease, 2, ids[1])

		held := s.stats().Leases
		s.Shift(s.T, ttl+time.Second)
		expired := s.stats().Leases

		equal(s, "leases", len(held), 1)
		s.that(len(free) == 0 || !free[0].Held, "the lease is held before anyone acquired it")
		equal(s, "instance", held[0].Instance, "one")
		equal(s, "epoch", held[0].Epoch, lease.Info().Epoch)
		equal(s, "batches", held[0].Batches, 2)
		s.that(held[0].Held && !expired[0].Held, "held %v, after it expired %v", held[0].Held, expired[0].Held)
	}},
	{"lists_newest_first_page_by_page", func(s *suite) {
		ids := s.enqueueCount(5)

		first := s.list(outbox.Filter{Limit: 2})
		second := s.list(outbox.Filter{Limit: 2, Before: first.Next})
		third := s.list(outbox.Filter{Limit: 2, Before: second.Next})

		equalAll(s, "first page", sequences(first.Records), []int64{ids[4], ids[3]})
		equalAll(s, "second page", sequences(second.Records), []int64{ids[2], ids[1]})
		equalAll(s, "third page", sequences(third.Records), []int64{ids[0]})
		equal(s, "next of the last page", third.Next, 0)
	}},
	{"lists_oldest_first_page_by_page", func(s *suite) {
		ids := s.enqueueCount(3)

		first := s.list(outbox.Filter{Limit: 2, OldestFirst: true})
		second := s.list(outbox.Filter{Limit: 2, OldestFirst: true, After: first.Next})

		equalAll(s, "first page", sequences(first.Records), ids[:2])
		equalAll(s, "second page", sequences(second.Records), ids[2:])
		equal(s, "next of the last page", second.Next, 0)
	}},
	{"lists_at_most_fifty_unless_asked_and_never_more_than_the_largest_page", func(s *suite) {
		s.enqueueCount(outbox.MaxPage + 1)

		equal(s, "by default", len(s.list(outbox.Filter{}).Records), 50)
		equal(s, "at most", len(s.list(outbox.Filter{Limit: 1_000_000}).Records), outbox.MaxPage)
	}},
	{"lists_by_status", func(s *suite) {
		ids := oneOfEach(s, s.lease())

		for status, id := range ids {
			list := s.list(outbox.Filter{Status: status})
			equalAll(s, string(status), sequences(list.Records), []int64{id})
			equal(s, "status of the record", list.Records[0].Status(list.Now), status)
		}
	}},
	{"lists_by_topic_key_and_tenant", func(s *suite) {
		a, b, c := message("a"), message("b"), message("c")
		b.Topic, c.Topic = "shop.order.paid.v1", "bank.order.paid.v1"
		b.TenantID = "it's"
		ids := s.enqueue(a, b, c)

		for _, row := range []struct {
			filter outbox.Filter
			want   []int64
		}{
			{outbox.Filter{Topic: topic}, ids[:1]},
			{outbox.Filter{Topic: "shop.*.*.v1"}, ids[:2]},
			{outbox.Filter{Topic: "bank.**"}, ids[2:]},
			{outbox.Filter{Topic: "shop.*"}, nil},
			{outbox.Filter{Topic: "shop_order.placed.v1"}, nil},
			{outbox.Filter{Key: "b"}, ids[1:2]},
			{outbox.Filter{TenantID: "it's"}, ids[1:2]},
			{outbox.Filter{TenantID: "it's", Key: "a"}, nil},
		} {
			row.filter.OldestFirst = true
			equalAll(s, fmt.Sprintf("%+v", row.filter), sequences(s.list(row.filter).Records), row.want)
		}
	}},
	{"pages_through_a_filter_without_loss", func(s *suite) {
		keys := strings.Split(strings.Repeat("a b c ", 10), " ")[:30]
		ids := s.enqueueKeys(keys...)

		var got []int64
		for f := (outbox.Filter{Key: "b", Limit: 3, OldestFirst: true}); ; {
			list := s.list(f)
			got = append(got, sequences(list.Records)...)
			if f.After = list.Next; f.After == 0 {
				break
			}
		}

		equal(s, "found", len(got), 10)
		equal(s, "first", got[0], ids[1])
	}},
	{"does_not_read_payloads_for_a_list", func(s *suite) {
		s.enqueueKeys("a")

		equal(s, "payload bytes", len(s.list(outbox.Filter{}).Records[0].Payload), 0)
	}},
	{"gets_one_message_with_its_payload", func(s *suite) {
		msg := message("a")
		msg.EventID = uuid.New()
		id := s.enqueue(msg)[0]

		rec, err := s.inspector().Get(s.Context(), msg.EventID)
		s.ok(err)

		equal(s, "sequence", rec.Sequence, id)
		s.payload(rec, string(msg.Payload))
	}},
	{"finds_no_message_that_does_not_exist", func(s *suite) {
		_, err := s.inspector().Get(s.Context(), uuid.New())

		s.is(err, outbox.ErrNotFound)
	}},
	{"finds_no_message_that_is_not_committed", func(s *suite) {
		msg := message("a")
		msg.EventID = uuid.New()
		tx := s.Begin(s.T)
		_, err := tx.Enqueue(s.Context(), msg)
		s.ok(err)

		_, err = s.inspector().Get(s.Context(), msg.EventID)
		s.ok(tx.Rollback())

		s.is(err, outbox.ErrNotFound)
	}},
	{"remembers_failed_attempts_newest_first", func(s *suite) {
		lease := s.lease()
		id := s.enqueueKeys("a")[0]
		first, second, third := retried(id, 0), deferred(id, 0), died(id, outbox.DeadPermanent)
		second.Attempts, third.Attempts = 1, 1
		second.Error, second.Route = "broker is down", "main"
		s.settle(lease, first)
		s.settle(lease, second)
		s.settle(lease, third)

		history, err := s.inspector().Attempts(s.Context(), id)
		s.ok(err)

		equal(s, "attempts", len(history), 3)
		equal(s, "newest outcome", history[0].Outcome, "dead")
		equal(s, "newest attempt", history[0].Attempt, 2)
		equal(s, "outage", history[1].Error, "broker is down")
		equal(s, "oldest outcome", history[2].Outcome, "retry")
		equal(s, "oldest attempt", history[2].Attempt, 1)
		equal(s, "route", history[2].Route, "main")
		equal(s, "took", history[2].Took, time.Second)
		s.that(time.Since(history[2].At).Abs() < time.Hour, "at %v", history[2].At)
	}},
	{"remembers_neither_successes_nor_put_backs_without_an_error", func(s *suite) {
		lease := s.lease()
		id := s.enqueueKeys("a")[0]
		s.settle(lease, deferred(id, 0))
		s.publish(lease, id)

		history, err := s.inspector().Attempts(s.Context(), id)
		s.ok(err)

		equal(s, "attempts", len(history), 0)
	}},
	{"remembers_no_attempt_that_was_not_applied", func(s *suite) {
		lease := s.lease()
		id := s.enqueueKeys("a")[0]
		s.publish(lease, id)
		late := retried(id, 0)
		late.Attempts = 1

		s.settle(lease, late)

		history, err := s.inspector().Attempts(s.Context(), id)
		s.ok(err)
		equal(s, "attempts", len(history), 0)
	}},
	{"bounds_the_history_of_a_message", func(s *suite) {
		lease := s.lease()
		id := s.enqueueKeys("a")[0]
		for i := range 60 {
			o := retried(id, 0)
			o.Attempts = i
			s.settle(lease, o)
		}

		history, err := s.inspector().Attempts(s.Context(), id)
		s.ok(err)

		s.that(len(history) >= 10 && len(history) <= 30, "%d attempts are remembered, want about 20", len(history))
		equal(s, "newest", history[0].Attempt, 60)
	}},
}

// oneOfEach makes one message of every status.
func oneOfEach(s *suite, lease outbox.Lease) map[outbox.Status]int64 {
	s.Helper()
	ids := s.enqueue(message("a"), scheduled("b", time.Hour), message("c"), message("d"), message("e"), message("f"), message("g"))
	s.record(lease, 1, ids[2])
	s.settle(lease, retried(ids[3], time.Hour), published(ids[4]), died(ids[5], outbox.DeadPermanent), died(ids[6], outbox.DeadDiscarded))
	out := make(map[outbox.Status]int64)
	for i, status := range outbox.Statuses {
		out[status] = ids[i]
	}
	return out
}
