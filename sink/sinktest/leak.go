package sinktest

import (
	"runtime"
	"time"
)

var closeClaims = []claim{
	{"leaves_no_goroutine_behind", func(s *suite) {
		before := runtime.NumGoroutine()
		msgs := s.messages(20, distinct)
		for _, err := range s.dispatchAll(msgs, 5) {
			s.ok(err)
		}
		if s.Stall != nil {
			release := s.Stall(s.T)
			_ = s.within(100*time.Millisecond, s.message("a")) // its outcome is another claim's
			release()
		}

		s.close()

		deadline := time.Now().Add(patience / 6)
		for runtime.NumGoroutine() > before {
			if time.Now().After(deadline) {
				stacks := make([]byte, 1<<20)
				s.Fatalf("%d goroutines more than before:\n%s", runtime.NumGoroutine()-before, stacks[:runtime.Stack(stacks, true)])
			}
			wait(10 * time.Millisecond)
		}
	}},
}
