package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-outbox/outbox"
)

var readClaims = []claim{
	{"returns_fresh_messages_in_sequence_order_page_by_page", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueCount(5)

		first := s.read(lease, outbox.ReadRequest{Limit: 3})
		second := s.read(lease, outbox.ReadRequest{After: first.Last, Limit: 3})
		third := s.read(lease, outbox.ReadRequest{After: second.Last, Limit: 3})

		equalAll(s, "first page", sequences(first.Fresh), ids[:3])
		equal(s, "last of the first page", first.Last, ids[2])
		equalAll(s, "second page", sequences(second.Fresh), ids[3:])
		equal(s, "last of the second page", second.Last, ids[4])
		equal(s, "third page", len(third.Fresh), 0)
		equal(s, "last of an empty page", third.Last, ids[4])
	}},
	{"changes_nothing", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueCount(3)

		for range 2 {
			equalAll(s, "read", sequences(s.fresh(lease)), ids)
		}

		equal(s, "status", s.status(ids[0]), outbox.StatusPending)
	}},
	{"leaves_out_the_fresh_part_when_its_limit_is_zero", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueCount(3)

		page := s.read(lease, outbox.ReadRequest{After: ids[0], IDs: ids[2:]})

		equal(s, "fresh", len(page.Fresh), 0)
		equal(s, "last", page.Last, ids[0])
		equalAll(s, "others", sequences(page.Others), ids[2:])
	}},
	{"leaves_out_what_is_published_or_dead_in_every_part", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueCount(4)
		s.settle(lease, deferred(ids[1], 0), deferred(ids[2], 0))
		s.settle(lease, published(ids[0]), published(ids[1]), died(ids[2], outbox.DeadPermanent))

		equalAll(s, "read", all(s.read(lease, everything(ids))), ids[3:])
	}},
	{"stops_the_fresh_part_at_its_bytes_but_returns_at_least_one", func(s *suite) {
		lease := s.lease()
		msg := message("a")
		msg.Payload = []byte(`"` + strings.Repeat("x", 98) + `"`)
		ids := s.enqueue(msg, msg, msg, msg)

		two := s.read(lease, outbox.ReadRequest{Limit: many, MaxBytes: 250})
		one := s.read(lease, outbox.ReadRequest{Limit: many, MaxBytes: 1, After: two.Last, All: true})

		equalAll(s, "within 250 bytes", sequences(two.Fresh), ids[:2])
		equal(s, "last", two.Last, ids[1])
		equalAll(s, "within 1 byte", sequences(one.Fresh), ids[2:3])
		equal(s, "last", one.Last, ids[2])
	}},
	{"of_all_reports_settled_sequences_as_seen", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueCount(6)
		s.settle(lease, published(ids[0]), published(ids[2]), died(ids[3], outbox.DeadPermanent))

		first := s.read(lease, outbox.ReadRequest{Limit: 4, All: true})
		second := s.read(lease, outbox.ReadRequest{Limit: 4, All: true, After: first.Last})

		equalAll(s, "fresh", sequences(first.Fresh), []int64{ids[1]})
		equalAll(s, "seen", sorted(first.Seen), []int64{ids[0], ids[2], ids[3]})
		equal(s, "last", first.Last, ids[3])
		equalAll(s, "second page", sequences(second.Fresh), ids[4:])
		equal(s, "seen of the second page", len(second.Seen), 0)
	}},
	{"of_all_ends_at_a_settled_sequence", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueCount(3)
		s.publish(lease, ids[1], ids[2])

		page := s.read(lease, outbox.ReadRequest{Limit: many, All: true})

		equal(s, "last", page.Last, ids[2])
		equalAll(s, "fresh", sequences(page.Fresh), ids[:1])
	}},
	{"skips_settled_sequences_without_counting_them", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueCount(5)
		s.publish(lease, ids[0], ids[1], ids[3])

		page := s.read(lease, outbox.ReadRequest{Limit: 2})

		equalAll(s, "fresh", sequences(page.Fresh), []int64{ids[2], ids[4]})
		equal(s, "seen", len(page.Seen), 0)
	}},
	{"by_ids_returns_what_exists_due_or_not", func(s *suite) {
		lease := s.lease()
		ids := s.enqueue(message("a"), scheduled("b", time.Hour), message("c"), message("d"))
		s.publish(lease, ids[2])

		page := s.read(lease, outbox.ReadRequest{IDs: []int64{ids[0], ids[1], ids[2], ids[3] + 1000}})

		equalAll(s, "read", all(page), ids[:2])
	}},
	{"reports_scheduled_messages_as_not_due_until_they_are", func(s *suite) {
		lease := s.lease()
		id := s.enqueue(scheduled("a", time.Hour))[0]

		early := s.read(lease, outbox.ReadRequest{Limit: many, Due: many})
		s.Shift(s.T, 2*time.Hour)
		late := s.read(lease, outbox.ReadRequest{After: id, Limit: many, Due: many})

		equalAll(s, "early", sequences(early.Fresh), []int64{id})
		s.that(!early.Fresh[0].Due, "the message is due an hour early")
		equal(s, "due early", early.Due, 0)
		equalAll(s, "late", sequences(late.Others), []int64{id})
		s.that(late.Others[0].Due, "the message is not due")
	}},
	{"finds_in_the_due_part_only_what_was_scheduled_or_put_back", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueCount(3)
		s.settle(lease, retried(ids[1], 0))

		page := s.read(lease, outbox.ReadRequest{Due: many})

		equalAll(s, "due", sequences(page.Others), ids[1:2])
		equal(s, "count", page.Due, 1)
	}},
	{"finds_what_was_put_back_without_delay_at_once", func(s *suite) {
		lease := s.lease()
		for i := range 20 {
			id := s.enqueueKeys("a")[0]
			s.settle(lease, deferred(id, 0))

			due := s.due(lease)

			s.that(slices.Contains(sequences(due), id), "round %d: message %d is in limbo", i, id)
			rec := due[slices.Index(sequences(due), id)]
			s.that(rec.AvailableAt.After(rec.CreatedAt), "available at %v, created at %v", rec.AvailableAt, rec.CreatedAt)
		}
	}},
	{"pages_the_due_part_by_its_cursor", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueCount(5)
		s.settle(lease, retried(ids[4], time.Minute), retried(ids[0], 2*time.Minute),
			retried(ids[2], 4*time.Minute), retried(ids[1], 3*time.Minute), retried(ids[3], time.Hour))
		s.Shift(s.T, 10*time.Minute)

		var got []int64
		req := outbox.ReadRequest{Due: 1}
		for range 10 {
			page := s.read(lease, req)
			if page.Due == 0 {
				break
			}
			got = append(got, sequences(page.Others)...)
			req.DueAfter = page.DueEnd
		}

		equalAll(s, "due", got, []int64{ids[4], ids[0], ids[1], ids[2]})
	}},
	{"loses_none_of_the_messages_that_fall_due_together", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueCount(7)
		s.settleAll(lease, outbox.Outcome{Kind: outbox.Retry, Spent: 1}, ids)

		var got []int64
		req := outbox.ReadRequest{Due: 2}
		for range 10 {
			page := s.read(lease, req)
			if page.Due == 0 {
				break
			}
			got = append(got, sequences(page.Others)...)
			req.DueAfter = page.DueEnd
		}

		equalAll(s, "due", sorted(got), ids)
	}},
	{"rewinds_to_keys_and_topics", func(s *suite) {
		lease := s.lease()
		refund := message("c")
		refund.Topic = "shop.order.refunded.v1"
		ids := s.enqueue(message("a"), message("b"), refund, message("a"), message("c"), message("a"))

		page := s.read(lease, outbox.ReadRequest{Rewind: &outbox.Rewind{
			After: ids[0], To: ids[4], Limit: many, Keys: []string{"a", "none"}, Topics: []string{refund.Topic},
		}})

		equalAll(s, "rewound", all(page), []int64{ids[2], ids[3]})
		equal(s, "count", page.Rewound, 2)
		equal(s, "end", page.RewindEnd, ids[3])
	}},
	{"pages_a_rewind", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueKeys("a", "b", "a", "a", "b", "a")

		var got []int64
		rewind := outbox.Rewind{To: ids[5], Limit: 3, Keys: []string{"a"}}
		for range 10 {
			page := s.read(lease, outbox.ReadRequest{Rewind: &rewind})
			got = append(got, sequences(page.Others)...)
			if page.Rewound < rewind.Limit {
				break
			}
			rewind.After = page.RewindEnd
		}

		equalAll(s, "rewound", got, []int64{ids[0], ids[2], ids[3], ids[5]})
	}},
	{"compares_keys_bytewise_in_a_rewind", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueKeys("a", "A", "a ", "ä", "a'b")

		for i, key := range []string{"a", "A", "a ", "ä", "a'b"} {
			page := s.read(lease, outbox.ReadRequest{Rewind: &outbox.Rewind{To: ids[4], Limit: many, Keys: []string{key}}})
			equalAll(s, fmt.Sprintf("key %q", key), all(page), ids[i:i+1])
		}
	}},
	{"rewinds_to_everything_when_no_key_and_no_topic_is_named", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueKeys("a", "b", "", "c")
		s.publish(lease, ids[1])

		page := s.read(lease, outbox.ReadRequest{Rewind: &outbox.Rewind{To: ids[2], Limit: many}})

		equalAll(s, "rewound", all(page), []int64{ids[0], ids[2]})
	}},
	{"sweeps_a_range_for_messages_that_only_a_scan_can_find", func(s *suite) {
		lease := s.lease()
		ids := s.enqueue(message("a"), message("b"), message("c"), message("d"), scheduled("e", time.Hour), message("f"), message("g"), message("h"))
		s.settle(lease, published(ids[2]), retried(ids[3], time.Hour), died(ids[5], outbox.DeadPermanent))

		page := s.read(lease, outbox.ReadRequest{Sweep: &outbox.Range{From: ids[0], To: ids[6]}})

		equal(s, "messages with their content", len(page.Fresh)+len(page.Others), 0)
		equal(s, "strays", len(page.Strays), 2)
		equal(s, "first", page.Strays[0], outbox.Stray{Sequence: ids[1], Key: "b", Topic: topic})
		equal(s, "second", page.Strays[1], outbox.Stray{Sequence: ids[6], Key: "g", Topic: topic})
	}},
	{"returns_each_message_once_in_a_page", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueCount(4)
		s.settle(lease, deferred(ids[0], 0), deferred(ids[1], 0))

		whole := everything(ids)
		whole.After = ids[1]
		page := s.read(lease, whole)

		equalAll(s, "fresh", sequences(page.Fresh), ids[2:])
		equalAll(s, "whole page", all(page), ids)
	}},
	{"finds_a_late_commit_below_what_was_read", func(s *suite) {
		s.need(s.Features.LateCommit, "LateCommit")
		lease := s.lease()
		slow := s.Begin(s.T)
		a, err := slow.Enqueue(s.Context(), message("a"))
		s.ok(err)
		b := s.enqueueKeys("b")[0]

		early := s.read(lease, outbox.ReadRequest{Limit: many, All: true, IDs: []int64{a}})
		s.ok(slow.Commit())
		late := s.read(lease, outbox.ReadRequest{After: early.Last, Limit: many, IDs: []int64{a}})

		s.that(a < b, "sequence %d was given out before %d", a, b)
		equalAll(s, "early", all(early), []int64{b})
		equal(s, "last", early.Last, b)
		equalAll(s, "late", all(late), []int64{a})
	}},
	{"reports_no_gap_as_closed_while_its_transaction_runs", func(s *suite) {
		s.need(s.Features.LateCommit, "LateCommit")
		lease := s.lease()
		slow := s.Begin(s.T)
		a, err := slow.Enqueue(s.Context(), message("a"))
		s.ok(err)
		s.enqueueKeys("b")

		found := s.read(lease, outbox.ReadRequest{Limit: many, All: true, IDs: []int64{a}})
		s.enqueueKeys("c")
		again := s.read(lease, outbox.ReadRequest{Limit: many, All: true, IDs: []int64{a}})
		s.ok(slow.Rollback())

		s.that(again.Oldest == 0 || again.Oldest < found.Next,
			"oldest transaction %d has passed %d although one that began before it still runs", again.Oldest, found.Next)
	}},
	{"tells_the_time_of_the_database", func(s *suite) {
		lease := s.lease()

		first := s.read(lease, outbox.ReadRequest{Limit: 1}).Now
		second := s.read(lease, outbox.ReadRequest{Limit: 1}).Now

		s.that(time.Since(first).Abs() < time.Hour, "now is %v", first)
		s.that(!second.Before(first), "now went back from %v to %v", first, second)
	}},
	{"sees_every_message_that_is_enqueued_while_a_relay_works", func(s *suite) {
		lease := s.lease()
		const writers, each = 4, 25
		var wg sync.WaitGroup
		wg.Go(func() { writeConcurrently(s, writers, each) })
		defer wg.Wait()

		for range 10 { // steps run between the writers' commits
			for _, rec := range s.read(lease, outbox.ReadRequest{Limit: 10}).Fresh {
				s.record(lease, rec.Sequence, rec.Sequence)
				s.step(lease, outbox.Step{Outcomes: []outbox.Outcome{published(rec.Sequence)}, Done: []int64{rec.Sequence}})
			}
		}
		wg.Wait()

		for _, rec := range s.fresh(lease) {
			s.publish(lease, rec.Sequence)
		}
		equal(s, "published", s.count(outbox.StatusPublished), writers*each)
	}},
}

// everything asks for some messages by every part of a read.
func everything(ids []int64) outbox.ReadRequest {
	top := slices.Max(ids)
	return outbox.ReadRequest{
		Limit: many, IDs: ids, Due: many,
		Rewind: &outbox.Rewind{To: top, Limit: many, Topics: []string{topic}},
		Sweep:  &outbox.Range{To: top},
	}
}
