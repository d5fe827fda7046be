package kafkasink_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/sink/kafkasink"
)

func TestKafkasOwnConsumerReadsWhatWasSent(t *testing.T) {
	broker := testenv.Kafka(t)
	topic := broker.Topic(t, 3)
	sink, err := kafkasink.Open("kafka://" + broker.Address() + "?compression=zstd&client_id=shop")
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	msgs := messages(topic, 50)
	msgs[7].Meta.Key, msgs[7].Meta.Headers = "ключ 7", map[string]string{"ce_id": "7", "x-source": "checkout"}
	msgs[8].Meta.Key = ""
	reDispatch(t, sink, msgs)

	lines := broker.Console(t, topic, len(msgs))

	want := map[string]bool{}
	for i := range msgs {
		want[msgs[i].Meta.OrderingKey()+"\t"+string(msgs[i].Payload)] = true
	}
	for _, line := range lines {
		headers, rest, _ := strings.Cut(line, "\t")
		if !want[rest] {
			t.Errorf("unexpected or twice: %s", line)
		}
		delete(want, rest)
		if !strings.Contains(headers, "outbox-event-id:") || !strings.Contains(headers, "outbox-topic:"+topic) {
			t.Errorf("headers are missing: %s", line)
		}
		if strings.HasPrefix(rest, "ключ 7\t") && (!strings.Contains(headers, "ce_id:7") || !strings.Contains(headers, "x-source:checkout")) {
			t.Errorf("the message's own headers are missing: %s", line)
		}
	}
	if len(want) > 0 {
		t.Errorf("missing: %q", slices.Collect(maps.Keys(want)))
	}
}

func TestKafkaRefusesABatchAndItIsSentInParts(t *testing.T) {
	broker := testenv.Kafka(t)
	refusedInParts(t, broker.Topic(t, 1, "max.message.bytes=10000"), broker.Address())
}

func TestKafkaDoesNotHaveATopic(t *testing.T) {
	broker := testenv.Kafka(t)
	sink := newSink(t, newClient(t, broker.Address()))
	msgs := messages(broker.Topic(t, 1), 3)
	msgs[1].Meta.Topic = "nobody-made-this-one"

	errs := sink.DispatchBatch(t.Context(), msgs)

	if verdict, _ := outbox.Classify(errs[1]); verdict != outbox.VerdictRetry || !strings.Contains(fmt.Sprint(errs[1]), "create the topic") {
		t.Errorf("verdict %s of %v", verdict, errs[1])
	}
	if errs[0] != nil || errs[2] != nil {
		t.Errorf("its neighbours: %v, %v", errs[0], errs[2])
	}
}

// A broker that is killed in the middle of a stream of batches and comes back has
// everything that was reported as delivered, in the order of each key.
func TestKafkaIsKilledUnderLoad(t *testing.T) {
	broker := testenv.PrivateKafka(t)
	topic := broker.Topic(t, 3)
	sink := newSink(t, newClient(t, broker.Address()))
	const keys, rounds = 50, 40
	delivered := make(chan struct{}, keys*rounds)
	var group sync.WaitGroup
	group.Go(func() {
		for round := range rounds {
			batch := messages(topic, keys) // one for each key
			for i := range batch {
				batch[i].Meta.Sequence = int64(round)
			}
			reDispatch(t, sink, batch)
			delivered <- struct{}{}
		}
	})
	for range rounds / 4 {
		<-delivered
	}
	broker.Kill()
	broker.Start()
	group.Wait()

	got := map[string][]int64{}
	for _, r := range read(t, topic, broker.Address()) {
		m := r.Message.Meta
		if !slices.Contains(got[m.Key], m.Sequence) {
			got[m.Key] = append(got[m.Key], m.Sequence)
		}
	}
	for key, sequences := range got {
		if len(sequences) != rounds || !slices.IsSorted(sequences) {
			t.Errorf("%s arrived as %v", key, sequences)
		}
	}
	if len(got) != keys {
		t.Errorf("%d keys, want %d", len(got), keys)
	}
}

// reDispatch plays the relay: what was not delivered is dispatched again.
func reDispatch(t *testing.T, sink *kafkasink.Sink, msgs []outbox.DispatchedMessage) {
	for _, err := range settle(t, sink, 5*time.Second, msgs) {
		if err != nil {
			t.Errorf("a message was not delivered: %v", err)
		}
	}
}

// settle plays the relay for a minute: it dispatches again what is to be tried again, and
// returns the last word on each message.
func settle(t *testing.T, sink *kafkasink.Sink, limit time.Duration, msgs []outbox.DispatchedMessage) []error {
	t.Helper()
	last := make([]error, len(msgs))
	left := make([]int, len(msgs))
	for i := range left {
		left[i] = i
	}
	for end := time.Now().Add(time.Minute); len(left) > 0 && time.Now().Before(end); {
		batch := make([]outbox.DispatchedMessage, len(left))
		for i, at := range left {
			batch[i] = msgs[at]
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		errs := sink.DispatchBatch(ctx, batch)
		cancel()
		for i, at := range left {
			last[at] = errs[i]
		}
		left = slices.DeleteFunc(left, func(at int) bool { return last[at] == nil || outbox.IsPermanent(last[at]) })
	}
	return last
}
