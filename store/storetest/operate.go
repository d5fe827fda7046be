package storetest

import (
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

var operateClaims = []claim{
	{"replays_a_dead_message_from_the_beginning", func(s *suite) {
		lease := s.lease()
		id := s.enqueueKeys("a")[0]
		o := died(id, outbox.DeadAttempts)
		o.RoutesDone = []string{"kafka"}
		s.settle(lease, o)

		effect := s.replay(id)

		equal(s, "effect", effect, outbox.Effect{Messages: 1, Before: outbox.StatusDead, After: outbox.StatusPending})
		rec := s.row(id)
		equal(s, "attempts", rec.Attempts, 0)
		equal(s, "replays", rec.Replays, 1)
		equal(s, "reason", rec.DeadReason, "")
		equal(s, "last error", rec.LastError, "")
		equal(s, "routes done", len(rec.RoutesDone), 0)
		equal(s, "status", s.status(id), outbox.StatusPending)
		equal(s, "heads that are dead", deadHeads(s, lease), 0)
	}},
	{"replays_a_message_of_any_status", func(s *suite) {
		lease := s.lease()
		ids := s.enqueue(message("a"), message("b"), message("c"), message("d"), scheduled("e", time.Hour))
		s.settle(lease, published(ids[0]), retried(ids[1], time.Hour), died(ids[2], outbox.DeadDiscarded))

		for i, before := range []outbox.Status{
			outbox.StatusPublished, outbox.StatusRetrying, outbox.StatusDiscarded, outbox.StatusPending, outbox.StatusScheduled,
		} {
			equal(s, "before", s.replay(ids[i]).Before, before)
		}

		equalAll(s, "due", sorted(sequences(s.due(lease))), ids)
	}},
	{"makes_a_replayed_message_due_at_once", func(s *suite) {
		lease := s.lease()
		id := s.enqueueKeys("a")[0]
		s.publish(lease, id)
		s.replay(id)

		due := s.due(lease)

		equalAll(s, "due", sequences(due), []int64{id})
		equal(s, "replays", due[0].Replays, 1)
	}},
	{"keeps_the_event_id_and_changes_the_deduplication_id", func(s *suite) {
		lease := s.lease()
		id := s.enqueueKeys("a")[0]
		first := s.row(id).Meta(s.Store.Table())
		s.publish(lease, id)

		s.replay(id)
		second := s.row(id).Meta(s.Store.Table())
		s.replay(id)
		third := s.row(id).Meta(s.Store.Table())

		equal(s, "event id", second.EventID, first.EventID)
		s.that(first.DedupID() != second.DedupID() && second.DedupID() != third.DedupID(), "deduplication ids repeat")
	}},
	{"wins_against_the_outcome_of_the_earlier_generation", func(s *suite) {
		lease := s.lease()
		id := s.enqueueKeys("a")[0]
		s.record(lease, 1, id)

		effect := s.replay(id)
		s.step(lease, outbox.Step{Outcomes: []outbox.Outcome{published(id)}, Done: []int64{1}})

		equal(s, "before", effect.Before, outbox.StatusInFlight)
		equal(s, "status", s.status(id), outbox.StatusPending)
		next := published(id)
		next.Replays = 1
		s.settle(lease, next)
		equal(s, "status after the new generation", s.status(id), outbox.StatusPublished)
	}},
	{"nudges_the_lease", func(s *suite) {
		id := s.enqueueKeys("a")[0]
		lease := s.lease()
		before := lease.Info().Nudge
		quiet, err := lease.Renew(s.Context(), outbox.Renewal{})
		s.ok(err)

		s.replay(id)
		loud, err := lease.Renew(s.Context(), outbox.Renewal{})
		s.ok(err)

		equal(s, "nudge without a change", quiet.Nudge, before)
		s.that(loud.Nudge > before, "nudge is still %d", loud.Nudge)
		equal(s, "nudge of the next lease", s.takeover("two").Info().Nudge, loud.Nudge)
	}},
	{"writes_an_audit_trail", func(s *suite) {
		id := s.enqueueKeys("a")[0]
		event := s.row(id).EventID

		s.replay(id)

		trail := s.trail()
		equal(s, "entries", len(trail), 1)
		s.that(trail[0].ID > 0 && time.Since(trail[0].At).Abs() < time.Hour, "entry %d is of %v", trail[0].ID, trail[0].At)
		trail[0].ID, trail[0].At = 0, time.Time{}
		equal(s, "entry", trail[0], outbox.AuditEntry{
			Table: s.Store.Table(), Actor: "ada", Verb: outbox.VerbReplay, Reason: "the consumer is mended",
			EventID: event, Sequence: id, Key: "a", Messages: 1, Before: outbox.StatusPending, After: outbox.StatusPending,
		})
	}},
	{"previews_without_changing_anything", func(s *suite) {
		lease := s.lease()
		id := s.enqueueKeys("a")[0]
		s.publish(lease, id)

		effect, err := s.operator().Preview(s.Context(), replayOf(s.row(id).EventID))
		s.ok(err)

		equal(s, "effect", effect, outbox.Effect{Messages: 1, Before: outbox.StatusPublished, After: outbox.StatusPending})
		equal(s, "status", s.status(id), outbox.StatusPublished)
		equal(s, "replays", s.row(id).Replays, 0)
		renewed, err := lease.Renew(s.Context(), outbox.Renewal{})
		s.ok(err)
		equal(s, "nudge", renewed.Nudge, lease.Info().Nudge)
		equal(s, "audit entries", len(s.trail()), 0)
	}},
	{"refuses_what_it_cannot_do", func(s *suite) {
		id := s.row(s.enqueueKeys("a")[0]).EventID
		for _, bad := range []struct {
			change func(*outbox.Action)
			want   error
		}{
			{func(a *outbox.Action) { a.EventID = uuid.New() }, outbox.ErrNotFound},
			{func(a *outbox.Action) { a.EventID = uuid.Nil }, outbox.ErrInvalidConfig},
			{func(a *outbox.Action) { a.Actor = "" }, outbox.ErrInvalidConfig},
			{func(a *outbox.Action) { a.Reason = "" }, outbox.ErrInvalidConfig},
			{func(a *outbox.Action) { a.Verb = "explode" }, outbox.ErrNotApplicable},
		} {
			action := replayOf(id)
			bad.change(&action)
			_, err := s.operator().Preview(s.Context(), action)
			s.is(err, bad.want)
			_, err = s.operator().Apply(s.Context(), action)
			s.is(err, bad.want)
		}

		equal(s, "audit entries", len(s.trail()), 0)
	}},
}

func deadHeads(s *suite, lease outbox.Lease) int {
	s.Helper()
	n := 0
	for _, h := range s.heads(lease) {
		if h.Dead {
			n++
		}
	}
	return n
}
