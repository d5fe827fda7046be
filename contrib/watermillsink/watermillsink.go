// Package watermillsink delivers messages through a Watermill publisher, and so to any
// broker that Watermill has one for. It is a module of its own: who does not use
// Watermill does not download it.
//
// A message counts as delivered when Publish has returned nil. What that is worth is the
// publisher's affair: several return before their broker has acknowledged anything
// unless they are told otherwise, so look for its option to wait for acknowledgements.
// The message's UUID is the deduplication id, the payload arrives byte for byte, and the
// metadata is what all sinks of the outbox send; [Parse] reads it back.
//
// Publish takes no context. A deadline ends a dispatch only where the publisher looks at
// the message's context; one that hangs holds up its lane of the relay. Every error is a
// retry that costs an attempt: mark those of your publisher that mean something else with
// outbox.Classifier. Where the outbox has a sink for the broker, prefer that one.
package watermillsink

import (
	"bytes"
	"context"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/wire"
)

var _ outbox.Dispatcher = (*Sink)(nil)

// A Sink dispatches to one publisher. It is as safe for concurrent use as the publisher
// is, which Watermill demands of them all.
type Sink struct{ publisher message.Publisher }

// New makes a sink. The publisher stays the caller's, to close after the relay has ended.
func New(publisher message.Publisher) *Sink { return &Sink{publisher} }

// Dispatch publishes one message to the Watermill topic that is its topic.
func (s *Sink) Dispatch(ctx context.Context, msg outbox.DispatchedMessage) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	headers, err := wire.Headers(&msg.Meta)
	if err != nil {
		return err
	}
	// Publishers may keep a message, and the payload is the relay's.
	m := message.NewMessage(msg.Meta.DedupID(), bytes.Clone(msg.Payload))
	for _, h := range headers {
		m.Metadata.Set(h.Name, h.Value)
	}
	m.SetContext(ctx)
	if err := s.publisher.Publish(msg.Meta.Topic, m); err != nil {
		return fmt.Errorf("watermill: %w", err)
	}
	return nil
}

// Parse returns the message that a sink published, in a Watermill handler. The payload is
// not copied. A message that did not come from an outbox is an error.
func Parse(m *message.Message) (outbox.DispatchedMessage, error) {
	headers := make([]wire.Header, 0, len(m.Metadata))
	for name, value := range m.Metadata {
		headers = append(headers, wire.Header{Name: name, Value: value})
	}
	return wire.Parse(headers, []byte(m.Payload))
}
