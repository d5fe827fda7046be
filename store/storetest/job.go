package storetest

import (
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

var jobClaims = []claim{
	{"previews_how_many_messages_of_which_topics", func(s *suite) {
		lease := s.lease()
		other := message("c")
		other.Topic = "shop.order.paid.v1"
		ids := s.enqueue(message("a"), message("b"), other, message("d"))
		s.settleAll(lease, died(0, outbox.DeadAttempts), ids[:3])
		req := replayJob(0)
		req.Rate = 2

		p := s.previewJob(req)

		equal(s, "count", p.Count, 3)
		s.that(!p.Capped, "three are too many")
		equal(s, "topics", len(p.Topics), 2)
		equal(s, "largest topic", p.Topics[0], outbox.TopicCount{Topic: topic, Count: 2})
		s.that(p.Takes >= 1500*time.Millisecond && p.Takes < 2*time.Second, "it takes %v", p.Takes)
		equal(s, "dead", s.count(outbox.StatusDead), 3)
	}},
	{"previews_no_more_than_its_cap", func(s *suite) {
		s.dead(s.lease(), 3)
		req := replayJob(0)
		req.Cap = 2

		p := s.previewJob(req)

		equal(s, "count", p.Count, 2)
		s.that(p.Capped, "the cap is not mentioned")
	}},
	{"previews_messages_whose_key_has_moved_on", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueKeys("a", "b", "c", "a", "c")
		s.settle(lease, died(ids[0], outbox.DeadAttempts), died(ids[1], outbox.DeadAttempts), died(ids[4], outbox.DeadAttempts),
			published(ids[2]), published(ids[3]))

		equal(s, "conflicts", s.previewJob(replayJob(0)).KeyConflicts, 1)
	}},
	{"replays_dead_messages", func(s *suite) {
		lease := s.lease()
		ids := s.dead(lease, 3)
		s.enqueueKeys("alive")

		job := s.runJob(replayJob(3))

		equal(s, "state", job.State, outbox.JobDone)
		equal(s, "total", job.Total, 3)
		equal(s, "done", job.Done, 3)
		equalAll(s, "due", sorted(sequences(s.due(lease))), ids)
		equal(s, "replays", s.row(ids[0]).Replays, 1)
		equal(s, "dead", s.count(outbox.StatusDead), 0)
	}},
	{"changes_only_what_its_filter_selects", func(s *suite) {
		lease := s.lease()
		tenant := message("d")
		tenant.TenantID = "7b0ab2ae-07d7-4f7c-9c7f-0f1f5c2a0f11"
		other := message("e")
		other.Topic = "shop.order.paid.v1"
		ids := s.enqueue(message("a"), message("b"), message("c"), tenant, other, message("f"))
		for i, id := range ids[:5] {
			o := died(id, outbox.DeadAttempts)
			switch i {
			case 0:
				o.Error = "status 503 after 12ms"
			case 1:
				o.Reason = outbox.DeadPermanent
			case 2:
				o.Route = "billing"
			}
			s.settle(lease, o)
		}
		for _, c := range []struct {
			name   string
			filter outbox.Filter
			want   []int64
		}{
			{"reason", outbox.Filter{Reason: outbox.DeadPermanent}, ids[1:2]},
			{"route", outbox.Filter{Route: "billing"}, ids[2:3]},
			{"error", outbox.Filter{Error: outbox.Fingerprint("status 500 after 7ms")}, ids[:1]},
			{"tenant", outbox.Filter{TenantID: tenant.TenantID}, ids[3:4]},
			{"topic", outbox.Filter{Topic: "shop.order.paid.*"}, ids[4:5]},
			{"key", outbox.Filter{Key: "a"}, ids[:1]},
		} {
			req := replayJob(1)
			req.Filter = c.filter
			req.Filter.Status = outbox.StatusDead
			equalAll(s, c.name+" in a list", sequences(s.list(req.Filter).Records), c.want)
			equal(s, c.name, s.runJob(req).Done, 1)
			equal(s, c.name+": status", s.status(c.want[0]), outbox.StatusPending)
			s.settle(lease, again(s.row(c.want[0])))
		}
		equal(s, "pending", s.status(ids[5]), outbox.StatusPending)
	}},
	{"changes_only_what_died_in_its_time", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueCount(3)
		for i, id := range ids {
			if i > 0 {
				s.Shift(s.T, time.Hour)
			}
			s.settle(lease, died(id, outbox.DeadAttempts))
		}
		now := s.stats().Now
		req := replayJob(1)
		req.Filter.Since, req.Filter.Until = now.Add(-90*time.Minute), now.Add(-30*time.Minute)
		equalAll(s, "list", sequences(s.list(req.Filter).Records), ids[1:2])

		equal(s, "done", s.runJob(req).Done, 1)

		equal(s, "status of the middle one", s.status(ids[1]), outbox.StatusPending)
		equal(s, "dead", s.count(outbox.StatusDead), 2)
	}},
	{"leaves_alone_what_dies_after_it_was_started", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueCount(3)
		s.settle(lease, died(ids[0], outbox.DeadAttempts))
		s.Shift(s.T, time.Minute)
		job := s.startJob(replayJob(1))
		s.settle(lease, died(ids[2], outbox.DeadAttempts))

		job = s.finishJob(job)

		equal(s, "done", job.Done, 1)
		equal(s, "status of the later one", s.status(ids[2]), outbox.StatusDead)
	}},
	{"discards_dead_messages", func(s *suite) {
		lease := s.lease()
		ids := s.dead(lease, 2)
		req := replayJob(2)
		req.Verb = outbox.VerbDiscard

		equal(s, "done", s.runJob(req).Done, 2)

		equal(s, "status", s.status(ids[0]), outbox.StatusDiscarded)
		equal(s, "heads", len(s.heads(lease)), 0)
	}},
	{"purges_what_is_old_enough_and_its_history", func(s *suite) {
		lease := s.lease()
		ids := s.enqueueCount(6)
		s.settle(lease, died(ids[0], outbox.DeadAttempts), published(ids[1]))
		s.discard(ids[2])
		s.Shift(s.T, 2*time.Hour)
		s.settle(lease, died(ids[3], outbox.DeadAttempts))
		s.discard(ids[4])
		until := s.stats().Now.Add(-time.Hour)

		for i, status := range []outbox.Status{outbox.StatusDead, outbox.StatusPublished, outbox.StatusDiscarded} {
			job := s.runJob(outbox.JobRequest{
				Verb: outbox.VerbPurge, Filter: outbox.Filter{Status: status, Until: until}, Expect: 1, Actor: "ada", Reason: "a test",
			})
			equal(s, "done", job.Done, 1)
			equal(s, "status", s.status(ids[i]), "gone")
		}

		attempts, err := s.inspector().Attempts(s.Context(), ids[0])
		s.ok(err)
		equal(s, "attempts", len(attempts), 0)
		equal(s, "status of one that died lately", s.status(ids[3]), outbox.StatusDead)
		equal(s, "status of one that was discarded lately", s.status(ids[4]), outbox.StatusDiscarded)
		equal(s, "status of one that waits", s.status(ids[5]), outbox.StatusPending)
	}},
	{"refuses_to_start_when_the_count_has_moved", func(s *suite) {
		s.dead(s.lease(), 20)
		for _, expect := range []int{0, 17, 23, 1000} {
			_, err := s.operator().StartJob(s.Context(), replayJob(expect))
			s.is(err, outbox.ErrDrift)
		}
		for _, expect := range []int{19, 20, 21} {
			s.startJob(replayJob(expect))
		}
		equal(s, "dead", s.count(outbox.StatusDead), 20)
	}},
	{"changes_no_more_than_its_cap", func(s *suite) {
		s.dead(s.lease(), 5)
		req := replayJob(3)
		req.Cap = 3

		job := s.runJob(req)

		equal(s, "done", job.Done, 3)
		equal(s, "dead", s.count(outbox.StatusDead), 2)
	}},
	{"keeps_to_its_rate", func(s *suite) {
		lease := s.lease()
		ids := s.dead(lease, 5)
		req := replayJob(5)
		req.Rate = 20 // two in each tenth of a second

		job := s.stepJob(s.startJob(req).ID, "one")
		equal(s, "done after a step", job.Done, 2)
		s.that(job.Wait > 50*time.Millisecond && job.Wait <= 120*time.Millisecond, "the next step is in %v", job.Wait)
		first, second := s.row(ids[0]).AvailableAt, s.row(ids[1]).AvailableAt
		apart := second.Sub(first)
		s.that(apart > 40*time.Millisecond && apart < 70*time.Millisecond, "twenty messages a second are %v apart", apart)

		s.Shift(s.T, time.Minute)
		lagging := s.stepJob(job.ID, "one")
		equal(s, "done while nobody delivers", lagging.Done, 2)
		s.that(lagging.Wait > 0, "it does not wait for the relay")

		s.settle(lease, replayed(ids[0]), replayed(ids[1]))
		equal(s, "done after they were delivered", s.stepJob(job.ID, "one").Done, 4)
		s.Shift(s.T, time.Minute)
		s.settle(lease, replayed(ids[2]), replayed(ids[3]))
		job = s.stepJob(job.ID, "one")
		equal(s, "done at last", job.Done, 5)
		equal(s, "state", s.finishJob(job).State, outbox.JobDone)
	}},
	{"goes_on_in_chunks_and_looks_at_each_message_once", func(s *suite) {
		lease := s.lease()
		s.dead(lease, outbox.JobChunk+5)

		job := s.stepJob(s.startJob(replayJob(outbox.JobChunk+5)).ID, "one")
		equal(s, "done after a step", job.Done, outbox.JobChunk)
		equal(s, "state after a step", job.State, outbox.JobRunning)
		job = s.finishJob(job)

		equal(s, "done", job.Done, outbox.JobChunk+5)
		equal(s, "due", len(s.due(lease)), outbox.JobChunk+5)
	}},
	{"stops_when_it_is_cancelled", func(s *suite) {
		s.dead(s.lease(), 4)
		req := replayJob(4)
		req.Rate = 1
		job := s.stepJob(s.startJob(req).ID, "one")

		cancelled := s.setJob(job.ID, outbox.JobCancelled)
		s.Shift(s.T, time.Minute)
		after := s.stepJob(job.ID, "one")

		equal(s, "state", cancelled.State, outbox.JobCancelled)
		equal(s, "done", after.Done, 1)
		equal(s, "dead", s.count(outbox.StatusDead), 3)
		_, err := s.operator().SetJob(s.Context(), job.ID, outbox.JobRunning, "ada", "a test")
		s.is(err, outbox.ErrNotApplicable)
		trail := s.trail()
		equal(s, "last entry", trail[len(trail)-1].Verb, outbox.VerbCancelJob)
		equal(s, "messages in it", trail[len(trail)-1].Messages, 1)
	}},
	{"waits_while_it_is_paused", func(s *suite) {
		s.dead(s.lease(), 2)
		job := s.startJob(replayJob(2))
		s.setJob(job.ID, outbox.JobPaused)

		equal(s, "done while paused", s.stepJob(job.ID, "one").Done, 0)
		s.setJob(job.ID, outbox.JobRunning)

		equal(s, "done", s.finishJob(job).Done, 2)
	}},
	{"has_one_driver_at_a_time", func(s *suite) {
		s.dead(s.lease(), 3)
		req := replayJob(3)
		req.Rate = 1
		job := s.stepJob(s.startJob(req).ID, "one")

		_, err := s.operator().StepJob(s.Context(), job.ID, "two")
		s.is(err, outbox.ErrLeaseHeld)
		s.Shift(s.T, outbox.JobPatience+time.Second)
		job = s.stepJob(job.ID, "two")

		equal(s, "driver", job.Driver, "two")
		equal(s, "done", job.Done, 1) // the first was not delivered
		_, err = s.operator().StepJob(s.Context(), job.ID, "one")
		s.is(err, outbox.ErrLeaseHeld)
	}},
	{"is_a_permanent_record", func(s *suite) {
		s.dead(s.lease(), 2)
		req := replayJob(2)
		req.Filter.Route, req.Filter.Since = "main", time.Now().Add(-time.Hour).UTC().Truncate(time.Second)
		first := s.runJob(req)
		second := s.startJob(func() outbox.JobRequest { r := replayJob(0); r.Filter.Key = "none"; return r }())

		got, err := s.inspector().Job(s.Context(), first.ID)
		s.ok(err)
		equal(s, "request", got.JobRequest, bulkDefaults(req))
		equal(s, "done", got.Done, 2)
		equal(s, "driver", got.Driver, "one")
		s.that(!got.UpdatedAt.Before(got.CreatedAt) && time.Since(got.CreatedAt).Abs() < time.Hour, "created at %v, updated at %v", got.CreatedAt, got.UpdatedAt)
		jobs, err := s.inspector().Jobs(s.Context(), 10)
		s.ok(err)
		equal(s, "jobs", len(jobs), 2)
		equal(s, "newest job", jobs[0].ID, second.ID)
		_, err = s.inspector().Job(s.Context(), uuid.New())
		s.is(err, outbox.ErrNotFound)
		_, err = s.operator().StepJob(s.Context(), uuid.New(), "one")
		s.is(err, outbox.ErrNotFound)
	}},
	{"is_audited_when_it_starts_and_when_it_ends", func(s *suite) {
		s.dead(s.lease(), 2)
		job := s.runJob(replayJob(2))

		trail := s.trail()

		equal(s, "entries", len(trail), 2)
		equal(s, "first verb", trail[0].Verb, outbox.VerbStartJob)
		equal(s, "last verb", trail[1].Verb, outbox.VerbReplay)
		equal(s, "messages", trail[1].Messages, 2)
		equal(s, "before", trail[1].Before, outbox.StatusDead)
		equal(s, "after", trail[1].After, outbox.StatusPending)
		equal(s, "id", trail[1].EventID, job.ID)
		s.that(trail[1].Filter != "", "the filter is not audited")
	}},
	{"nudges_the_lease", func(s *suite) {
		lease := s.lease()
		s.dead(lease, 1)
		s.runJob(replayJob(1))

		renewed, err := lease.Renew(s.Context(), outbox.Renewal{})
		s.ok(err)

		s.that(renewed.Nudge > lease.Info().Nudge, "nudge is still %d", renewed.Nudge)
	}},
	{"refuses_what_is_too_much_for_it", func(s *suite) {
		for _, change := range []func(*outbox.JobRequest){
			func(r *outbox.JobRequest) { r.Actor = "" },
			func(r *outbox.JobRequest) { r.Reason = " " },
			func(r *outbox.JobRequest) { r.Filter.Status = "" },
			func(r *outbox.JobRequest) { r.Filter.Status = outbox.StatusPublished },
			func(r *outbox.JobRequest) { r.Verb = outbox.VerbPurge },
			func(r *outbox.JobRequest) { r.Cap = outbox.MaxJob + 1 },
		} {
			req := replayJob(0)
			change(&req)
			_, err := s.operator().PreviewJob(s.Context(), req)
			s.is(err, outbox.ErrInvalidConfig)
			_, err = s.operator().StartJob(s.Context(), req)
			s.is(err, outbox.ErrInvalidConfig)
		}
		req := replayJob(0)
		req.Verb = outbox.VerbTrigger
		_, err := s.operator().StartJob(s.Context(), req)
		s.is(err, outbox.ErrNotApplicable)
	}},
}

