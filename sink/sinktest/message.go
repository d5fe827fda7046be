package sinktest

import (
	"bytes"
	"strings"
	"sync"

	"github.com/go-outbox/outbox"
)

var messageClaims = []claim{
	{"is_there_when_it_is_reported_as_delivered", func(s *suite) {
		msg := s.message("a")

		s.ok(s.dispatch(msg))

		s.arrived(msg)
	}},
	{"arrives_with_its_identity", func(s *suite) {
		msg := s.message("a")
		msg.Meta.Attempts = 3
		s.ok(s.dispatch(msg))

		got, want := s.arrived(msg).Message.Meta, msg.Meta

		s.that(got.Topic == want.Topic, "topic %q, want %q", got.Topic, want.Topic)
		s.that(got.Key == want.Key, "key %q, want %q", got.Key, want.Key)
		s.that(got.TenantID == want.TenantID, "tenant %q, want %q", got.TenantID, want.TenantID)
		s.that(got.Sequence == want.Sequence, "sequence %d, want %d", got.Sequence, want.Sequence)
		s.that(got.Attempts == want.Attempts, "attempts %d, want %d", got.Attempts, want.Attempts)
	}},
	{"arrives_with_its_type_and_trace", func(s *suite) {
		msg := s.message("a")
		s.ok(s.dispatch(msg))

		got, want := s.arrived(msg).Message.Meta, msg.Meta

		s.that(got.EventType == want.EventType, "type %q, want %q", got.EventType, want.EventType)
		s.that(got.EventVersion == want.EventVersion, "version %d, want %d", got.EventVersion, want.EventVersion)
		s.that(got.TraceParent == want.TraceParent, "traceparent %q, want %q", got.TraceParent, want.TraceParent)
		s.that(got.TraceState == want.TraceState, "tracestate %q, want %q", got.TraceState, want.TraceState)
	}},
	{"arrives_with_its_headers", func(s *suite) {
		msg := s.message("a")
		msg.Meta.Headers = map[string]string{"x-source": "a b, c=d; \"e\"", "x_1.2": "100%"}
		s.ok(s.dispatch(msg))

		got := s.arrived(msg).Message.Meta.Headers

		for name, want := range msg.Meta.Headers {
			s.that(got[name] == want, "header %s is %q, want %q", name, got[name], want)
		}
	}},
	{"arrives_with_any_text_as_its_key", func(s *suite) {
		for _, key := range []string{"", "ключ/キー", "a key", " padded ", "100%", "%41", `"quoted"`, strings.Repeat("k", 1024)} {
			msg := s.message(key)
			s.ok(s.dispatch(msg))

			got := s.arrived(msg).Message.Meta.Key

			if key == "" && got == msg.Meta.OrderingKey() {
				continue // what brokers get as the key of a message without one
			}
			s.that(got == key, "key %q, want %q", got, key)
		}
	}},
	{"arrives_byte_for_byte", func(s *suite) {
		for _, payload := range []string{
			`{"b":1,"a":"<&>","b":1.0e+2,"u":"\u00e9é"}`,
			`"text"`, `0`, `null`,
			`{"large":"` + strings.Repeat("x", 200_000) + `"}`,
		} {
			msg := s.message("a")
			msg.Payload = []byte(payload)
			s.ok(s.dispatch(msg))

			got := s.arrived(msg).Message.Payload

			s.that(string(got) == payload, "payload of %d bytes arrived as %d others", len(payload), len(got))
		}
	}},
	{"may_be_binary", func(s *suite) {
		msg := s.message("a")
		msg.Meta.ContentType = "application/octet-stream"
		msg.Payload = []byte("\x00\x01\r\n\r\n\xff\xfe")
		s.ok(s.dispatch(msg))

		got := s.arrived(msg).Message.Payload

		s.that(bytes.Equal(got, msg.Payload), "payload %q, want %q", got, msg.Payload)
	}},
	{"belongs_to_the_caller_again_after_the_dispatch", func(s *suite) {
		msg := s.message("a")
		want := string(msg.Payload)
		s.ok(s.dispatch(msg))

		for i := range msg.Payload {
			msg.Payload[i] = '!'
		}
		msg.Meta.Headers["x-source"] = "overwritten"

		got := s.arrived(msg).Message
		s.that(string(got.Payload) == want && got.Meta.Headers["x-source"] == "checkout",
			"it changed after the dispatch: %q, %v", got.Payload, got.Meta.Headers)
	}},
	{"is_delivered_again_under_the_same_ids", func(s *suite) {
		msg := s.message("a")
		s.ok(s.dispatch(msg))
		msg.Meta.Attempts = 2

		s.ok(s.dispatch(msg))

		for _, r := range s.arrivals(msg) {
			s.that(r.DedupID == "" || r.DedupID == msg.Meta.DedupID(), "deduplication id %q, want %q", r.DedupID, msg.Meta.DedupID())
		}
	}},
	{"that_is_replayed_is_not_taken_for_a_duplicate", func(s *suite) {
		msg := s.message("a")
		s.ok(s.dispatch(msg))
		msg.Meta.Replays = 1

		s.ok(s.dispatch(msg))

		found := s.arrivals(msg)
		s.that(len(found) == 2, "it arrived %d times, want 2", len(found))
		s.that(found[1].DedupID == "" || found[1].DedupID == msg.Meta.DedupID(), "deduplication id %q, want %q", found[1].DedupID, msg.Meta.DedupID())
	}},
	{"arrives_from_many_dispatches_at_once", func(s *suite) {
		msgs := s.messages(200, distinct)

		errs := s.dispatchAll(msgs, 16)

		for _, err := range errs {
			s.ok(err)
		}
		s.arrived(msgs...)
	}},
}

// dispatchAll dispatches messages from several goroutines, those of one goroutine in
// order.
func (s *suite) dispatchAll(msgs []outbox.DispatchedMessage, workers int) []error {
	errs := make([]error, len(msgs))
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for i := w; i < len(msgs); i += workers {
				errs[i] = s.dispatch(msgs[i])
			}
		})
	}
	group.Wait()
	return errs
}
