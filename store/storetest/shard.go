package storetest

import (
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

var shardClaims = []claim{
	{"of_a_fleet_counts_the_members_that_are_alive", func(s *suite) {
		fleet, ok := s.Store.(outbox.Fleet)
		s.need(ok, "outbox.Fleet")
		one := outbox.Member{Instance: "one", Version: "v1", TTL: time.Minute}
		two := outbox.Member{Instance: "two", Version: "v1", TTL: time.Minute}

		equal(s, "live with one", beat(s, fleet, one).Live, 1)
		equal(s, "live with two", beat(s, fleet, two).Live, 2)
		equal(s, "live after the same beat again", beat(s, fleet, two).Live, 2)
		s.Shift(s.T, 2*time.Minute)
		equal(s, "live after both were silent", beat(s, fleet, one).Live, 1)
		beat(s, fleet, two)
		s.ok(fleet.Leave(s.Context(), "two"))
		equal(s, "live after one left", beat(s, fleet, one).Live, 1)
		relays := s.stats().Relays
		equal(s, "relays shown", len(relays), 1)
		equal(s, "relay shown", relays[0].Instance+" "+relays[0].Version, "one v1")
	}},
	{"ranges_are_disjoint_and_complete", func(s *suite) {
		for _, n := range []int{1, 2, 3, 8, 256} {
			fleet := s.fleet()
			s.ok(fleet.Resize(s.Context(), n))
			leases := s.acquireAll(n)

			owner := make(map[int]int)
			for _, l := range leases {
				info := l.Info()
				equal(s, "shards", info.Shards, n)
				for slot := info.SlotLo; slot <= info.SlotHi; slot++ {
					other, taken := owner[slot]
					s.that(!taken, "slot %d belongs to shards %d and %d", slot, other, info.Shard)
					owner[slot] = info.Shard
				}
			}
			equal(s, "slots", len(owner), 256)
			s.releaseAll(leases)
		}
	}},
	{"are_each_given_to_one_owner", func(s *suite) {
		s.ok(s.fleet().Resize(s.Context(), 4))
		shards := make([]int, 8)
		var wg sync.WaitGroup
		for i := range shards {
			store := s.Reopen(s.T)
			wg.Go(func() { shards[i] = acquireOne(s, store) })
		}
		wg.Wait()

		// A loser may have looked while a winner was at work: the rest is free.
		free := s.acquireRest()
		slices.Sort(shards)
		owned := slices.DeleteFunc(append(shards, free...), func(shard int) bool { return shard < 0 })
		slices.Sort(owned)
		equalAll(s, "owned", owned, []int{0, 1, 2, 3})
	}},
	{"read_each_message_in_exactly_one_of_them", func(s *suite) {
		s.ok(s.fleet().Resize(s.Context(), 4))
		leases := s.acquireAll(4)
		ids := s.enqueueCount(100)

		var got []int64
		for _, l := range leases {
			page := s.read(l, outbox.ReadRequest{Limit: many, All: true})
			mine := sequences(page.Fresh)
			s.that(len(mine) > 0, "shard %d of 4 has none of %d messages", l.Info().Shard, len(ids))
			equalAll(s, "own and foreign", sorted(append(page.Seen, mine...)), ids)
			whole := s.read(l, everything(ids))
			equalAll(s, "own by every part", all(whole), mine)
			equal(s, "own by a sweep", len(whole.Strays), len(mine))
			got = append(got, mine...)
		}

		equalAll(s, "read by all", sorted(got), ids)
	}},
	{"share_the_messages_without_a_key", func(s *suite) {
		s.ok(s.fleet().Resize(s.Context(), 2))
		leases := s.acquireAll(2)
		ids := s.enqueueKeys(make([]string, 60)...)

		left, right := sequences(s.fresh(leases[0])), sequences(s.fresh(leases[1]))

		equalAll(s, "read by both", sorted(append(left, right...)), ids)
		s.that(len(left) > 0 && len(right) > 0, "%d and %d messages", len(left), len(right))
	}},
	{"keep_the_messages_of_a_key_together", func(s *suite) {
		s.ok(s.fleet().Resize(s.Context(), 8))
		leases := s.acquireAll(8)
		for range 5 {
			s.enqueueCount(20)
		}

		owner := make(map[string]int)
		for i, l := range leases {
			for _, rec := range s.fresh(l) {
				other, known := owner[rec.Key]
				s.that(!known || other == i, "key %q is in shards %d and %d", rec.Key, other, i)
				owner[rec.Key] = i
			}
		}
		equal(s, "keys", len(owner), 20)
	}},
	{"find_heads_and_due_messages_of_their_own_only", func(s *suite) {
		s.ok(s.fleet().Resize(s.Context(), 4))
		leases := s.acquireAll(4)
		ids := s.enqueueCount(40)
		for _, l := range leases {
			s.settleAll(l, outbox.Outcome{Kind: outbox.Deferred}, sequences(s.fresh(l)))
		}

		var heads, due []int64
		for _, l := range leases {
			for _, h := range s.heads(l) {
				heads = append(heads, h.Sequence)
			}
			due = append(due, sequences(s.due(l))...)
		}

		equalAll(s, "heads", sorted(heads), ids)
		equalAll(s, "due", sorted(due), ids)
	}},
	{"recover_batches_of_their_own_only", func(s *suite) {
		s.ok(s.fleet().Resize(s.Context(), 2))
		leases := s.acquireAll(2)
		ids := s.enqueueCount(20)
		mine := [][]int64{sequences(s.fresh(leases[0])), sequences(s.fresh(leases[1]))}
		s.record(leases[0], 1, mine[0]...)
		s.record(leases[1], 1, mine[1]...)
		s.Shift(s.T, ttl+time.Second)

		for _, l := range s.acquireAll(2) {
			equalAll(s, "recovered", s.orphan(l).IDs, mine[slices.IndexFunc(leases, func(old outbox.Lease) bool {
				return old.Info().Shard == l.Info().Shard
			})])
		}
		equal(s, "messages", len(ids), 20)
	}},
	{"are_not_resized_while_one_is_held", func(s *suite) {
		fleet := s.fleet()
		s.ok(fleet.Resize(s.Context(), 2))
		lease := s.acquire(s.Store, "one")

		s.is(fleet.Resize(s.Context(), 4), outbox.ErrLeaseHeld)

		_, err := lease.Renew(s.Context(), outbox.Renewal{})
		s.ok(err)
		view := beat(s, fleet, outbox.Member{Instance: "one", TTL: time.Minute})
		equal(s, "shards", view.Shards, 2)
		s.ok(lease.Release(s.Context(), 0))
		s.ok(fleet.Resize(s.Context(), 4))
		equal(s, "shards", beat(s, fleet, outbox.Member{Instance: "one", TTL: time.Minute}).Shards, 4)
	}},
	{"take_every_lease_from_its_owner_when_they_are_resized", func(s *suite) {
		fleet := s.fleet()
		s.ok(fleet.Resize(s.Context(), 2))
		ids := s.enqueueCount(2)
		old := s.acquireAll(2)
		s.Shift(s.T, ttl+time.Second)

		s.ok(fleet.Resize(s.Context(), 3))

		for _, l := range old {
			failsEverywhere(s, l, ids)
		}
		for _, l := range s.acquireAll(3) {
			s.that(l.Info().Epoch > old[0].Info().Epoch, "the epoch did not rise")
			failsEverywhere(s, old[0], ids)
		}
	}},
	{"keep_the_lowest_mark_when_they_are_resized", func(s *suite) {
		fleet := s.fleet()
		s.ok(fleet.Resize(s.Context(), 2))
		leases := s.acquireAll(2)
		s.ok(leases[0].Release(s.Context(), 70))
		s.ok(leases[1].Release(s.Context(), 30))

		s.ok(fleet.Resize(s.Context(), 3))

		for _, l := range s.acquireAll(3) {
			equal(s, "low", l.Info().Low, 30)
		}
	}},
	{"keep_the_batches_of_a_vanished_relay_when_they_are_resized", func(s *suite) {
		fleet := s.fleet()
		s.ok(fleet.Resize(s.Context(), 1))
		ids := s.enqueueCount(50)
		s.record(s.lease(), 1, ids...)
		s.Shift(s.T, ttl+time.Second)

		s.ok(fleet.Resize(s.Context(), 4))

		var got []int64
		for _, l := range s.acquireAll(4) {
			mine := sequences(s.fresh(l))
			for _, o := range s.recovered(l) {
				equal(s, "crashes", o.Crashes, 1)
				for _, id := range o.IDs {
					s.that(slices.Contains(mine, id), "shard %d adopted message %d of another", l.Info().Shard, id)
				}
				got = append(got, o.IDs...)
			}
		}
		equalAll(s, "recovered", sorted(got), ids)
	}},
	{"are_at_least_one_and_at_most_256", func(s *suite) {
		fleet := s.fleet()
		for _, n := range []int{-1, 0, 257} {
			s.is(fleet.Resize(s.Context(), n), outbox.ErrInvalidConfig)
		}
		equal(s, "shards", s.lease().Info().Shards, 1)
	}},
}

func (s *suite) fleet() outbox.Fleet {
	s.Helper()
	s.need(s.Features.Shards, "Shards")
	fleet, ok := s.Store.(outbox.Fleet)
	s.that(ok, "the store is no outbox.Fleet")
	return fleet
}

// acquireAll acquires all of n leases, each for an instance of its own.
func (s *suite) acquireAll(n int) []outbox.Lease {
	s.Helper()
	leases := make([]outbox.Lease, n)
	for i := range leases {
		leases[i] = s.acquire(s.Store, uuid.NewString())
	}
	_, err := s.Store.Acquire(s.Context(), outbox.LeaseRequest{Instance: "late", TTL: ttl})
	s.is(err, outbox.ErrLeaseHeld)
	return leases
}

func (s *suite) releaseAll(leases []outbox.Lease) {
	s.Helper()
	for _, l := range leases {
		s.ok(l.Release(s.Context(), 0))
	}
}

// acquireOne returns the shard it got, or -1.
func acquireOne(s *suite, store outbox.Store) int {
	lease, err := store.Acquire(s.Context(), outbox.LeaseRequest{Instance: "any", TTL: ttl})
	if err != nil {
		return -1
	}
	return lease.Info().Shard
}

// acquireRest acquires what is still free.
func (s *suite) acquireRest() []int {
	var rest []int
	for range 256 {
		shard := acquireOne(s, s.Store)
		if shard < 0 {
			break
		}
		rest = append(rest, shard)
	}
	return rest
}

func beat(s *suite, fleet outbox.Fleet, m outbox.Member) outbox.FleetView {
	s.Helper()
	view, err := fleet.Heartbeat(s.Context(), m)
	s.ok(err)
	return view
}