func replayJob(expect int) outbox.JobRequest {
	return outbox.JobRequest{
		Verb: outbox.VerbReplay, Filter: outbox.Filter{Status: outbox.StatusDead}, Expect: expect, Actor: "ada", Reason: "a test",
	}
}

// bulkDefaults is a request as it is recorded.
func bulkDefaults(req outbox.JobRequest) outbox.JobRequest {
	req.Cap = outbox.MaxJob
	return req
}

// again kills a message of a later generation.
func again(rec *outbox.Record) outbox.Outcome {
	o := died(rec.Sequence, outbox.DeadCrash)
	o.Replays, o.Attempts = rec.Replays, rec.Attempts
	o.Error, o.Route = "elsewhere", "elsewhere"
	return o
}

// dead makes n messages of different keys that died.
func (s *suite) dead(lease outbox.Lease, n int) []int64 {
	s.Helper()
	ids := s.enqueueCount(n)
	s.settleAll(lease, died(0, outbox.DeadAttempts), ids)
	return ids
}

func (s *suite) previewJob(req outbox.JobRequest) outbox.JobPreview {
	s.Helper()
	p, err := s.operator().PreviewJob(s.Context(), req)
	s.ok(err)
	return p
}

func (s *suite) startJob(req outbox.JobRequest) outbox.Job {
	s.Helper()
	job, err := s.operator().StartJob(s.Context(), req)
	s.ok(err)
	equal(s, "state of a new job", job.State, outbox.JobRunning)
	return job
}

func (s *suite) stepJob(id uuid.UUID, driver string) outbox.Job {
	s.Helper()
	job, err := s.operator().StepJob(s.Context(), id, driver)
	s.ok(err)
	return job
}

func (s *suite) setJob(id uuid.UUID, state outbox.JobState) outbox.Job {
	s.Helper()
	job, err := s.operator().SetJob(s.Context(), id, state, "ada", "a test")
	s.ok(err)
	return job
}

// finishJob steps a job to its end.
func (s *suite) finishJob(job outbox.Job) outbox.Job {
	s.Helper()
	for range 10 {
		if job = s.stepJob(job.ID, "one"); job.State == outbox.JobDone {
			return job
		}
	}
	s.Fatalf("the job does not end: %+v", job)
	return job
}

func (s *suite) runJob(req outbox.JobRequest) outbox.Job {
	s.Helper()
	return s.finishJob(s.startJob(req))
}

// replayed is the delivery of a message that was replayed once.
func replayed(seq int64) outbox.Outcome {
	return outbox.Outcome{Sequence: seq, Kind: outbox.Published, Replays: 1, Spent: 1}
}
