package kafkasink_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/sink/kafkasink"
)

// soonStuck returns a sink that takes its client for stuck after 3.6 s.
func soonStuck(t *testing.T, cluster *kfake.Cluster) *kafkasink.Sink {
	t.Helper()
	return newSink(t, newClientWith(t, []kgo.Opt{
		kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.RecordDeliveryTimeout(time.Second),
		kgo.DialTimeout(500 * time.Millisecond), kgo.ProduceRequestTimeout(200 * time.Millisecond), kgo.RequestTimeoutOverhead(500 * time.Millisecond),
	}))
}

// The client never learns what became of a record, as long as it stays with its epoch.
// The relay's dispatches are too short to wait for the end of it.
func TestAStuckClientBeginsAnew(t *testing.T) {
	cluster := newCluster(t, kfake.NumBrokers(3), kfake.SeedTopics(1, topic))
	fault := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.RequestTimedOut, Count: -1, When: ofEpoch(0)})
	sink := soonStuck(t, cluster)
	first := message(topic, 1)
	second := withKeyOf(first)
	second.Meta.Sequence = 2

	for _, msg := range []outbox.DispatchedMessage{first, second} {
		deliver(t, sink, msg)
	}

	if fault.Hits() == 0 {
		t.Error("it was never stuck")
	}
	var got []int64
	for _, r := range read(t, topic, cluster.ListenAddrs()...) {
		got = append(got, r.Message.Meta.Sequence)
	}
	if want := []int64{1, 1, 2}; !slices.Equal(got, want) { // the epochs have the first once each
		t.Errorf("the partition has %v, want %v", got, want)
	}
}

func TestAnOutageIsNoReasonToBeginAnew(t *testing.T) {
	cluster := newCluster(t, kfake.NumBrokers(3), kfake.SeedTopics(1, topic))
	sink := soonStuck(t, cluster)
	deliver(t, sink, message(topic, 1)) // the client knows its way
	release := stall(cluster)
	msg := message(topic, 2)
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		if err := dispatch(t, sink, 300*time.Millisecond, msg); err == nil {
			t.Fatal("nobody answered")
		}
	}
	release()

	deliver(t, sink, msg)

	if found := len(read(t, topic, cluster.ListenAddrs()...)); found != 2 {
		t.Errorf("two messages are there as %d records", found)
	}
}

// deliver plays the relay, whose dispatches are shorter than it takes to be stuck.
func deliver(t *testing.T, sink *kafkasink.Sink, msg outbox.DispatchedMessage) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		err := dispatch(t, sink, time.Second, msg)
		if err == nil {
			return
		}
		if outbox.IsPermanent(err) || ctx.Err() != nil {
			t.Fatalf("message %d: %v", msg.Meta.Sequence, err)
		}
	}
}

// ofEpoch tells the produce requests of a producer's epoch.
func ofEpoch(epoch int16) func(kmsg.Request) bool {
	return func(request kmsg.Request) bool {
		var batch kmsg.RecordBatch
		err := batch.ReadFrom(request.(*kmsg.ProduceRequest).Topics[0].Partitions[0].Records)
		return err == nil && batch.ProducerEpoch == epoch // what was given up while it was written is empty
	}
}
