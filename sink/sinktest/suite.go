package sinktest

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/go-outbox/outbox"
)

const (
	// patience is for what should take no time at all, on a busy machine.
	patience = 30 * time.Second
	// traceparent is W3C's own example.
	traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
)

// A suite is one subtest at work.
type suite struct {
	Harness
	*testing.T

	sequence int64
	closed   bool
}

func (s *suite) close() {
	if s.closed || s.Close == nil {
		return
	}
	s.closed = true
	if err := s.Close(); err != nil {
		s.Errorf("close: %v", err)
	}
}

func (s *suite) need(have bool, what string) {
	s.Helper()
	if !have {
		s.Skipf("the harness does not have %s", what)
	}
}

func (s *suite) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("unexpected error: %v", err)
	}
}

func (s *suite) that(holds bool, format string, args ...any) {
	s.Helper()
	if !holds {
		s.Fatalf(format, args...)
	}
}

// verdict checks what an error means for its message.
func (s *suite) verdict(err error, want outbox.Verdict) {
	s.Helper()
	if got, _ := outbox.Classify(err); got != want {
		s.Fatalf("verdict of %v is %s, want %s", err, got, want)
	}
}

// message makes a new message of a key.
func (s *suite) message(key string) outbox.DispatchedMessage {
	s.sequence++
	var id [16]byte
	binary.BigEndian.PutUint64(id[:], rand.Uint64())
	binary.BigEndian.PutUint64(id[8:], rand.Uint64())
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // a random UUID
	return outbox.DispatchedMessage{
		Meta: outbox.Meta{
			Table: "shop_outbox", TenantID: "tenant-1", Topic: s.Topic, Key: key, EventID: id,
			Sequence: s.sequence, Attempts: 1,
			AggregateType: "order", AggregateID: "7", EventType: "order.placed", EventVersion: 3,
			Headers:     map[string]string{"x-source": "checkout"},
			TraceParent: traceparent, TraceState: "vendor=1",
			CreatedAt: time.Now(),
		},
		Payload: fmt.Appendf(nil, `{"n":%d}`, s.sequence),
	}
}

func (s *suite) messages(n int, key func(i int) string) []outbox.DispatchedMessage {
	msgs := make([]outbox.DispatchedMessage, n)
	for i := range msgs {
		msgs[i] = s.message(key(i))
	}
	return msgs
}

func distinct(i int) string { return fmt.Sprintf("key-%d", i) }

// dispatch hands over one message with a generous deadline.
func (s *suite) dispatch(msg outbox.DispatchedMessage) error {
	return s.within(patience, msg)
}

func (s *suite) within(d time.Duration, msg outbox.DispatchedMessage) error {
	ctx, cancel := context.WithTimeout(s.Context(), d)
	defer cancel()
	return s.Sink.Dispatch(ctx, msg)
}

// batch hands over a batch, and checks that there is a result for each message.
func (s *suite) batch(msgs []outbox.DispatchedMessage) []error {
	s.Helper()
	d, ok := s.Sink.(outbox.BatchDispatcher)
	if !ok {
		s.Skip("the sink takes no batches")
	}
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	errs := d.DispatchBatch(ctx, msgs)
	s.that(len(errs) == len(msgs), "%d results for %d messages", len(errs), len(msgs))
	return errs
}

// arrivals returns what arrived of one event.
func (s *suite) arrivals(msg outbox.DispatchedMessage) []Received {
	s.Helper()
	return s.all()[msg.Meta.EventID]
}

// all returns what arrived, by event.
func (s *suite) all() map[[16]byte][]Received {
	s.Helper()
	found := map[[16]byte][]Received{}
	for _, r := range s.Received(s.T) {
		found[r.Message.Meta.EventID] = append(found[r.Message.Meta.EventID], r)
	}
	return found
}

// arrived checks that events are there, and returns the first of them.
func (s *suite) arrived(msgs ...outbox.DispatchedMessage) Received {
	s.Helper()
	found := s.all()
	for _, m := range msgs {
		s.that(len(found[m.Meta.EventID]) > 0, "message %d was reported as delivered and is not there", m.Meta.Sequence)
	}
	return found[msgs[0].Meta.EventID][0]
}

func (s *suite) absent(msgs ...outbox.DispatchedMessage) {
	s.Helper()
	found := s.all()
	for _, m := range msgs {
		s.that(len(found[m.Meta.EventID]) == 0, "message %d arrived", m.Meta.Sequence)
	}
}

// recover dispatches a message until it is delivered, as a relay would.
func (s *suite) recover(msg outbox.DispatchedMessage) {
	s.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := s.within(5*time.Second, msg)
		if err == nil {
			return
		}
		s.that(time.Now().Before(deadline), "still not delivered: %v", err)
		s.that(!outbox.IsPermanent(err), "an outage killed a message: %v", err)
		wait(50 * time.Millisecond)
	}
}

// wait is the pause between two looks at something that nobody announces.
func wait(d time.Duration) { <-time.After(d) }
