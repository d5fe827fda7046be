package storetest

import (
	"slices"
	"time"

	"github.com/go-outbox/outbox"
)

var recoverClaims = []claim{
	{"finds_nothing_when_nothing_was_left_behind", func(s *suite) {
		s.enqueueCount(2)

		equal(s, "recovered", len(s.recovered(s.lease())), 0)
	}},
	{"counts_a_batch_in_flight_as_lost_when_its_owner_vanished", func(s *suite) {
		ids := s.enqueueCount(3)
		s.record(s.lease(), 1, ids...)

		orphan := s.orphan(s.takeover("two"))

		equalAll(s, "messages", orphan.IDs, ids)
		s.that(orphan.Lost, "the batch is not lost")
		equal(s, "crashes", orphan.Crashes, 1)
		s.that(!orphan.Solo && !orphan.Beat, "the batch is solo or has a beat: %+v", orphan)
		equal(s, "crashes of a message", s.row(ids[1]).Crashes, 1)
		equal(s, "attempts of a message", s.row(ids[1]).Attempts, 0)
	}},
	{"adopts_a_batch_under_the_new_epoch_and_not_in_flight", func(s *suite) {
		ids := s.enqueueCount(2)
		s.record(s.lease(), 1, ids...)
		two := s.takeover("two")
		orphan := s.orphan(two)

		again := s.orphan(s.takeover("three"))

		s.that(!again.Lost, "a batch that was never started again counts as lost")
		equal(s, "crashes", again.Crashes, 1)
		equalAll(s, "messages", again.IDs, orphan.IDs)
		equal(s, "crashes of a message", s.row(ids[0]).Crashes, 1)
	}},
	{"gives_adopted_batches_numbers_of_their_own", func(s *suite) {
		ids := s.enqueueCount(4)
		one := s.lease()
		s.record(one, 1, ids[0])
		s.record(one, 2, ids[1])
		two := s.takeover("two")
		adopted := s.recovered(two)
		free := max(adopted[0].No, adopted[1].No) + 1
		s.record(two, free, ids[2])
		three := s.takeover("three")

		orphans := s.recovered(three)

		numbers := map[int64]bool{}
		for _, o := range orphans {
			numbers[o.No] = true
		}
		equal(s, "batches", len(orphans), 3)
		equal(s, "different numbers", len(numbers), 3)
		s.step(three, outbox.Step{Done: []int64{orphans[0].No}})
		equal(s, "batches after one is done", s.stats().Leases[0].Batches, 2)
	}},
	{"excuses_the_same_instance", func(s *suite) {
		ids := s.enqueueCount(2)
		s.record(s.lease(), 1, ids...)

		orphan := s.orphan(s.takeover("one"))

		s.that(!orphan.Lost, "the batch is lost although its owner lives")
		equal(s, "crashes", orphan.Crashes, 0)
		equal(s, "crashes of a message", s.row(ids[0]).Crashes, 0)
	}},
	{"excuses_an_owner_that_was_draining", func(s *suite) {
		ids := s.enqueueCount(2)
		one := s.lease()
		s.record(one, 1, ids...)
		_, err := one.Renew(s.Context(), outbox.Renewal{Draining: true})
		s.ok(err)
		s.that(s.stats().Leases[0].Draining, "the lease is not draining")

		two := s.takeover("two")
		orphan := s.orphan(two)

		s.that(!orphan.Lost, "the batch is lost although its owner was stopping")
		equal(s, "crashes", orphan.Crashes, 0)
		s.that(!s.stats().Leases[0].Draining, "the new owner is draining")
	}},
	{"does_not_count_a_queued_batch_as_lost", func(s *suite) {
		ids := s.enqueueCount(2)
		s.step(s.lease(), outbox.Step{Record: []outbox.Batch{{No: 1, IDs: ids, Queued: true, Crashes: 2}}})

		orphan := s.orphan(s.takeover("two"))

		s.that(!orphan.Lost, "a batch that was never dispatched is lost")
		equal(s, "crashes", orphan.Crashes, 2)
		equalAll(s, "messages", orphan.IDs, ids)
	}},
	{"counts_a_queued_batch_as_lost_once_it_was_started", func(s *suite) {
		ids := s.enqueueCount(2)
		one := s.lease()
		s.step(one, outbox.Step{Record: []outbox.Batch{{No: 1, IDs: ids, Queued: true, Crashes: 1}}})
		s.step(one, outbox.Step{Start: []int64{1}})

		orphan := s.orphan(s.takeover("two"))

		s.that(orphan.Lost, "the batch is not lost")
		equal(s, "crashes", orphan.Crashes, 2)
	}},
	{"counts_an_adopted_batch_again_once_it_was_started_again", func(s *suite) {
		ids := s.enqueueCount(2)
		s.record(s.lease(), 1, ids...)
		two := s.takeover("two")
		s.step(two, outbox.Step{Start: []int64{s.orphan(two).No}})

		orphan := s.orphan(s.takeover("three"))

		s.that(orphan.Lost, "the batch is not lost")
		equal(s, "crashes", orphan.Crashes, 2)
		equalAll(s, "messages", orphan.IDs, ids)
		equal(s, "crashes of a message", s.row(ids[0]).Crashes, 2)
	}},
	{"remembers_a_solo_dispatch_and_whether_it_beat", func(s *suite) {
		ids := s.enqueueCount(2)
		one := s.lease()
		s.step(one, outbox.Step{Record: []outbox.Batch{
			{No: 1, IDs: ids[:1], Crashes: 2, Solo: true}, {No: 2, IDs: ids[1:], Crashes: 2, Solo: true},
		}})
		s.step(one, outbox.Step{Beat: []int64{2}})

		orphans := s.recovered(s.takeover("two"))

		equal(s, "batches", len(orphans), 2)
		for _, o := range orphans {
			s.that(o.Solo && o.Lost, "not solo or not lost: %+v", o)
			equal(s, "beat", o.Beat, o.IDs[0] == ids[1])
			equal(s, "crashes", o.Crashes, 3)
		}
	}},
	{"forgets_the_beat_of_a_batch_that_is_started_again", func(s *suite) {
		ids := s.enqueueCount(1)
		one := s.lease()
		s.step(one, outbox.Step{Record: []outbox.Batch{{No: 1, IDs: ids, Solo: true}}})
		s.step(one, outbox.Step{Beat: []int64{1}})
		two := s.takeover("two")
		s.step(two, outbox.Step{Start: []int64{s.orphan(two).No}})

		s.that(!s.orphan(s.takeover("three")).Beat, "the beat of an earlier dispatch is still there")
	}},
	{"leaves_out_members_that_were_settled", func(s *suite) {
		ids := s.enqueueCount(5)
		one := s.lease()
		s.record(one, 1, ids...)
		s.settle(one, published(ids[0]), retried(ids[1], 0), died(ids[2], outbox.DeadPermanent), deferred(ids[3], 0))

		two := s.takeover("two")
		orphan := s.orphan(two)

		equalAll(s, "messages", orphan.IDs, ids[4:])
		equal(s, "crashes of a message that had failed before", s.row(ids[1]).Crashes, 0)
		equal(s, "status", s.status(ids[1]), outbox.StatusRetrying)
	}},
	{"leaves_out_members_that_were_replayed", func(s *suite) {
		ids := s.enqueueCount(2)
		s.record(s.lease(), 1, ids...)
		s.replay(ids[0])

		orphan := s.orphan(s.takeover("two"))

		equalAll(s, "messages", orphan.IDs, ids[1:])
		equal(s, "crashes of the replayed message", s.row(ids[0]).Crashes, 0)
	}},
	{"keeps_a_member_that_was_put_back_and_recorded_again", func(s *suite) {
		ids := s.enqueueCount(2)
		one := s.lease()
		s.record(one, 1, ids...)
		s.settle(one, deferred(ids[0], 0))
		s.record(one, 2, ids[0])

		var got []int64
		for _, o := range s.recovered(s.takeover("two")) {
			got = append(got, o.IDs...)
		}

		slices.Sort(got)
		equalAll(s, "messages", slices.Compact(got), ids)
	}},
	{"drops_a_batch_whose_members_are_all_settled", func(s *suite) {
		ids := s.enqueueCount(2)
		one := s.lease()
		s.record(one, 1, ids...)
		s.settle(one, published(ids[0]), retried(ids[1], time.Hour))

		two := s.takeover("two")

		equal(s, "recovered", len(s.recovered(two)), 0)
		equal(s, "batches", s.stats().Leases[0].Batches, 0)
	}},
	{"drops_a_batch_whose_members_were_deleted", func(s *suite) {
		ids := s.enqueueCount(2)
		one := s.lease()
		s.record(one, 1, ids...)
		s.step(one, outbox.Step{Outcomes: publishedAll(ids), Delete: true})

		equal(s, "recovered", len(s.recovered(s.takeover("two"))), 0)
	}},
	{"lets_the_successor_finish_the_batch", func(s *suite) {
		ids := s.enqueueCount(2)
		s.record(s.lease(), 1, ids...)
		two := s.takeover("two")
		orphan := s.orphan(two)

		page := s.read(two, outbox.ReadRequest{IDs: orphan.IDs})
		s.step(two, outbox.Step{Start: []int64{orphan.No}})
		s.step(two, outbox.Step{Outcomes: publishedAll(ids), Done: []int64{orphan.No}})

		equalAll(s, "read", all(page), ids)
		equal(s, "crashes as read", page.Others[0].Crashes, 1)
		equal(s, "published", s.count(outbox.StatusPublished), 2)
		equal(s, "batches", s.stats().Leases[0].Batches, 0)
	}},
	{"finds_the_heads_that_hold_their_keys", func(s *suite) {
		one := s.lease()
		ids := s.enqueue(message("dead"), message("backoff"), message("free"), scheduled("later", time.Hour), message(""), message("done"))
		s.settle(one, died(ids[0], outbox.DeadPermanent), retried(ids[1], time.Hour), retried(ids[4], time.Hour), published(ids[5]))

		heads := s.heads(s.takeover("two"))

		equal(s, "heads", len(heads), 3)
		equal(s, "dead", heads[0], outbox.Head{Sequence: ids[0], Key: "dead", Topic: topic, Dead: true})
		equal(s, "in backoff", heads[1], outbox.Head{Sequence: ids[1], Key: "backoff", Topic: topic})
		equal(s, "scheduled", heads[2], outbox.Head{Sequence: ids[3], Key: "later", Topic: topic})
	}},
	{"finds_heads_that_have_fallen_due", func(s *suite) {
		one := s.lease()
		ids := s.enqueueKeys("a", "a")
		s.settle(one, retried(ids[0], time.Minute))

		heads := s.heads(s.takeover("two"))

		equal(s, "heads", len(heads), 1)
		equal(s, "head", heads[0].Sequence, ids[0])
	}},
	{"does_not_hold_a_key_for_a_discarded_message", func(s *suite) {
		lease := s.lease()
		id := s.enqueueKeys("a")[0]
		s.settle(lease, died(id, outbox.DeadDiscarded))

		equal(s, "heads", len(s.heads(lease)), 0)
		equal(s, "status", s.status(id), outbox.StatusDiscarded)
	}},
	{"pages_heads_by_sequence", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueCount(5)
		s.settleAll(lease, outbox.Outcome{Kind: outbox.Dead, Reason: outbox.DeadPermanent}, ids)

		var got []int64
		for after := int64(0); ; {
			heads, err := lease.Heads(s.Context(), after, 2)
			s.ok(err)
			for _, h := range heads {
				got = append(got, h.Sequence)
				after = h.Sequence
			}
			if len(heads) < 2 {
				break
			}
		}

		equalAll(s, "heads", got, ids)
	}},
}
