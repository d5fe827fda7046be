package natssink_test

import (
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/go-outbox/outbox/sink/natssink"
)

// A consumer does its work and remembers the event id in one transaction, and
// acknowledges after its commit.
func ExampleParse() {
	work := func(native jetstream.Msg) {
		msg, err := natssink.Parse(native)
		if err != nil {
			_ = native.Term() // not from an outbox: it will not become so
			return
		}
		fmt.Println(msg.Meta.Topic, msg.Meta.EventID, string(msg.Payload))
		_ = native.Ack()
	}

	work(arrived{}) // what consumer.Consume(work) does with every message
	// Output: shop.order.placed.v1 0193a4f2-7c1b-7e5a-9d3e-2f6b8c4a1d07 {"order":7}
}

// arrived stands in for a message that a stream has delivered.
type arrived struct{ jetstream.Msg }

func (arrived) Headers() nats.Header {
	return nats.Header{
		"Nats-Msg-Id":     {"0193a4f2-7c1b-7e5a-9d3e-2f6b8c4a1d07"},
		"outbox-event-id": {"0193a4f2-7c1b-7e5a-9d3e-2f6b8c4a1d07"},
		"outbox-topic":    {"shop.order.placed.v1"},
	}
}
func (arrived) Data() []byte { return []byte(`{"order":7}`) }
func (arrived) Ack() error   { return nil }
