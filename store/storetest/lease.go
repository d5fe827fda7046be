package storetest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-outbox/outbox"
)

var leaseClaims = []claim{
	{"is_given_to_one_owner_at_a_time", func(s *suite) {
		s.lease()

		_, err := s.Reopen(s.T).Acquire(s.Context(), outbox.LeaseRequest{Instance: "two", TTL: ttl})

		s.is(err, outbox.ErrLeaseHeld)
	}},
	{"is_given_to_one_of_many_who_ask_at_once", func(s *suite) {
		errs := make([]error, 8)
		var wg sync.WaitGroup
		for i := range errs {
			store := s.Reopen(s.T)
			wg.Go(func() {
				_, errs[i] = store.Acquire(s.Context(), outbox.LeaseRequest{Instance: string(rune('a' + i)), TTL: ttl})
			})
		}
		wg.Wait()

		winners := 0
		for _, err := range errs {
			if err == nil {
				winners++
				continue
			}
			s.is(err, outbox.ErrLeaseHeld)
		}
		equal(s, "winners", winners, 1)
	}},
	{"describes_itself", func(s *suite) {
		ids := s.enqueueCount(3)

		info := s.lease().Info()

		equal(s, "shard", info.Shard, 0)
		equal(s, "shards", info.Shards, 1)
		equal(s, "lowest slot", info.SlotLo, 0)
		equal(s, "highest slot", info.SlotHi, 255)
		equal(s, "top", info.Top, ids[2])
		equal(s, "low", info.Low, 0)
		equal(s, "gapless", info.Gapless, !s.Features.LateCommit)
		s.that(info.Epoch > 0, "epoch is %d", info.Epoch)
		s.that(!info.Paused, "the table is paused")
	}},
	{"of_an_empty_table_has_no_top", func(s *suite) {
		equal(s, "top", s.lease().Info().Top, 0)
	}},
	{"has_a_higher_epoch_each_time", func(s *suite) {
		one := s.lease()
		two := s.takeover("two")
		s.ok(two.Release(s.Context(), 0))
		three := s.lease()

		s.that(one.Info().Epoch < two.Info().Epoch, "epoch %d after %d", two.Info().Epoch, one.Info().Epoch)
		s.that(two.Info().Epoch < three.Info().Epoch, "epoch %d after %d", three.Info().Epoch, two.Info().Epoch)
	}},
	{"lasts_as_long_as_it_is_renewed", func(s *suite) {
		lease := s.lease()
		for range 3 {
			s.Shift(s.T, ttl*2/3)
			_, err := lease.Renew(s.Context(), outbox.Renewal{})
			s.ok(err)
		}

		_, err := s.Reopen(s.T).Acquire(s.Context(), outbox.LeaseRequest{Instance: "two", TTL: ttl})

		s.is(err, outbox.ErrLeaseHeld)
	}},
	{"that_expired_can_be_renewed_while_nobody_took_it", func(s *suite) {
		lease := s.lease()
		id := s.enqueueKeys("a")[0]
		s.Shift(s.T, ttl+time.Second)

		s.publish(lease, id)
		_, err := lease.Renew(s.Context(), outbox.Renewal{})
		s.ok(err)

		_, err = s.Reopen(s.T).Acquire(s.Context(), outbox.LeaseRequest{Instance: "two", TTL: ttl})
		s.is(err, outbox.ErrLeaseHeld)
		equal(s, "status", s.status(id), outbox.StatusPublished)
	}},
	{"that_was_taken_over_fails_every_method_and_writes_nothing", func(s *suite) {
		old := s.lease()
		ids := s.enqueueCount(3)
		s.record(old, 1, ids...)
		before := s.row(ids[0])

		two := s.takeover("two")
		info := two.Info()

		s.that(info.Takeover && !old.Info().Takeover, "a takeover does not say so")
		failsEverywhere(s, old, ids)
		equal(s, "status", s.status(ids[0]), outbox.StatusInFlight)
		after := s.row(ids[0])
		equal(s, "attempts", after.Attempts, before.Attempts)
		equal(s, "last error", after.LastError, "")
		equalAll(s, "recovered", s.orphan(two).IDs, ids)
		state := s.stats().Leases[0]
		equal(s, "instance", state.Instance, "two")
		equal(s, "epoch", state.Epoch, info.Epoch)
		equal(s, "low", state.Low, 0)
		s.that(state.Held && !state.Draining, "the lease of the new owner was changed: %+v", state)
	}},
	{"that_was_lost_stays_lost_for_a_new_lease_of_the_same_instance", func(s *suite) {
		old := s.lease()
		ids := s.enqueueCount(2)
		s.takeover("one")

		failsEverywhere(s, old, ids)

		equal(s, "status", s.status(ids[0]), outbox.StatusPending)
	}},
	{"that_was_released_is_free_at_once_and_fails_every_method", func(s *suite) {
		old := s.lease()
		ids := s.enqueueCount(2)

		s.ok(old.Release(s.Context(), ids[0]))

		failsEverywhere(s, old, ids)
		next := s.acquire(s.Reopen(s.T), "two")
		s.that(!next.Info().Takeover, "a lease that was given back was taken over")
		equal(s, "low", next.Info().Low, ids[0])
		failsEverywhere(s, old, ids)
		equal(s, "status", s.status(ids[1]), outbox.StatusPending)
	}},
	{"hands_its_low_water_mark_to_the_next_owner", func(s *suite) {
		lease := s.lease()
		_, err := lease.Renew(s.Context(), outbox.Renewal{Low: 42})
		s.ok(err)

		equal(s, "low", s.takeover("two").Info().Low, 42)
	}},
	{"may_lower_its_low_water_mark", func(s *suite) {
		lease := s.lease()
		for _, low := range []int64{42, 7} {
			_, err := lease.Renew(s.Context(), outbox.Renewal{Low: low})
			s.ok(err)
		}

		equal(s, "low", s.takeover("two").Info().Low, 7)
	}},
	{"loses_or_wins_a_race_of_a_step_against_a_takeover_and_nothing_in_between", func(s *suite) {
		lease := s.lease()
		for range 20 {
			ids := s.enqueueCount(5)
			s.Shift(s.T, ttl+time.Second)
			store := s.Reopen(s.T)
			var stepped error
			var wg sync.WaitGroup
			wg.Go(func() { stepped = lease.Step(s.Context(), outbox.Step{Outcomes: publishedAll(ids)}) })
			next, err := store.Acquire(s.Context(), outbox.LeaseRequest{Instance: "next", TTL: ttl})
			wg.Wait()

			s.ok(err)
			want := outbox.StatusPublished
			if stepped != nil {
				s.is(stepped, outbox.ErrLeaseLost)
				want = outbox.StatusPending
			}
			for _, id := range ids {
				equal(s, "status", s.status(id), want)
			}
			lease = next
		}
	}},
	{"does_nothing_on_a_cancelled_context", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueCount(2)
		ctx, cancel := context.WithCancel(s.Context())
		cancel()

		for method, err := range everyMethod(ctx, lease, ids) {
			s.that(errors.Is(err, context.Canceled), "%s: got error %v, want context.Canceled", method, err)
		}

		equal(s, "status", s.status(ids[0]), outbox.StatusPending)
		s.that(s.stats().Leases[0].Held, "the lease was released")
	}},
}

