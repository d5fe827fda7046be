package storetest

import (
	"errors"
	"sync"
	"time"

	"github.com/go-outbox/outbox"
)

var verbClaims = []claim{
	{"discards_whatever_is_not_published", func(s *suite) {
		lease := s.lease()
		ids := s.enqueue(message("a"), message("b"), message("c"), message("d"), scheduled("e", time.Hour))
		s.settle(lease, retried(ids[1], time.Hour), died(ids[2], outbox.DeadAttempts))
		s.record(lease, 1, ids[3])

		for i, before := range []outbox.Status{
			outbox.StatusPending, outbox.StatusRetrying, outbox.StatusDead, outbox.StatusInFlight, outbox.StatusScheduled,
		} {
			effect := s.discard(ids[i])
			equal(s, "effect", effect, outbox.Effect{Messages: 1, Before: before, After: outbox.StatusDiscarded})
			equal(s, "status", s.status(ids[i]), outbox.StatusDiscarded)
		}

		equal(s, "fresh", len(s.fresh(lease)), 0)
		equal(s, "due", len(s.due(lease)), 0)
		equal(s, "heads", len(s.heads(lease)), 0)
		equal(s, "discarded", s.stats().Discarded, 5)
		equal(s, "dead", s.stats().Dead, 0)
	}},
	{"does_not_discard_what_is_published_or_discarded", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueKeys("a", "b")
		s.publish(lease, ids[0])
		s.discard(ids[1])

		for _, id := range ids {
			_, err := s.try(outbox.Action{Verb: outbox.VerbDiscard, EventID: s.row(id).EventID})
			s.is(err, outbox.ErrNotApplicable)
		}
	}},
	{"does_not_let_an_outcome_bring_a_discarded_message_back", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueKeys("a", "b", "c", "d")
		s.record(lease, 1, ids...)
		for _, id := range ids {
			s.discard(id)
		}

		s.step(lease, outbox.Step{
			Outcomes: []outbox.Outcome{
				published(ids[0]), retried(ids[1], 0), died(ids[2], outbox.DeadAttempts), deferred(ids[3], 0),
			},
			Done: []int64{1},
		})

		for _, id := range ids {
			equal(s, "status", s.status(id), outbox.StatusDiscarded)
			equal(s, "attempts", s.row(id).Attempts, 0)
		}
		next := s.takeover("two")
		equal(s, "orphans", len(s.recovered(next)), 0)
	}},
	{"replays_a_discarded_message", func(s *suite) {
		lease := s.lease()
		id := s.enqueueKeys("a")[0]
		s.discard(id)

		equal(s, "before", s.replay(id).Before, outbox.StatusDiscarded)

		due := s.due(lease)
		equalAll(s, "due", sequences(due), []int64{id})
		equal(s, "replays", due[0].Replays, 2)
	}},
	{"reschedules_what_waits", func(s *suite) {
		lease := s.lease()
		ids := s.enqueue(message("a"), message("b"), scheduled("c", time.Hour))
		s.settle(lease, retried(ids[1], time.Hour))
		later := time.Now().Add(48 * time.Hour)

		for i, want := range []outbox.Effect{
			{Messages: 1, Before: outbox.StatusPending, After: outbox.StatusScheduled},
			{Messages: 1, Before: outbox.StatusRetrying, After: outbox.StatusRetrying},
			{Messages: 1, Before: outbox.StatusScheduled, After: outbox.StatusScheduled},
		} {
			equal(s, "effect", s.reschedule(ids[i], later), want)
			available := s.row(ids[i]).AvailableAt
			s.that(available.Sub(later).Abs() < time.Second, "message %d is available at %v, want %v", i, available, later)
		}

		equal(s, "due before", len(s.due(lease)), 0)
		s.Shift(s.T, 49*time.Hour)
		equalAll(s, "due then", sorted(sequences(s.due(lease))), ids)
	}},
	{"reschedules_to_now", func(s *suite) {
		lease := s.lease()
		id := s.enqueue(scheduled("a", 48*time.Hour))[0]

		equal(s, "after", s.reschedule(id, time.Now().Add(-time.Hour)).After, outbox.StatusPending)

		equalAll(s, "due", sequences(s.due(lease)), []int64{id})
	}},
	{"does_not_reschedule_what_is_in_flight_or_over", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueKeys("a", "b", "c", "d")
		s.record(lease, 1, ids[0])
		s.settle(lease, published(ids[1]), died(ids[2], outbox.DeadAttempts))
		s.discard(ids[3])

		for _, id := range ids {
			_, err := s.try(outbox.Action{Verb: outbox.VerbReschedule, EventID: s.row(id).EventID, At: time.Now()})
			s.is(err, outbox.ErrNotApplicable)
		}
	}},
	{"pauses_and_resumes_the_table", func(s *suite) {
		lease := s.lease()
		s.apply(outbox.Action{Verb: outbox.VerbPause})

		renewed, err := lease.Renew(s.Context(), outbox.Renewal{})
		s.ok(err)
		s.that(renewed.Paused, "a renewal does not say that the table is paused")
		equal(s, "paused routes", len(renewed.PausedRoutes), 0)
		s.that(renewed.Nudge > lease.Info().Nudge, "nudge is still %d", renewed.Nudge)
		s.that(s.takeover("two").Info().Paused, "a new lease does not say that the table is paused")

		s.apply(outbox.Action{Verb: outbox.VerbResume})
		s.that(!s.takeover("three").Info().Paused, "the table is still paused")
	}},
	{"pauses_and_resumes_routes", func(s *suite) {
		lease := s.lease()
		for _, route := range []string{"kafka", "billing"} {
			s.apply(outbox.Action{Verb: outbox.VerbPause, Route: route})
		}

		renewed, err := lease.Renew(s.Context(), outbox.Renewal{})
		s.ok(err)
		s.that(!renewed.Paused, "the whole table is paused")
		equalAll(s, "paused routes", renewed.PausedRoutes, []string{"billing", "kafka"})
		equalAll(s, "paused routes of a new lease", s.takeover("two").Info().PausedRoutes, []string{"billing", "kafka"})
		paused := s.stats().Paused
		equal(s, "routes in the stats", len(paused), 2)
		equal(s, "who", paused[0].By, "ada")
		equal(s, "why", paused[0].Reason, "a test")
		s.that(time.Since(paused[0].At).Abs() < time.Hour, "paused at %v", paused[0].At)

		s.apply(outbox.Action{Verb: outbox.VerbResume, Route: "kafka"})
		equalAll(s, "paused routes later", s.takeover("three").Info().PausedRoutes, []string{"billing"})
	}},
	{"does_not_pause_or_resume_twice", func(s *suite) {
		_, err := s.try(outbox.Action{Verb: outbox.VerbResume, Route: "kafka"})
		s.is(err, outbox.ErrNotApplicable)
		s.apply(outbox.Action{Verb: outbox.VerbPause, Route: "kafka"})
		_, err = s.try(outbox.Action{Verb: outbox.VerbPause, Route: "kafka"})
		s.is(err, outbox.ErrNotApplicable)
	}},
	{"retries_the_head_of_a_key", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueKeys("a", "b", "a", "a")
		s.settle(lease, died(ids[0], outbox.DeadAttempts), died(ids[1], outbox.DeadAttempts), died(ids[2], outbox.DeadAttempts))

		effect := s.apply(outbox.Action{Verb: outbox.VerbRetryHead, Key: "a"})

		equal(s, "effect", effect, outbox.Effect{Messages: 1, Before: outbox.StatusDead, After: outbox.StatusPending})
		equalAll(s, "due", sequences(s.due(lease)), ids[:1])
		trail := s.trail()
		equal(s, "sequence in the audit trail", trail[0].Sequence, ids[0])
	}},
	{"retries_a_head_that_waits", func(s *suite) {
		lease := s.lease()
		id := s.enqueueKeys("a")[0]
		s.settle(lease, retried(id, time.Hour))

		effect := s.apply(outbox.Action{Verb: outbox.VerbRetryHead, Key: "a"})

		equal(s, "before", effect.Before, outbox.StatusRetrying)
		equalAll(s, "due", sequences(s.due(lease)), []int64{id})
	}},
	{"skips_the_head_of_a_key", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueKeys("a", "a", "a")
		s.settle(lease, died(ids[0], outbox.DeadAttempts), died(ids[1], outbox.DeadAttempts))

		equal(s, "after", s.apply(outbox.Action{Verb: outbox.VerbSkipHead, Key: "a"}).After, outbox.StatusDiscarded)

		equal(s, "first", s.status(ids[0]), outbox.StatusDiscarded)
		equal(s, "second", s.status(ids[1]), outbox.StatusDead)
		equal(s, "heads", s.heads(lease)[0].Sequence, ids[1])
	}},
	{"releases_a_key", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueKeys("a", "b", "a", "a")
		s.settle(lease, died(ids[0], outbox.DeadAttempts), died(ids[1], outbox.DeadAttempts), died(ids[2], outbox.DeadAttempts))

		effect := s.apply(outbox.Action{Verb: outbox.VerbReleaseKey, Key: "a"})

		equal(s, "effect", effect, outbox.Effect{Messages: 2, Before: outbox.StatusDead, After: outbox.StatusDiscarded})
		heads := s.heads(lease)
		equal(s, "heads", len(heads), 1)
		equal(s, "head", heads[0].Key, "b")
		equal(s, "messages in the audit trail", s.trail()[0].Messages, 2)
	}},
	{"finds_no_head_of_a_key_that_nothing_holds", func(s *suite) {
		s.enqueueKeys("a")
		for _, verb := range []outbox.Verb{outbox.VerbRetryHead, outbox.VerbSkipHead, outbox.VerbReleaseKey} {
			_, err := s.try(outbox.Action{Verb: verb, Key: "a"})
			s.is(err, outbox.ErrNotFound)
		}
	}},
	{"triggers_what_waits_after_a_failure", func(s *suite) {
		lease := s.lease()
		ids := s.enqueue(message("a"), message("b"), scheduled("c", time.Hour), message("d"))
		s.settle(lease, retried(ids[0], time.Hour), deferred(ids[1], time.Hour), died(ids[3], outbox.DeadAttempts))

		effect := s.apply(outbox.Action{Verb: outbox.VerbTrigger})

		equal(s, "messages", effect.Messages, 1)
		equalAll(s, "due", sequences(s.due(lease)), ids[:1])
		renewed, err := lease.Renew(s.Context(), outbox.Renewal{})
		s.ok(err)
		s.that(renewed.Nudge > lease.Info().Nudge, "nudge is still %d", renewed.Nudge)
	}},
	{"ends_a_lease_and_fences_its_owner_off", func(s *suite) {
		lease := s.lease()
		id := s.enqueueKeys("a")[0]
		s.record(lease, 1, id)
		_, err := s.Store.Acquire(s.Context(), outbox.LeaseRequest{Instance: "two", TTL: ttl})
		s.is(err, outbox.ErrLeaseHeld)

		s.apply(outbox.Action{Verb: outbox.VerbReleaseLease, Shard: lease.Info().Shard})

		_, err = lease.Renew(s.Context(), outbox.Renewal{})
		s.is(err, outbox.ErrLeaseLost)
		s.is(lease.Step(s.Context(), outbox.Step{Outcomes: []outbox.Outcome{published(id)}}), outbox.ErrLeaseLost)
		next := s.acquire(s.Reopen(s.T), "two")
		s.that(next.Info().Epoch > lease.Info().Epoch, "the epoch is still %d", next.Info().Epoch)
		s.is(lease.Step(s.Context(), outbox.Step{Outcomes: []outbox.Outcome{published(id)}}), outbox.ErrLeaseLost)
		orphan := s.orphan(next)
		equal(s, "crashes", orphan.Crashes, 0)
		s.that(!orphan.Lost, "being fenced off counts as a crash")
	}},
	{"does_not_end_a_lease_that_nobody_holds", func(s *suite) {
		s.lease()
		s.Shift(s.T, ttl+time.Second)
		for _, shard := range []int{0, 200} {
			_, err := s.try(outbox.Action{Verb: outbox.VerbReleaseLease, Shard: shard})
			s.is(err, outbox.ErrNotApplicable)
		}
	}},
	{"agrees_with_outcomes_that_are_settled_at_the_same_time", func(s *suite) {
		const n = 40
		lease := s.lease()
		ids := s.enqueueCount(n)
		s.record(lease, 1, ids...)
		actions := make([]outbox.Action, n)
		for i, id := range ids {
			actions[i] = outbox.Action{Verb: outbox.VerbDiscard, EventID: s.row(id).EventID, Actor: "ada", Reason: "a test"}
			if i%2 == 0 {
				actions[i].Verb = outbox.VerbReplay
			}
		}

		applied := make([]outbox.Effect, n)
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := range ids {
				var err error
				if applied[i], err = s.operator().Apply(s.Context(), actions[i]); err != nil && !errors.Is(err, outbox.ErrNotApplicable) {
					s.Errorf("apply: %v", err)
				}
			}
		})
		wg.Go(func() {
			for _, id := range ids {
				if err := lease.Step(s.Context(), outbox.Step{Outcomes: []outbox.Outcome{published(id)}}); err != nil {
					s.Errorf("step: %v", err)
				}
			}
		})
		wg.Wait()

		changed := 0
		for i, id := range ids {
			want := applied[i].After // a replay and a discard both win, whoever came first
			if applied[i].Messages == 0 {
				want = outbox.StatusPublished // a discard that came too late
			} else {
				changed++
			}
			equal(s, "status", s.status(id), want)
		}
		equal(s, "audit entries", len(s.trail()), changed)
	}},
}

