package storetest

import (
	"fmt"
	"time"

	"github.com/go-outbox/outbox"
)

var deadClaims = []claim{
	{"names_the_message_that_holds_another", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueKeys("a", "b", "a", "a", "a")
		s.settle(lease, died(ids[0], outbox.DeadAttempts), retried(ids[2], time.Hour))

		blocking, err := s.inspector().Ahead(s.Context(), "a", ids[4], true)
		s.ok(err)
		waiting, err := s.inspector().Ahead(s.Context(), "a", ids[4], false)
		s.ok(err)

		equal(s, "ahead", blocking.Sequence, ids[0])
		equal(s, "its status", blocking.Status(s.stats().Now), outbox.StatusDead)
		equal(s, "ahead but for dead ones", waiting.Sequence, ids[2])
		equal(s, "its error", waiting.LastError, "refused")
		for _, c := range []struct {
			key      string
			sequence int64
		}{{"a", ids[0]}, {"b", ids[4]}, {"", ids[4]}} {
			_, err := s.inspector().Ahead(s.Context(), c.key, c.sequence, true)
			s.is(err, outbox.ErrNotFound)
		}
	}},
	{"does_not_take_a_discarded_message_for_a_holder", func(s *suite) {
		ids := s.enqueueKeys("a", "a")
		s.discard(ids[0])

		_, err := s.inspector().Ahead(s.Context(), "a", ids[1], true)

		s.is(err, outbox.ErrNotFound)
	}},
	{"lists_held_keys_once_each", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueKeys("a", "b", "a", "c", "a", "b", "", "d")
		s.settle(lease, died(ids[0], outbox.DeadAttempts), died(ids[2], outbox.DeadAttempts), retried(ids[1], time.Hour),
			died(ids[6], outbox.DeadAttempts))
		s.settle(lease, retried(ids[3], 0))

		keys, err := s.inspector().Keys(s.Context(), 0, 10)
		s.ok(err)

		equal(s, "keys", len(keys), 3)
		for i, want := range []outbox.HeldKey{{Key: "a", Waiting: 1}, {Key: "b", Waiting: 1}, {Key: "c"}} {
			equal(s, "key", keys[i].Key, want.Key)
			equal(s, "head", keys[i].Head.Sequence, ids[[]int{0, 1, 3}[i]])
			equal(s, "waiting behind "+want.Key, keys[i].Waiting, want.Waiting)
		}
	}},
	{"pages_through_held_keys", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueKeys("a", "b", "a", "b", "c")
		s.settleAll(lease, died(0, outbox.DeadAttempts), ids)

		first, err := s.inspector().Keys(s.Context(), 0, 2)
		s.ok(err)
		second, err := s.inspector().Keys(s.Context(), first[1].Head.Sequence, 2)
		s.ok(err)

		equal(s, "keys on the first page", len(first), 2)
		equal(s, "keys on the second page", len(second), 1)
		equal(s, "key on the second page", second[0].Key, "c")
	}},
	{"sorts_dead_messages_into_groups", func(s *suite) {
		lease := s.lease()
		other := message("x")
		other.Topic = "shop.order.paid.v1"
		ids := s.enqueue(message("a"), message("b"), message("c"), message("d"), other, message("e"), message("f"))
		for i, id := range ids[:5] {
			o := died(id, outbox.DeadAttempts)
			o.Error = fmt.Sprintf("status 503 after %dms", i)
			switch i {
			case 2:
				o.Route = "billing"
			case 3:
				o.Reason, o.Error = outbox.DeadPermanent, "rejected"
			}
			s.settle(lease, o)
			s.Shift(s.T, time.Minute)
		}
		s.discard(ids[5])

		groups, err := s.inspector().Groups(s.Context(), outbox.Filter{})
		s.ok(err)

		s.that(!groups.Capped, "five are too many")
		equal(s, "groups", len(groups.Groups), 4)
		largest := groups.Groups[0]
		equal(s, "count", largest.Count, 2)
		equal(s, "topic", largest.Topic, topic)
		equal(s, "route", largest.Route, "main")
		equal(s, "reason", largest.Reason, outbox.DeadAttempts)
		equal(s, "error", largest.Error, "status # after #")
		equal(s, "sample", largest.Sample, s.row(ids[1]).EventID)
		apart := largest.Last.Sub(largest.First)
		s.that(apart > 30*time.Second && apart < 90*time.Second, "first and last are %v apart", apart)
	}},
	{"groups_what_a_filter_selects", func(s *suite) {
		lease := s.lease()
		ids := s.dead(lease, 3)
		s.settle(lease)
		req := outbox.Filter{Status: outbox.StatusDead, Key: "key-1"}

		groups, err := s.inspector().Groups(s.Context(), req)
		s.ok(err)

		equal(s, "groups", len(groups.Groups), 1)
		equal(s, "sample", groups.Groups[0].Sample, s.row(ids[1]).EventID)
	}},
	{"says_where_a_message_is_in_flight", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueKeys("a", "b")
		s.record(lease, 1, ids[0])

		flight := s.row(ids[0]).Flight

		s.that(flight != nil, "it is in flight nowhere")
		equal(s, "instance", flight.Instance, "one")
		s.that(time.Since(flight.Since).Abs() < time.Hour, "it is in flight since %v", flight.Since)
		s.that(s.row(ids[1]).Flight == nil, "another one is in flight too")
	}},
	{"lists_by_time_of_creation", func(s *suite) {
		ids := s.enqueueCount(1)
		s.Shift(s.T, time.Hour)
		ids = append(ids, s.enqueueKeys("late")...)
		middle := s.stats().Now.Add(-30 * time.Minute)

		equalAll(s, "until", sequences(s.list(outbox.Filter{Until: middle}).Records), ids[:1])
		equalAll(s, "since", sequences(s.list(outbox.Filter{Since: middle}).Records), ids[1:])
	}},
	{"shows_relays_with_their_notes", func(s *suite) {
		fleet, ok := s.Store.(outbox.Fleet)
		s.that(ok, "the store is no outbox.Fleet")
		note := outbox.RelayNote{
			OnDead:   "block",
			Circuits: []outbox.CircuitNote{{Route: "kafka", Since: time.Now().UTC().Truncate(time.Second), Error: "refused"}},
		}
		_, err := fleet.Heartbeat(s.Context(), outbox.Member{Instance: "one", Version: "v1", TTL: time.Minute, Note: note})
		s.ok(err)

		live := s.stats().Relays
		s.Shift(s.T, 2*time.Minute)
		gone := s.stats().Relays

		equal(s, "relays", len(live), 1)
		s.that(live[0].Live, "it does not live")
		equal(s, "on dead", live[0].Note.OnDead, "block")
		equal(s, "circuits", len(live[0].Note.Circuits), 1)
		equal(s, "circuit", live[0].Note.Circuits[0], note.Circuits[0])
		s.that(len(gone) == 1 && !gone[0].Live, "a relay that is silent is shown as %+v", gone)
	}},
}
