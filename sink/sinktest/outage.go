package sinktest

import (
	"sync"

	"github.com/go-outbox/outbox"
)

var outageClaims = []claim{
	{"is_told_from_a_fault_of_the_message", func(s *suite) {
		s.need(s.Break != nil, "Break")
		defer s.Break(s.T)()
		for range 3 {
			s.away(s.within(patience/3, s.message("a")))
		}
	}},
	{"is_told_when_the_connection_was_open", func(s *suite) {
		s.need(s.Break != nil, "Break")
		s.ok(s.dispatch(s.message("a")))
		defer s.Break(s.T)()

		// The first may have been under way when the connection broke: nobody
		// knows what became of it. From then on the sink knows.
		err := s.within(patience/3, s.message("a"))
		s.that(err != nil && !outbox.IsPermanent(err), "got %v", err)
		s.away(s.within(patience/3, s.message("a")))
	}},
	{"fails_every_message_of_a_batch", func(s *suite) {
		s.need(s.Break != nil, "Break")
		s.batch(nil) // or skip
		defer s.Break(s.T)()
		for _, err := range s.batch(s.messages(5, distinct)) {
			s.away(err)
		}
	}},
	{"ends_when_the_destination_is_back", func(s *suite) {
		s.need(s.Break != nil, "Break")
		before, during, after := s.message("a"), s.message("b"), s.message("c")
		s.ok(s.dispatch(before))
		restore := s.Break(s.T)
		err := s.within(patience/3, during)
		s.that(err != nil, "delivered to nobody")
		restore()

		s.recover(during)
		s.recover(after)

		s.arrived(before, during, after)
	}},
	{"in_the_middle_loses_nothing_that_was_reported_as_delivered", func(s *suite) {
		s.need(s.Break != nil, "Break")
		msgs := s.messages(200, distinct)
		half := make(chan struct{})
		var group sync.WaitGroup
		var errs []error
		group.Go(func() {
			errs = make([]error, len(msgs))
			for i := range msgs {
				if i == len(msgs)/2 {
					close(half)
				}
				errs[i] = s.within(patience/3, msgs[i])
			}
		})
		<-half
		restore := s.Break(s.T)
		restore()
		group.Wait()

		delivered := []outbox.DispatchedMessage{s.message("after")}
		s.recover(delivered[0])
		for i, err := range errs {
			if err == nil {
				delivered = append(delivered, msgs[i])
			}
			s.that(!outbox.IsPermanent(err), "the outage killed message %d: %v", i, err)
		}
		s.arrived(delivered...)
	}},
}

// away checks the result of a dispatch while the destination is broken.
func (s *suite) away(err error) {
	s.Helper()
	s.that(err != nil, "delivered to nobody")
	if s.Features.Guesses {
		s.that(!outbox.IsPermanent(err), "an outage killed a message: %v", err)
		return
	}
	s.verdict(err, outbox.VerdictUnavailable)
}
