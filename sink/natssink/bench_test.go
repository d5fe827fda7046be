package natssink_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/internal/wire"
	"github.com/go-outbox/outbox/sink/natssink"
)

const benchBatch = 1000

// BenchmarkSink is what a relay gets: batches, one after the other.
func BenchmarkSink(b *testing.B) {
	url, topic := benchStream(b)
	sink, err := natssink.Open(url)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = sink.Close() })
	for sink.Ping(b.Context()) != nil {
		<-time.After(10 * time.Millisecond)
	}
	msgs := benchMessages(topic)
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

// BenchmarkClient is the client's own asynchronous publisher with the same bytes and a
// deduplication id, awaited a batch at a time.
func BenchmarkClient(b *testing.B) {
	url, topic := benchStream(b)
	conn, err := nats.Connect(url)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		b.Fatal(err)
	}
	msgs := benchMessages(topic)
	headers := make([]nats.Header, len(msgs))
	for i := range msgs {
		headers[i] = nats.Header{}
		all, err := wire.Headers(&msgs[i].Meta)
		if err != nil {
			b.Fatal(err)
		}
		for _, h := range all {
			headers[i][h.Name] = []string{h.Value}
		}
	}
	perMessage(b, func() {
		futures := make([]jetstream.PubAckFuture, len(msgs))
		for i := range msgs {
			headers[i]["Nats-Msg-Id"] = []string{uuid.NewString()}
			if futures[i], err = js.PublishMsgAsync(&nats.Msg{Subject: topic, Data: msgs[i].Payload, Header: headers[i]}); err != nil {
				b.Fatal(err)
			}
		}
		for _, f := range futures {
			select {
			case <-f.Ok():
			case err := <-f.Err():
				b.Fatal(err)
			}
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

func benchStream(b *testing.B) (url, topic string) {
	b.Helper()
	url = testenv.PrivateNATS(b).URL()
	err := withJetStream(url, func(js jetstream.JetStream) error {
		_, err := js.CreateStream(b.Context(), jetstream.StreamConfig{Name: "bench", Subjects: []string{"bench.>"}})
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return url, "bench.order.placed.v1"
}

func benchMessages(topic string) []outbox.DispatchedMessage {
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
