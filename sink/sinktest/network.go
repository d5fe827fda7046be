package sinktest

import (
	"context"
	"sync"
	"time"

	"github.com/go-outbox/outbox"
)

// A Fault is a way in which the network between a sink and its destination fails,
// while both are well.
type Fault string

const (
	// Reset ends connections, old and new ones, with a TCP reset as soon as
	// something is sent on them in either direction.
	Reset Fault = "reset"
	// Blackhole lets nothing pass and closes nothing.
	Blackhole Fault = "blackhole"
	// Slow lets everything pass a fraction of a second late.
	Slow Fault = "slow"
)

// grace is how long after its deadline a dispatch may return.
const grace = patience / 6

var networkClaims = []claim{
	{"that_resets_costs_no_message", func(s *suite) {
		before, during := s.message("a"), s.message("b")
		s.needFault()
		s.ok(s.dispatch(before))
		heal := s.Fault(s.T, Reset)
		for range 3 {
			s.lost(s.within(time.Second, during))
		}
		heal()

		s.recover(during)

		s.arrived(before, during)
	}},
	{"that_resets_in_the_middle_loses_nothing_that_was_reported_as_delivered", func(s *suite) {
		s.needFault()
		sent := s.sendThrough(Reset)

		delivered := []outbox.DispatchedMessage{s.message("after")}
		s.recover(delivered[0])
		for _, r := range sent {
			if r.err == nil {
				delivered = append(delivered, r.msg)
				continue
			}
			s.lost(r.err)
		}
		s.arrived(delivered...)
	}},
	{"that_swallows_everything_does_not_outlast_the_deadline", func(s *suite) {
		s.needFault()
		s.ok(s.dispatch(s.message("a"))) // a connection that works
		defer s.Fault(s.T, Blackhole)()
		for range 2 {
			start := time.Now()

			s.lost(s.within(300*time.Millisecond, s.message("a")))

			s.that(time.Since(start) < grace, "it took %s", time.Since(start))
		}
	}},
	{"that_swallows_everything_fails_every_message_of_a_batch_in_time", func(s *suite) {
		s.needFault()
		for _, err := range s.batch(s.messages(1, distinct)) {
			s.ok(err)
		}
		defer s.Fault(s.T, Blackhole)()
		msgs := s.messages(20, distinct)
		ctx, cancel := context.WithTimeout(s.Context(), 300*time.Millisecond)
		defer cancel()
		start := time.Now()

		errs := s.batcher().DispatchBatch(ctx, msgs)

		s.that(time.Since(start) < grace, "it took %s", time.Since(start))
		s.that(len(errs) == len(msgs), "%d results for %d messages", len(errs), len(msgs))
		for _, err := range errs {
			s.lost(err)
		}
	}},
	{"that_swallowed_everything_is_forgotten_when_it_is_well_again", func(s *suite) {
		s.needFault()
		before, during, after := s.message("a"), s.message("b"), s.message("c")
		s.ok(s.dispatch(before))
		heal := s.Fault(s.T, Blackhole)
		s.lost(s.within(300*time.Millisecond, during))
		heal()

		s.recover(during)
		s.recover(after)

		s.arrived(before, during, after)
	}},
	{"that_is_slow_delivers", func(s *suite) {
		s.needFault()
		defer s.Fault(s.T, Slow)()
		one, many := s.message("a"), s.messages(20, distinct)

		s.ok(s.dispatch(one))
		for _, r := range s.send(many) {
			s.ok(r.err)
		}

		s.arrived(append(many, one)...)
	}},
}

func (s *suite) needFault() {
	s.Helper()
	s.need(s.Fault != nil, "Fault")
}

// lost checks the result of a dispatch over a network that failed: the message may be
// there or not, and it lives.
func (s *suite) lost(err error) {
	s.Helper()
	verdict, _ := outbox.Classify(err)
	s.that(verdict != outbox.VerdictDelivered, "it was reported as delivered, and nobody answered")
	s.that(verdict != outbox.VerdictPermanent, "the network killed a message: %v", err)
}

// A result is a message that was dispatched.
type result struct {
	msg outbox.DispatchedMessage
	err error
}

// send dispatches messages as a relay would: as a batch if the sink takes batches, or
// side by side.
func (s *suite) send(msgs []outbox.DispatchedMessage) []result {
	var errs []error
	if d, ok := s.Sink.(outbox.BatchDispatcher); ok {
		ctx, cancel := context.WithTimeout(s.Context(), patience/3)
		defer cancel()
		errs = d.DispatchBatch(ctx, msgs)
		if len(errs) != len(msgs) {
			s.Errorf("%d results for %d messages", len(errs), len(msgs))
			return nil
		}
	} else {
		errs = s.dispatchAll(msgs, 8)
	}
	results := make([]result, len(msgs))
	for i := range msgs {
		results[i] = result{msgs[i], errs[i]}
	}
	return results
}

// sendThrough sends messages without a pause while the network fails, heals, fails
// again and heals.
func (s *suite) sendThrough(fault Fault) []result {
	s.Helper()
	var all []result
	delivered, stop := make(chan struct{}), make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for {
			sent := s.send(s.messages(50, distinct))
			all = append(all, sent...)
			var news chan<- struct{} // nil while there are none
			if len(sent) > 0 && sent[0].err == nil {
				news = delivered
			}
			select {
			case <-stop:
				return
			case news <- struct{}{}:
			case <-time.After(10 * time.Millisecond): // a relay would wait longer
			}
		}
	})
	end := sync.OnceFunc(func() { close(stop); group.Wait() })
	defer end()
	for range 4 {
		select {
		case <-delivered:
		case <-time.After(patience):
			s.Fatal("nothing is delivered any more")
		}
		heal := s.Fault(s.T, fault)
		wait(20 * time.Millisecond)
		heal()
	}
	end()
	return all
}
