package kafkasink_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/internal/wire"
)

// What the sink costs: the same records through the bare client and through the sink,
// in batches as large as a relay's.
func BenchmarkKafka(b *testing.B) {
	const batch = 500
	broker := testenv.Kafka(b)
	payload := []byte(`{"note":"` + strings.Repeat("x", 289) + `"}`)
	for _, workers := range []int{1, 4} {
		b.Run(fmt.Sprintf("client/workers=%d", workers), func(b *testing.B) {
			topic := broker.Topic(b, 4)
			client := newClient(b, broker.Address())
			measure(b, workers, batch, func(ctx context.Context, first, n int) error {
				records := make([]*kgo.Record, n)
				for i := range records {
					records[i] = record(b, message(topic, first+i), payload)
				}
				return client.ProduceSync(ctx, records...).FirstErr()
			})
		})
		b.Run(fmt.Sprintf("sink/workers=%d", workers), func(b *testing.B) {
			topic := broker.Topic(b, 4)
			sink := newSink(b, newClient(b, broker.Address()))
			measure(b, workers, batch, func(ctx context.Context, first, n int) error {
				msgs := make([]outbox.DispatchedMessage, n)
				for i := range msgs {
					msgs[i] = message(topic, first+i)
					msgs[i].Payload = payload
				}
				for _, err := range sink.DispatchBatch(ctx, msgs) {
					if err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

// record is what the sink makes of a message.
func record(b *testing.B, msg outbox.DispatchedMessage, payload []byte) *kgo.Record {
	headers, err := wire.Headers(&msg.Meta)
	if err != nil {
		b.Error(err)
	}
	r := &kgo.Record{Topic: msg.Meta.Topic, Key: []byte(msg.Meta.Key), Value: payload}
	for _, h := range headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Name, Value: []byte(h.Value)})
	}
	return r
}

func measure(b *testing.B, workers, batch int, send func(ctx context.Context, first, n int) error) {
	uuid.EnableRandPool()                           // the ids are the store's affair
	if err := send(b.Context(), 0, 1); err != nil { // connections and partitions
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for first := w * batch; first < b.N; first += workers * batch {
				if err := send(b.Context(), first, min(batch, b.N-first)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}
