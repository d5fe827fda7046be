package redissink_test

import (
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/go-outbox/outbox/sink/redissink"
)

// A consumer reads with XREADGROUP, does its work and remembers the event id in one
// transaction, and sends XACK after its commit.
func ExampleParse() {
	entry := redis.XMessage{ID: "1731664800000-0", Values: map[string]any{
		"payload":         `{"order":7}`,
		"outbox-event-id": "0193a4f2-7c1b-7e5a-9d3e-2f6b8c4a1d07",
		"outbox-topic":    "shop.order.placed.v1",
	}}

	msg, err := redissink.Parse(entry)
	if err != nil {
		panic(err)
	}
	fmt.Println(msg.Meta.Topic, msg.Meta.EventID, string(msg.Payload))
	// Output: shop.order.placed.v1 0193a4f2-7c1b-7e5a-9d3e-2f6b8c4a1d07 {"order":7}
}
