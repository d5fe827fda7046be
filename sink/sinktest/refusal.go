package sinktest

import (
	"fmt"
	"strings"

	"github.com/go-outbox/outbox"
)

var refusalClaims = []claim{
	{"of_the_destination_is_permanent", func(s *suite) {
		s.need(s.Refuse != nil, "Refuse")
		msg := s.message("a")
		s.Refuse(&msg)

		s.verdict(s.dispatch(msg), outbox.VerdictPermanent)

		s.absent(msg)
	}},
	{"of_one_message_does_not_fail_its_neighbours", func(s *suite) {
		s.need(s.Refuse != nil, "Refuse")
		msgs := s.messages(20, distinct)
		for i := range msgs {
			if i%5 == 2 {
				s.Refuse(&msgs[i])
			}
		}

		var good []outbox.DispatchedMessage
		for i, err := range s.batch(msgs) {
			if i%5 == 2 {
				s.verdict(err, outbox.VerdictPermanent)
				continue
			}
			s.ok(err)
			good = append(good, msgs[i])
		}
		s.arrived(good...)
	}},
	{"leaves_the_sink_usable", func(s *suite) {
		s.need(s.Refuse != nil, "Refuse")
		bad, good := s.message("a"), s.message("a")
		s.Refuse(&bad)
		s.verdict(s.dispatch(bad), outbox.VerdictPermanent)

		s.ok(s.dispatch(good))

		s.arrived(good)
	}},
	{"meets_hostile_topics_before_the_socket", func(s *suite) {
		var msgs []outbox.DispatchedMessage
		for _, topic := range []string{"", "a\r\nPUB x", "a\nb", "a b", "a\x00b", "a\x1bb", "é", strings.Repeat("t", 70_000)} {
			msg := s.message("a")
			msg.Meta.Topic = topic
			msgs = append(msgs, msg)
		}
		s.hostile(msgs)
	}},
	{"meets_hostile_headers_before_the_socket", func(s *suite) {
		var msgs []outbox.DispatchedMessage
		for name, value := range map[string]string{
			"x-split": "a\r\nx-injected: 1", "x-line": "a\nb", "x-nul": "a\x00b", "x-esc": "a\x1b[2J",
			"x-bad\r\nname": "a", "x bad": "a", "": "a", "x:bad": "a",
			"outbox-event-id": "forged", "webhook-signature": "forged", "content-length": "0", "host": "evil.example",
			"transfer-encoding": "chunked", "authorization": "forged", "cookie": "forged",
		} {
			msg := s.message("a")
			msg.Meta.Headers = map[string]string{name: value}
			msgs = append(msgs, msg)
		}
		s.hostile(msgs)
	}},
}

// hostile dispatches messages that no Enqueue would have let through: somebody else
// wrote the rows. They must not arrive, or do no harm where nothing can be harmed.
func (s *suite) hostile(msgs []outbox.DispatchedMessage) {
	s.Helper()
	var arrived []outbox.DispatchedMessage
	for _, msg := range msgs {
		err := s.dispatch(msg)
		if err == nil {
			arrived = append(arrived, msg)
		}
		s.that(s.Features.AnyText || outbox.IsPermanent(err), "topic %.40q, headers %.80q: got %v, want a permanent error",
			msg.Meta.Topic, fmt.Sprint(msg.Meta.Headers), err)
	}
	if !s.Features.AnyText {
		s.absent(msgs...)
	}

	next := s.message("a")
	s.ok(s.dispatch(next))
	s.arrived(append(arrived, next)...)
}
