package storetest

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

// duplicateClaims are about enqueueing an event id that exists already.
var duplicateClaims = []claim{
	{"with_the_same_content_return_the_known_sequence", func(s *suite) {
		msg := message("a")
		msg.EventID = uuid.New()
		id := s.enqueue(msg)[0]

		tx := s.Begin(s.T)
		again, err := tx.Enqueue(s.Context(), msg)
		s.ok(err)
		third, err := tx.Enqueue(s.Context(), msg)
		s.ok(err)
		s.ok(tx.Commit())

		equalAll(s, "sequences", []int64{again, third}, []int64{id, id})
		equal(s, "messages", len(s.list(outbox.Filter{}).Records), 1)
	}},
	{"with_other_content_are_a_conflict_and_leave_the_transaction_usable", func(s *suite) {
		msg := message("a")
		msg.EventID = uuid.New()
		id := s.enqueue(msg)[0]
		tx := s.Begin(s.T)
		for _, change := range []func(*outbox.Message){
			func(m *outbox.Message) { m.Payload = []byte(`{"n":2}`) },
			func(m *outbox.Message) { m.Topic = "shop.order.placed.v2" },
			func(m *outbox.Message) { m.Key = "b" },
			func(m *outbox.Message) { m.TenantID = "other" },
		} {
			other := msg
			change(&other)
			_, err := tx.Enqueue(s.Context(), other)
			s.is(err, outbox.ErrEventIDConflict)
			_, err = tx.EnqueueMany(s.Context(), []outbox.Message{other})
			s.is(err, outbox.ErrEventIDConflict)
		}
		b, err := tx.Enqueue(s.Context(), message("b"))
		s.ok(err)
		s.ok(tx.Commit())

		equalAll(s, "messages", sequences(s.list(outbox.Filter{OldestFirst: true}).Records), []int64{id, b})
		s.payload(s.row(id), string(msg.Payload))
	}},
	{"are_recognised_among_many_and_in_the_table", func(s *suite) {
		known, twin := message("a"), message("b")
		known.EventID, twin.EventID = uuid.New(), uuid.New()
		id := s.enqueue(known)[0]
		tx := s.Begin(s.T)

		ids, err := tx.EnqueueMany(s.Context(), []outbox.Message{twin, known, twin, message("c")})
		s.ok(err)
		s.ok(tx.Commit())

		equal(s, "sequences", len(ids), 4)
		equal(s, "known", ids[1], id)
		equal(s, "twin", ids[2], ids[0])
		equalAll(s, "messages", sequences(s.list(outbox.Filter{OldestFirst: true}).Records), sorted([]int64{id, ids[0], ids[3]}))
	}},
	{"with_two_contents_among_many_are_refused", func(s *suite) {
		a := message("a")
		a.EventID = uuid.New()
		b := a
		b.Payload = []byte(`{"n":2}`)
		tx := s.Begin(s.T)

		_, err := tx.EnqueueMany(s.Context(), []outbox.Message{a, b})
		s.is(err, outbox.ErrEventIDConflict)
		s.ok(tx.Rollback())

		equal(s, "messages", len(s.list(outbox.Filter{}).Records), 0)
	}},
	{"of_a_published_event_do_not_send_it_again", func(s *suite) {
		msg := message("a")
		msg.EventID = uuid.New()
		lease := s.lease()
		id := s.enqueue(msg)[0]
		s.publish(lease, id)

		again := s.enqueue(msg)[0]

		equal(s, "sequence", again, id)
		equal(s, "unpublished", len(s.fresh(lease)), 0)
	}},
	{"of_an_event_that_was_rolled_back_are_new", func(s *suite) {
		msg := message("a")
		msg.EventID = uuid.New()
		tx := s.Begin(s.T)
		_, err := tx.Enqueue(s.Context(), msg)
		s.ok(err)
		s.ok(tx.Rollback())

		id := s.enqueue(msg)[0]

		equalAll(s, "messages", sequences(s.list(outbox.Filter{}).Records), []int64{id})
	}},
	{"at_the_same_time_are_written_once", func(s *suite) {
		msg := message("a")
		msg.EventID = uuid.New()
		ids := make([]int64, 8)
		var wg sync.WaitGroup
		for i := range ids {
			wg.Go(func() {
				tx := s.Begin(s.T)
				var err error
				if ids[i], err = tx.Enqueue(s.Context(), msg); err != nil {
					s.Errorf("enqueue: %v", err)
					_ = tx.Rollback() // the error above is the finding
				} else if err := tx.Commit(); err != nil {
					s.Errorf("commit: %v", err)
				}
			})
		}
		wg.Wait()

		for _, id := range ids {
			equal(s, "sequence", id, ids[0])
		}
		equal(s, "messages", len(s.list(outbox.Filter{}).Records), 1)
	}},
	{"wait_for_the_transaction_that_has_the_event", func(s *suite) {
		s.need(s.Features.LateCommit, "LateCommit")
		msg := message("a")
		msg.EventID = uuid.New()
		first := s.Begin(s.T)
		lost, err := first.Enqueue(s.Context(), msg)
		s.ok(err)

		ctx, cancel := context.WithTimeout(s.Context(), 100*time.Millisecond)
		defer cancel()
		early, err := s.Autocommit(ctx, msg)
		s.that(err != nil, "got sequence %d of a message that is not committed", early)
		s.ok(first.Rollback())
		id, err := s.Autocommit(s.Context(), msg)
		s.ok(err)

		s.that(id != lost, "the sequence %d of a message that was rolled back was returned", lost)
		equalAll(s, "messages", sequences(s.list(outbox.Filter{}).Records), []int64{id})
	}},
}
