package sinktest

import (
	"context"
	"time"

	"github.com/go-outbox/outbox"
)

var deadlineClaims = []claim{
	{"that_has_passed_sends_nothing", func(s *suite) {
		msg := s.message("a")
		ctx, cancel := context.WithCancel(s.Context())
		cancel()

		err := s.Sink.Dispatch(ctx, msg)

		s.that(err != nil && !outbox.IsPermanent(err), "got %v", err)
		s.absent(msg)
	}},
	{"is_kept_when_the_destination_does_not_answer", func(s *suite) {
		s.need(s.Stall != nil, "Stall")
		s.ok(s.dispatch(s.message("a"))) // a connection that works
		release := s.Stall(s.T)
		defer release()
		msg := s.message("a")
		start := time.Now()

		err := s.within(300*time.Millisecond, msg)

		s.that(err != nil, "it was reported as delivered, and nobody answered")
		s.that(!outbox.IsPermanent(err), "a late answer killed the message: %v", err)
		s.that(time.Since(start) < patience/3, "it took %s", time.Since(start))
	}},
	{"that_was_missed_leaves_the_sink_usable", func(s *suite) {
		s.need(s.Stall != nil, "Stall")
		release := s.Stall(s.T)
		msg := s.message("a")
		err := s.within(300*time.Millisecond, msg)
		release()
		s.that(err != nil, "it was reported as delivered, and nobody answered")

		s.recover(msg)

		s.arrived(msg)
	}},
}

func (s *suite) batcher() outbox.BatchDispatcher { return s.Sink.(outbox.BatchDispatcher) }
