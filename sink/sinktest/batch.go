package sinktest

import "context"

var batchClaims = []claim{
	{"has_a_result_for_each_message", func(s *suite) {
		msgs := s.messages(100, distinct)

		for _, err := range s.batch(msgs) {
			s.ok(err)
		}

		s.arrived(msgs...)
	}},
	{"of_one_is_a_batch", func(s *suite) {
		msgs := s.messages(1, distinct)

		s.ok(s.batch(msgs)[0])

		s.arrived(msgs[0])
	}},
	{"of_none_has_no_results", func(s *suite) {
		s.batch(nil)
	}},
	{"that_comes_too_late_fails_whole", func(s *suite) {
		msgs := s.messages(3, distinct)
		s.batch(nil) // or skip
		ctx, cancel := context.WithCancel(s.Context())
		cancel()

		errs := s.batcher().DispatchBatch(ctx, msgs)

		s.that(len(errs) == len(msgs), "%d results for %d messages", len(errs), len(msgs))
		for i, err := range errs {
			s.that(err != nil, "message %d was reported as delivered", i)
		}
		s.absent(msgs...)
	}},
}
