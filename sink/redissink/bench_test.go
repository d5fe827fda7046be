package redissink_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/internal/wire"
)

const benchBatch = 1000

// BenchmarkSink is what a relay gets: batches, one after the other.
func BenchmarkSink(b *testing.B) {
	sink := open(b, testenv.PrivateRedis(b, "appendfsync everysec").URL())
	msgs := benchMessages()
	perMessage(b, func() {
		for i := range msgs {
			msgs[i].Meta.EventID = uuid.New()
		}
		for _, err := range sink.DispatchBatch(b.Context(), msgs) {
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkClient is the client's own pipeline with the same fields.
func BenchmarkClient(b *testing.B) {
	c := client(b, testenv.PrivateRedis(b, "appendfsync everysec").Addr())
	msgs := benchMessages()
	fields := make([][]any, len(msgs))
	for i := range msgs {
		headers, err := wire.Headers(&msgs[i].Meta)
		if err != nil {
			b.Fatal(err)
		}
		fields[i] = []any{"payload", []byte(msgs[i].Payload)}
		for _, h := range headers {
			fields[i] = append(fields[i], h.Name, h.Value)
		}
	}
	perMessage(b, func() {
		pipe := c.Pipeline()
		for i := range msgs {
			pipe.XAdd(b.Context(), &redis.XAddArgs{Stream: topic, Values: fields[i]})
		}
		if _, err := pipe.Exec(b.Context()); err != nil {
			b.Fatal(err)
		}
	})
}

// perMessage runs batches until there were b.N messages.
func perMessage(b *testing.B, batch func()) {
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n += benchBatch {
		batch()
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
}

func benchMessages() []outbox.DispatchedMessage {
	msgs := make([]outbox.DispatchedMessage, benchBatch)
	payload := append(append([]byte(`{"x":"`), bytes.Repeat([]byte("x"), 292)...), `"}`...)
	for i := range msgs {
		msgs[i] = outbox.DispatchedMessage{
			Meta: outbox.Meta{
				Table: "shop_outbox", Topic: topic, Key: fmt.Sprint("key-", i), EventID: uuid.New(), Sequence: int64(i),
				Attempts: 1, EventType: "order.placed", EventVersion: 1, CreatedAt: time.Now(),
			},
			Payload: payload,
		}
	}
	return msgs
}
