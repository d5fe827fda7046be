package sinktest

import (
	"fmt"
	"slices"

	"github.com/go-outbox/outbox"
)

var orderClaims = []claim{
	{"is_kept_within_a_key", func(s *suite) {
		const keys = 4 // one for each goroutine, as the relay has one message of a key in flight
		msgs := s.messages(100, func(i int) string { return fmt.Sprintf("key-%d", i%keys) })

		for _, err := range s.dispatchAll(msgs, keys) {
			s.ok(err)
		}

		s.ordered(msgs)
	}},
	{"is_kept_from_batch_to_batch", func(s *suite) {
		var all []outbox.DispatchedMessage
		for range 10 {
			msgs := s.messages(10, distinct)
			for _, err := range s.batch(msgs) {
				s.ok(err)
			}
			all = append(all, msgs...)
		}

		s.ordered(all)
	}},
}

// ordered checks that the first arrivals of each key are in the order of msgs.
func (s *suite) ordered(msgs []outbox.DispatchedMessage) {
	s.Helper()
	want, got := map[string][]int64{}, map[string][]int64{}
	for _, m := range msgs {
		want[m.Meta.Key] = append(want[m.Meta.Key], m.Meta.Sequence)
	}
	for _, r := range s.Received(s.T) {
		m := &r.Message.Meta
		if !slices.Contains(got[m.Key], m.Sequence) {
			got[m.Key] = append(got[m.Key], m.Sequence)
		}
	}
	for key := range want {
		s.that(slices.Equal(got[key], want[key]), "key %s arrived as %v, want %v", key, got[key], want[key])
	}
}
