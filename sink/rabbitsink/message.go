package rabbitsink

import (
	"fmt"

	"github.com/rabbitmq/amqp091-go"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/wire"
)

// maxShort is the longest text that a property of AMQP holds.
const maxShort = 255

// A letter is a message on its way.
type letter struct {
	key        string // of the route
	publishing amqp091.Publishing
	confirm    *amqp091.DeferredConfirmation // nil until it is published
	err        *error                        // where its result goes
}

// newLetter turns a message into what AMQP carries. Its errors are permanent.
func newLetter(msg *outbox.DispatchedMessage, result *error) (*letter, error) {
	fields, err := wire.Headers(&msg.Meta)
	if err != nil {
		return nil, err
	}
	p := amqp091.Publishing{
		DeliveryMode: amqp091.Persistent,
		MessageId:    msg.Meta.DedupID(),
		Timestamp:    msg.Meta.CreatedAt, // in seconds; a header has the rest
		AppId:        "outbox",
		Headers:      make(amqp091.Table, len(fields)),
		Body:         msg.Payload,
	}
	if len(msg.Meta.EventType) <= maxShort {
		p.Type = msg.Meta.EventType
	}
	for _, f := range fields {
		switch {
		case f.Name != wire.ContentType:
			p.Headers[f.Name] = f.Value
		case len(f.Value) > maxShort:
			return nil, outbox.Permanent(outbox.ErrInvalidMessage.With("content_type",
				fmt.Sprintf("has %d bytes, AMQP holds %d", len(f.Value), maxShort)))
		default:
			p.ContentType = f.Value
		}
	}
	return &letter{key: msg.Meta.Topic, publishing: p, err: result}, nil
}

// Parse returns the message that a sink published, on the consumer's side. The payload
// is not copied. Headers that are not text, such as the broker's x-death, are left
// out. A delivery that did not come from an outbox is an error.
func Parse(d *amqp091.Delivery) (outbox.DispatchedMessage, error) {
	fields := make([]wire.Header, 0, len(d.Headers)+1)
	if d.ContentType != "" {
		fields = append(fields, wire.Header{Name: wire.ContentType, Value: d.ContentType})
	}
	for name, value := range d.Headers {
		if text, ok := value.(string); ok {
			fields = append(fields, wire.Header{Name: name, Value: text})
		}
	}
	return wire.Parse(fields, d.Body)
}
