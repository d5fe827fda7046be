// Package bussink delivers messages to functions in the same process, through an
// eventbus.
//
// Each topic is registered with a Go type; its payloads are decoded into that type
// and published with their metadata, for handlers of the form
//
//	func(meta *outbox.Meta, e *OrderPlaced) error
//
// A message counts as delivered only when at least one handler took it and every
// one that did succeeded. It is dead at once when no retry can help: its topic has
// no type, its payload does not decode, or every handler that failed marked its
// error with outbox.Permanent. That nobody has subscribed is an ordinary failure,
// because a subscription may come later.
//
// A retry runs all handlers again, also those that succeeded: handlers must
// deduplicate on meta.EventID. Handlers run one after another on the relay's
// goroutine and are given no context, so the dispatch timeout cannot interrupt one.
package bussink

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/eventbus"
)

var _ outbox.Dispatcher = (*Sink)(nil)

// A Sink publishes messages on a bus. Create it with New; the zero value is not
// usable. It is safe for concurrent use.
type Sink struct {
	bus eventbus.EventBusWithError

	mu     sync.RWMutex
	topics map[string]decoder
}

// A decoder makes the value that handlers take of a payload.
type decoder func(payload []byte) (any, error)

// New returns a sink that publishes on bus and knows no topics yet.
func New(bus eventbus.EventBusWithError) *Sink {
	return &Sink{bus: bus, topics: make(map[string]decoder)}
}

// Register makes the sink decode the JSON payloads of topic into a new T, whose
// pointer it publishes. Unknown fields are ignored, so that producers may add some.
// It is an error to register a topic twice.
func Register[T any](s *Sink, topic string) error {
	return RegisterFunc(s, topic, func(payload []byte) (*T, error) {
		e := new(T)
		return e, json.Unmarshal(payload, e)
	})
}

// RegisterFunc is Register for payloads that decode knows how to read. The payload
// is valid only during the call.
func RegisterFunc[T any](s *Sink, topic string, decode func(payload []byte) (*T, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.topics[topic]; taken {
		return outbox.ErrInvalidConfig.With("topic", fmt.Sprintf("%q is registered already", topic))
	}
	s.topics[topic] = func(payload []byte) (any, error) { return decode(payload) }
	return nil
}

// Dispatch decodes msg and publishes it.
func (s *Sink) Dispatch(ctx context.Context, msg outbox.DispatchedMessage) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	meta := msg.Meta
	if meta.EventID == [16]byte{} {
		return outbox.Permanent(ErrNoEventID)
	}
	decode, ok := s.decoder(meta.Topic)
	if !ok {
		return outbox.ErrNoRoute.With("topic", fmt.Sprintf("no type is registered for %q", meta.Topic))
	}
	event, err := decode(msg.Payload)
	if err != nil {
		return outbox.Permanent(fmt.Errorf("decode %s: %w", meta.Topic, err))
	}
	meta.Headers = maps.Clone(meta.Headers) // the relay's, and handlers may keep theirs
	return weigh(s.bus.PublishE(&meta, event))
}

func (s *Sink) decoder(topic string) (decoder, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	d, ok := s.topics[topic]
	return d, ok
}

// weigh keeps one handler's verdict from deciding for the others: a message is dead
// or waits for an outage only if all that failed say so. Otherwise one handler's
// Permanent would take the retry from another that merely timed out.
func weigh(err error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return err
	}
	errs := joined.Unwrap()
	first, _ := outbox.Classify(errs[0])
	for _, e := range errs[1:] {
		if v, _ := outbox.Classify(e); v != first {
			return outbox.RetryAfter(err, 0)
		}
	}
	return err
}

// ErrNoEventID says that a message cannot be deduplicated. Its code is
// OUTBOX_NO_EVENT_ID.
var ErrNoEventID error = &codedError{"OUTBOX_NO_EVENT_ID", "message has no event id"}

type codedError struct{ code, text string }

func (e *codedError) Error() string { return e.text }
func (e *codedError) Code() string  { return e.code }
