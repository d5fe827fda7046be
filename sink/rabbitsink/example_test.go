package rabbitsink_test

import (
	"context"
	"fmt"

	"github.com/rabbitmq/amqp091-go"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/sink/rabbitsink"
)

// A relay takes the sink as its dispatcher.
func ExampleOpen() {
	sink, err := rabbitsink.Open("amqp://shop:secret@rabbit.internal:5672/shop?exchange=events&timeout=10s")
	if err != nil {
		panic(err)
	}
	defer sink.Close()

	var _ outbox.BatchDispatcher = sink
}

// The consumer's side: deduplicate on the event id, in the transaction that does the
// work, and acknowledge after its commit.
func ExampleParse() {
	consume := func(ctx context.Context, deliveries <-chan amqp091.Delivery, handle func(context.Context, outbox.DispatchedMessage) error) error {
		for d := range deliveries {
			msg, err := rabbitsink.Parse(&d)
			if err != nil {
				_ = d.Nack(false, false) // not ours: to the dead letters
				continue
			}
			if err := handle(ctx, msg); err != nil {
				_ = d.Nack(false, true)
				return err
			}
			if err := d.Ack(false); err != nil {
				return err
			}
		}
		return nil
	}
	fmt.Println(consume != nil)
	// Output: true
}
