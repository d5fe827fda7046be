package storetest

import (
	"slices"
	"strings"
	"time"

	"github.com/go-outbox/outbox"
)

var stepClaims = []claim{
	{"of_nothing_is_allowed", func(s *suite) {
		s.step(s.lease(), outbox.Step{})
	}},
	{"publishes", func(s *suite) {
		lease := s.lease()
		id := s.enqueueKeys("a")[0]

		s.publish(lease, id)

		rec := s.row(id)
		s.that(!rec.PublishedAt.IsZero(), "published_at is not set")
		equal(s, "attempts", rec.Attempts, 1)
		equal(s, "unpublished", len(s.fresh(lease)), 0)
		equal(s, "due", len(s.due(lease)), 0)
	}},
	{"publishes_after_failures_and_clears_the_error", func(s *suite) {
		lease := s.lease()
		id := s.enqueueKeys("a")[0]
		s.settle(lease, retried(id, 0))

		s.settle(lease, outbox.Outcome{Sequence: id, Kind: outbox.Published, Attempts: 1, Spent: 1})

		rec := s.row(id)
		equal(s, "attempts", rec.Attempts, 2)
		equal(s, "last error", rec.LastError, "")
		equal(s, "status", s.status(id), outbox.StatusPublished)
		equal(s, "due", len(s.due(lease)), 0)
	}},
	{"publishes_whatever_the_attempts_are", func(s *suite) {
		lease := s.lease()
		id := s.enqueueKeys("a")[0]
		s.settle(lease, retried(id, 0))

		s.publish(lease, id)

		equal(s, "status", s.status(id), outbox.StatusPublished)
	}},
	{"deletes_what_is_published_when_asked", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueCount(4)

		s.step(lease, outbox.Step{
			Delete:   true,
			Outcomes: []outbox.Outcome{published(ids[0]), published(ids[1]), retried(ids[2], time.Hour)},
		})

		equalAll(s, "messages", sequences(s.list(outbox.Filter{OldestFirst: true}).Records), ids[2:])
		equal(s, "status", s.status(ids[2]), outbox.StatusRetrying)
	}},
	{"retries_after_a_delay", func(s *suite) {
		lease := s.lease()
		id := s.enqueueKeys("a")[0]

		s.settle(lease, retried(id, time.Hour))

		rec := s.row(id)
		equal(s, "attempts", rec.Attempts, 1)
		equal(s, "last error", rec.LastError, "refused")
		equal(s, "status", s.status(id), outbox.StatusRetrying)
		equal(s, "due early", len(s.due(lease)), 0)
		s.Shift(s.T, 59*time.Minute)
		equal(s, "due a minute early", len(s.due(lease)), 0)
		s.Shift(s.T, 2*time.Minute)
		equalAll(s, "due in time", sequences(s.due(lease)), []int64{id})
	}},
	{"kills_with_a_reason", func(s *suite) {
		lease := s.lease()
		id := s.enqueueKeys("a")[0]

		s.settle(lease, died(id, outbox.DeadPermanent))

		rec := s.row(id)
		s.that(!rec.DeadAt.IsZero(), "dead_at is not set")
		equal(s, "reason", rec.DeadReason, outbox.DeadPermanent)
		equal(s, "last error", rec.LastError, "refused")
		equal(s, "attempts", rec.Attempts, 1)
		equal(s, "status", s.status(id), outbox.StatusDead)
		equal(s, "unpublished", len(s.fresh(lease)), 0)
	}},
	{"defers_without_spending_an_attempt", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueKeys("a", "b")
		outage := deferred(ids[1], time.Minute)
		outage.Error = "broker is down"

		s.settle(lease, deferred(ids[0], time.Minute), outage)

		equal(s, "attempts", s.row(ids[0]).Attempts+s.row(ids[1]).Attempts, 0)
		equal(s, "error of the first", s.row(ids[0]).LastError, "")
		equal(s, "error of the second", s.row(ids[1]).LastError, "broker is down")
		equal(s, "due early", len(s.due(lease)), 0)
		s.Shift(s.T, 2*time.Minute)
		equalAll(s, "due in time", sorted(sequences(s.due(lease))), ids)
	}},
	{"keeps_the_error_of_an_earlier_attempt_when_it_defers", func(s *suite) {
		lease := s.lease()
		id := s.enqueueKeys("a")[0]
		s.settle(lease, retried(id, 0))

		s.settle(lease, outbox.Outcome{Sequence: id, Kind: outbox.Deferred, Attempts: 1})

		rec := s.row(id)
		equal(s, "last error", rec.LastError, "refused")
		equal(s, "attempts", rec.Attempts, 1)
	}},
	{"spends_as_many_attempts_as_it_is_told", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueKeys("a", "b")
		corrupt := died(ids[0], outbox.DeadCorrupt)
		corrupt.Spent = 0

		s.settle(lease, corrupt, died(ids[1], outbox.DeadAttempts))

		equal(s, "attempts of what was never sent", s.row(ids[0]).Attempts, 0)
		equal(s, "attempts of what was sent", s.row(ids[1]).Attempts, 1)
	}},
	{"that_is_sent_twice_counts_once", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueCount(4)
		step := outbox.Step{
			Outcomes: []outbox.Outcome{published(ids[0]), retried(ids[1], 0), died(ids[2], outbox.DeadPermanent)},
			Record:   []outbox.Batch{{No: 1, IDs: ids[3:]}},
		}

		s.step(lease, step)
		s.step(lease, step)

		for _, id := range ids[:3] {
			equal(s, "attempts", s.row(id).Attempts, 1)
		}
		equal(s, "batches", s.stats().Leases[0].Batches, 1)
		history, err := s.inspector().Attempts(s.Context(), ids[1])
		s.ok(err)
		equal(s, "history", len(history), 1)
	}},
	{"leaves_published_and_dead_messages_as_they_are", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueKeys("a", "b")
		s.settle(lease, published(ids[0]), died(ids[1], outbox.DeadPermanent))
		was := []*outbox.Record{s.row(ids[0]), s.row(ids[1])}

		for i, id := range ids {
			for _, o := range []outbox.Outcome{published(id), retried(id, 0), died(id, outbox.DeadAttempts), deferred(id, 0)} {
				o.Attempts = was[i].Attempts
				s.settle(lease, o)
			}
		}

		for i, id := range ids {
			now := s.row(id)
			equal(s, "attempts", now.Attempts, was[i].Attempts)
			equal(s, "published at", now.PublishedAt, was[i].PublishedAt)
			equal(s, "dead at", now.DeadAt, was[i].DeadAt)
			equal(s, "dead reason", now.DeadReason, was[i].DeadReason)
		}
	}},
	{"leaves_a_message_of_another_generation_as_it_is", func(s *suite) {
		lease := s.lease()
		id := s.enqueueKeys("a")[0]
		s.record(lease, 1, id)
		s.replay(id)

		s.publish(lease, id)
		s.settle(lease, retried(id, time.Hour))
		s.settle(lease, died(id, outbox.DeadPermanent))
		s.settle(lease, deferred(id, time.Hour))
		s.step(lease, outbox.Step{Outcomes: []outbox.Outcome{published(id)}, Delete: true})

		rec := s.row(id)
		s.that(rec.PublishedAt.IsZero() && rec.DeadAt.IsZero(), "the old outcome was applied")
		equal(s, "attempts", rec.Attempts, 0)
		equalAll(s, "due", sequences(s.due(lease)), []int64{id})
	}},
	{"ignores_sequences_and_batches_that_do_not_exist", func(s *suite) {
		lease := s.lease()
		id := s.enqueueKeys("a")[0]

		s.step(lease, outbox.Step{
			Outcomes: []outbox.Outcome{published(id + 1000), retried(id+1001, 0)},
			Done:     []int64{77}, Start: []int64{78}, Beat: []int64{79},
		})

		equal(s, "status", s.status(id), outbox.StatusPending)
		equal(s, "batches", s.stats().Leases[0].Batches, 0)
	}},
	{"remembers_the_routes_that_have_a_message", func(s *suite) {
		lease := s.lease()
		id := s.enqueueKeys("a")[0]
		first, second := retried(id, 0), retried(id, 0)
		first.RoutesDone = []string{"kafka", "it's, \"odd\""}
		second.Attempts = 1

		s.settle(lease, first)
		s.settle(lease, second)

		equalAll(s, "routes done", s.row(id).RoutesDone, first.RoutesDone)
		equalAll(s, "routes done by Read", s.due(lease)[0].RoutesDone, first.RoutesDone)
	}},
	{"stores_error_texts_unchanged", func(s *suite) {
		lease := s.lease()
		text := `it's "bad": \x00 $1 ? %s 😀 ` + strings.Repeat("long ", 300)
		id := s.enqueueKeys("a")[0]
		o := retried(id, 0)
		o.Error = text

		s.settle(lease, o)

		equal(s, "last error", s.row(id).LastError, text)
	}},
	{"settles_and_records_many_at_once", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueCount(1200)
		var outcomes []outbox.Outcome
		var odd []int64
		for i, id := range ids {
			switch {
			case i >= 400 && i%2 == 1:
				odd = append(odd, id)
			case i%100 == 0:
				outcomes = append(outcomes, retried(id, time.Hour))
			default: // a dense run first, then every second one
				outcomes = append(outcomes, published(id))
			}
		}

		s.step(lease, outbox.Step{Outcomes: outcomes, Record: []outbox.Batch{{No: 1, IDs: odd}}})

		equal(s, "retrying", s.count(outbox.StatusRetrying), 12)
		equal(s, "in flight", s.count(outbox.StatusInFlight), len(odd))
		equal(s, "published", s.count(outbox.StatusPublished), 1200-12-len(odd))
		equalAll(s, "batch", s.orphan(s.takeover("two")).IDs, odd)
	}},
	{"records_a_batch_that_a_successor_can_see", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueCount(5)

		s.record(lease, 7, ids[0], ids[2], ids[3])

		equal(s, "status of a member", s.status(ids[2]), outbox.StatusInFlight)
		equal(s, "status of another", s.status(ids[1]), outbox.StatusPending)
		got := s.orphan(s.takeover("two")).IDs
		equalAll(s, "recovered", got, []int64{ids[0], ids[2], ids[3]})
	}},
	{"forgets_a_batch_that_is_done", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueCount(2)
		s.record(lease, 1, ids...)

		s.step(lease, outbox.Step{Outcomes: publishedAll(ids), Done: []int64{1}})

		equal(s, "batches", s.stats().Leases[0].Batches, 0)
		equal(s, "recovered", len(s.recovered(s.takeover("two"))), 0)
	}},
	{"settles_one_batch_and_records_the_next_in_one_write", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueCount(3)
		s.record(lease, 1, ids[0])

		s.step(lease, outbox.Step{
			Outcomes: publishedAll(ids[:1]), Done: []int64{1},
			Record: []outbox.Batch{{No: 2, IDs: ids[1:2]}, {No: 3, IDs: ids[2:]}},
		})

		orphans := s.recovered(s.takeover("two"))
		equal(s, "batches", len(orphans), 2)
		equalAll(s, "recovered", sorted(slices.Concat(orphans[0].IDs, orphans[1].IDs)), ids[1:])
	}},
}