func publishedAll(ids []int64) []outbox.Outcome {
	outcomes := make([]outbox.Outcome, len(ids))
	for i, id := range ids {
		outcomes[i] = published(id)
	}
	return outcomes
}

func failsEverywhere(s *suite, lease outbox.Lease, ids []int64) {
	s.Helper()
	for method, err := range everyMethod(s.Context(), lease, ids) {
		s.that(errors.Is(err, outbox.ErrLeaseLost), "%s: got error %v, want ErrLeaseLost", method, err)
	}
}

// everyMethod calls each method of a lease, in each of its forms that could write,
// and returns the errors.
func everyMethod(ctx context.Context, lease outbox.Lease, ids []int64) map[string]error {
	errs := make(map[string]error)
	_, errs["Recover"] = lease.Recover(ctx)
	_, errs["Heads"] = lease.Heads(ctx, 0, many)
	_, errs["Read fresh"] = lease.Read(ctx, outbox.ReadRequest{Limit: many})
	_, errs["Read all parts"] = lease.Read(ctx, outbox.ReadRequest{
		Limit: many, All: true, IDs: ids, Due: many, Rewind: &outbox.Rewind{To: many, Limit: many, Keys: []string{"a"}}, Sweep: &outbox.Range{To: many},
	})
	for name, step := range map[string]outbox.Step{
		"Step publish": {Outcomes: publishedAll(ids)},
		"Step delete":  {Outcomes: publishedAll(ids), Delete: true},
		"Step retry":   {Outcomes: []outbox.Outcome{retried(ids[0], 0)}},
		"Step dead":    {Outcomes: []outbox.Outcome{died(ids[0], outbox.DeadPermanent)}},
		"Step defer":   {Outcomes: []outbox.Outcome{deferred(ids[0], 0)}},
		"Step done":    {Done: []int64{1}},
		"Step record":  {Record: []outbox.Batch{{No: 2, IDs: ids}}},
		"Step start":   {Start: []int64{1}},
		"Step beat":    {Beat: []int64{1}},
		"Step mixed":   {Outcomes: append(publishedAll(ids[1:]), retried(ids[0], 0)), Done: []int64{1}, Record: []outbox.Batch{{No: 3, IDs: ids}}},
	} {
		errs[name] = lease.Step(ctx, step)
	}
	_, errs["Renew"] = lease.Renew(ctx, outbox.Renewal{Low: 99, Draining: true})
	errs["Release"] = lease.Release(ctx, 99)
	return errs
}
