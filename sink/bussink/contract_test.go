package bussink_test

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/eventbus"
	"github.com/go-outbox/outbox/sink/bussink"
	"github.com/go-outbox/outbox/sink/sinktest"
)

func TestContract(t *testing.T) {
	sinktest.Run(t, func(t *testing.T) sinktest.Harness {
		sub := &subscriber{}
		bus := eventbus.New()
		if _, err := bus.Subscribe(sub.take); err != nil {
			t.Fatal(err)
		}
		sink := bussink.New(bus)
		if err := bussink.RegisterFunc(sink, placed, decodeRaw); err != nil {
			t.Fatal(err)
		}
		return sinktest.Harness{
			Sink:     sink,
			Topic:    placed,
			Received: sub.received,
			Break:    sub.fail,
			Refuse:   func(msg *outbox.DispatchedMessage) { msg.Payload = []byte("undecodable") },
			Features: sinktest.Features{AnyText: true},
		}
	})
}

type rawEvent []byte

func decodeRaw(payload []byte) (*rawEvent, error) {
	if bytes.Equal(payload, []byte("undecodable")) {
		return nil, errors.New("no event")
	}
	e := rawEvent(bytes.Clone(payload))
	return &e, nil
}

// A subscriber keeps what it takes, unless what it needs is down.
type subscriber struct {
	mu     sync.Mutex
	got    []sinktest.Received
	broken bool
}

func (s *subscriber) take(meta *outbox.Meta, e *rawEvent) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		return outbox.Unavailable(errors.New("down"))
	}
	s.got = append(s.got, sinktest.Received{
		Message: outbox.DispatchedMessage{Meta: *meta, Payload: []byte(*e)}, DedupID: meta.DedupID(),
	})
	return nil
}

func (s *subscriber) fail(*testing.T) (restore func()) {
	set := func(broken bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.broken = broken
	}
	set(true)
	return func() { set(false) }
}

func (s *subscriber) received(*testing.T) []sinktest.Received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}
