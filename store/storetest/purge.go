package storetest

import (
	"errors"
	"time"

	"github.com/go-outbox/outbox"
)

var purgeClaims = []claim{
	{"deletes_only_what_was_published_longer_ago_than_the_retention", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueCount(2)
		s.publish(lease, ids[0])
		s.Shift(s.T, time.Hour)
		s.publish(lease, ids[1])

		early := s.purge(outbox.PurgeRequest{Published: 61 * time.Minute, Limit: many})
		late := s.purge(outbox.PurgeRequest{Published: 59 * time.Minute, Limit: many})

		equal(s, "early", early, outbox.PurgeResult{})
		equal(s, "late", late, outbox.PurgeResult{Published: 1})
		equalAll(s, "messages", sequences(s.list(outbox.Filter{}).Records), ids[1:])
	}},
	{"never_deletes_what_is_not_finished", func(s *suite) {
		lease := s.lease()
		ids := s.enqueue(message("a"), message("b"), scheduled("c", time.Minute), message("d"), message("e"))
		s.record(lease, 1, ids[0])
		s.settle(lease, retried(ids[1], 0), died(ids[3], outbox.DeadPermanent))
		s.Shift(s.T, 10_000*time.Hour)

		result := s.purge(outbox.PurgeRequest{Limit: many})

		equal(s, "result", result, outbox.PurgeResult{})
		equalAll(s, "messages", sequences(s.list(outbox.Filter{OldestFirst: true}).Records), ids)
	}},
	{"keeps_a_dead_message_until_it_has_been_dead_for_its_retention", func(s *suite) {
		lease := s.lease()
		id := s.enqueueKeys("a")[0]
		s.Shift(s.T, 100*time.Hour)
		s.settle(lease, died(id, outbox.DeadPermanent))
		s.Shift(s.T, time.Hour)

		early := s.purge(outbox.PurgeRequest{Dead: 2 * time.Hour, Limit: many})
		s.Shift(s.T, 90*time.Minute)
		late := s.purge(outbox.PurgeRequest{Dead: 2 * time.Hour, Limit: many})

		equal(s, "early", early, outbox.PurgeResult{})
		equal(s, "late", late, outbox.PurgeResult{Dead: 1})
		equal(s, "status", s.status(id), outbox.Status("gone"))
	}},
	{"stops_at_its_limit_and_says_that_there_is_more", func(s *suite) {
		lease := s.lease()
		s.publish(lease, s.enqueueCount(7)...)
		s.Shift(s.T, time.Hour)

		var total, calls int
		for more := true; more && calls < 20; calls++ {
			result := s.purge(outbox.PurgeRequest{Published: time.Minute, Limit: 3})
			s.that(result.Published <= 3, "deleted %d, the limit is 3", result.Published)
			total += result.Published
			more = result.More
		}

		equal(s, "deleted", total, 7)
		equal(s, "messages", len(s.list(outbox.Filter{}).Records), 0)
	}},
	{"finds_what_lies_behind_messages_that_are_kept", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueCount(50)
		s.publish(lease, ids[40:]...)
		s.Shift(s.T, time.Hour)

		total := 0
		for range 20 {
			total += s.purge(outbox.PurgeRequest{Published: time.Minute, Limit: 5}).Published
		}

		equal(s, "deleted", total, 10)
	}},
	{"spares_a_message_that_was_replayed", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueKeys("a", "b")
		s.publish(lease, ids...)
		s.Shift(s.T, time.Hour)
		s.replay(ids[0])

		result := s.purge(outbox.PurgeRequest{Limit: many})

		equal(s, "deleted", result.Published, 1)
		equalAll(s, "due", sequences(s.due(lease)), ids[:1])
	}},
	{"archives_a_message_before_it_deletes_it", func(s *suite) {
		lease := s.lease()
		id := s.enqueueKeys("a")[0]
		s.publish(lease, id)
		s.Shift(s.T, time.Hour)

		var archived []*outbox.Record
		result := s.purge(outbox.PurgeRequest{Limit: many, Archive: func(rec *outbox.Record) error {
			archived = append(archived, rec)
			return nil
		}})

		equal(s, "deleted", result.Published, 1)
		equalAll(s, "archived", sequences(archived), []int64{id})
		s.payload(archived[0], `{"n":1}`)
		s.that(!archived[0].PublishedAt.IsZero(), "the archive lacks published_at")
	}},
	{"keeps_a_message_that_could_not_be_archived", func(s *suite) {
		lease := s.lease()
		id := s.enqueueKeys("a")[0]
		s.publish(lease, id)
		s.Shift(s.T, time.Hour)
		full := errors.New("disk is full")

		result, _ := s.Store.(outbox.Purger).Purge(s.Context(), outbox.PurgeRequest{
			Limit: many, Archive: func(*outbox.Record) error { return full },
		})

		equal(s, "deleted", result.Published, 0)
		equal(s, "status", s.status(id), outbox.StatusPublished)
	}},
	{"ends_the_deduplication_of_what_it_deletes", func(s *suite) {
		lease := s.lease()
		id := s.enqueueKeys("a")[0]
		msg := message("a")
		msg.EventID = s.row(id).EventID
		s.publish(lease, id)
		s.Shift(s.T, time.Hour)
		s.purge(outbox.PurgeRequest{Limit: many})

		again := s.enqueue(msg)[0]

		s.that(again > id, "sequence %d was given out again after %d", again, id)
		equalAll(s, "fresh", sequences(s.fresh(lease)), []int64{again})
	}},
	{"never_lets_a_sequence_be_given_out_again", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueCount(3)
		s.publish(lease, ids...)
		s.Shift(s.T, time.Hour)
		s.purge(outbox.PurgeRequest{Limit: many})

		s.that(s.enqueueKeys("a")[0] > ids[2], "a sequence was given out twice")
	}},
	{"tells_the_relay_when_a_head_is_gone", func(s *suite) {
		lease := s.lease()
		id := s.enqueueKeys("k")[0]
		s.settle(lease, died(id, outbox.DeadPermanent))
		before, err := lease.Renew(s.Context(), outbox.Renewal{})
		s.ok(err)
		s.Shift(s.T, 3*time.Hour)
		s.purge(outbox.PurgeRequest{Dead: 2 * time.Hour, Limit: many})

		after, err := lease.Renew(s.Context(), outbox.Renewal{})
		s.ok(err)

		s.that(after.Nudge != before.Nudge, "the relay would hold the key for ever")
	}},
}