func (s *suite) discard(sequence int64) outbox.Effect {
	s.Helper()
	return s.apply(outbox.Action{Verb: outbox.VerbDiscard, EventID: s.row(sequence).EventID})
}

func (s *suite) reschedule(sequence int64, at time.Time) outbox.Effect {
	s.Helper()
	return s.apply(outbox.Action{Verb: outbox.VerbReschedule, EventID: s.row(sequence).EventID, At: at})
}

var auditClaims = []claim{
	{"says_who_did_what_to_what", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueKeys("a", "b")
		s.settle(lease, died(ids[0], outbox.DeadAttempts))
		s.discard(ids[1])
		s.apply(outbox.Action{Verb: outbox.VerbPause, Route: "kafka"})
		s.apply(outbox.Action{Verb: outbox.VerbRetryHead, Key: "a"})
		s.apply(outbox.Action{Verb: outbox.VerbReleaseLease, Shard: 0})

		trail := s.trail()

		equal(s, "entries", len(trail), 4)
		for i, want := range []outbox.Verb{outbox.VerbDiscard, outbox.VerbPause, outbox.VerbRetryHead, outbox.VerbReleaseLease} {
			equal(s, "verb", trail[i].Verb, want)
			equal(s, "actor", trail[i].Actor, "ada")
			equal(s, "reason", trail[i].Reason, "a test")
			equal(s, "table", trail[i].Table, s.Store.Table())
		}
		equal(s, "before", trail[0].Before, outbox.StatusPending)
		equal(s, "after", trail[0].After, outbox.StatusDiscarded)
		equal(s, "route", trail[1].Route, "kafka")
		equal(s, "key", trail[2].Key, "a")
		equal(s, "event", trail[2].EventID, s.row(ids[0]).EventID)
	}},
	{"is_selected_by_event_verb_and_actor", func(s *suite) {
		ids := s.enqueueKeys("a", "b")
		s.replay(ids[0])
		s.discard(ids[1])
		s.replay(ids[1])

		for _, c := range []struct {
			filter outbox.AuditFilter
			want   int
		}{
			{outbox.AuditFilter{}, 3},
			{outbox.AuditFilter{EventID: s.row(ids[1]).EventID}, 2},
			{outbox.AuditFilter{Verb: outbox.VerbReplay}, 2},
			{outbox.AuditFilter{Actor: "grace"}, 0},
			{outbox.AuditFilter{Limit: 1}, 1},
		} {
			got, err := s.inspector().Audit(s.Context(), c.filter)
			s.ok(err)
			equal(s, "entries", len(got), c.want)
		}
	}},
	{"is_paged_newest_first", func(s *suite) {
		id := s.enqueueKeys("a")[0]
		for range 3 {
			s.replay(id)
		}

		first, err := s.inspector().Audit(s.Context(), outbox.AuditFilter{Limit: 2})
		s.ok(err)
		second, err := s.inspector().Audit(s.Context(), outbox.AuditFilter{Limit: 2, Before: first[1].ID})
		s.ok(err)

		s.that(first[0].ID > first[1].ID, "entry %d is before %d", first[0].ID, first[1].ID)
		equal(s, "entries on the second page", len(second), 1)
		s.that(second[0].ID < first[1].ID, "the pages overlap")
	}},
	{"keeps_what_others_record", func(s *suite) {
		recorder, ok := s.Store.(outbox.Recorder)
		s.that(ok, "the store is no outbox.Recorder")

		s.ok(recorder.Record(s.Context(), outbox.AuditEntry{
			Actor: "relay-1", Verb: outbox.VerbCircuitOpen, Route: "kafka", Reason: "connection refused",
		}))

		trail := s.trail()
		equal(s, "entries", len(trail), 1)
		equal(s, "verb", trail[0].Verb, outbox.VerbCircuitOpen)
		equal(s, "route", trail[0].Route, "kafka")
		equal(s, "reason", trail[0].Reason, "connection refused")
		s.that(time.Since(trail[0].At).Abs() < time.Hour, "recorded at %v", trail[0].At)
	}},
}
