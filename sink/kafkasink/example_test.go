package kafkasink_test

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/go-outbox/outbox/sink/kafkasink"
)

func Example() {
	cluster := kfake.MustCluster(kfake.SeedTopics(1, "shop.order.placed.v1")) // in place of a real one
	defer cluster.Close()
	ctx := context.Background()

	client, err := kgo.NewClient(append(kafkasink.Options(), kgo.SeedBrokers(cluster.ListenAddrs()...))...)
	if err != nil {
		panic(err)
	}
	defer client.Close()
	sink, err := kafkasink.New(client, kafkasink.Config{})
	if err != nil {
		panic(err)
	}
	defer sink.Close()
	fmt.Println(sink.Dispatch(ctx, message("shop.order.placed.v1", 7))) // a relay does this

	// The other side.
	consumer, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics("shop.order.placed.v1"))
	if err != nil {
		panic(err)
	}
	defer consumer.Close()
	consumer.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
		msg, err := kafkasink.Parse(r)
		if err != nil {
			return // not from an outbox
		}
		// Deduplicate on msg.Meta.EventID, in the transaction that processes it.
		fmt.Println(msg.Meta.Key, string(msg.Payload))
	})
	// Output:
	// <nil>
	// key-7 {"n":7}
}
