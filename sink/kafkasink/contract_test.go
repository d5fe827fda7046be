package kafkasink_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/sink/kafkasink"
	"github.com/go-outbox/outbox/sink/sinktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContractOnAFakeCluster(t *testing.T) {
	sinktest.Run(t, func(t *testing.T) sinktest.Harness {
		cluster := newCluster(t, kfake.NumBrokers(3), kfake.SeedTopics(4, topic))
		client := newClient(t, cluster.ListenAddrs()...)
		sink := newSink(t, client)
		return sinktest.Harness{
			Sink: sink, Topic: topic, Close: closer(sink, client),
			Received: func(t *testing.T) []sinktest.Received { return read(t, topic, cluster.ListenAddrs()...) },
			Stall:    func(*testing.T) func() { return stall(cluster) },
			Refuse:   tooLarge,
		}
	})
}

// The sink reaches the broker over a proxy, which is what fails here; the broker itself
// is killed in TestKafkaIsKilledUnderLoad.
func TestContractOnKafka(t *testing.T) {
	broker := testenv.Kafka(t)
	proxy := testenv.NewProxy(t, broker.Address())
	front := proxy.Addr()
	through := kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, front)
	})
	sinktest.Run(t, func(t *testing.T) sinktest.Harness {
		topic := broker.Topic(t, 3)
		client := newClientWith(t, []kgo.Opt{through, kgo.SeedBrokers(broker.Address())})
		sink := newSink(t, client)
		return sinktest.Harness{
			Sink: sink, Topic: topic, Close: closer(sink, client),
			Received: func(t *testing.T) []sinktest.Received { return read(t, topic, broker.Address()) },
			Break:    func(*testing.T) func() { return proxy.Fail("down") },
			Stall:    func(*testing.T) func() { return proxy.Fail("blackhole") },
			Fault:    func(_ *testing.T, fault sinktest.Fault) func() { return proxy.Fail(string(fault)) },
			Refuse:   tooLarge,
		}
	})
}

func tooLarge(msg *outbox.DispatchedMessage) {
	msg.Payload = []byte(`"` + strings.Repeat("x", 2<<20) + `"`)
}

func closer(sink *kafkasink.Sink, client *kgo.Client) func() error {
	return func() error { defer client.Close(); return sink.Close() }
}

func newCluster(t testing.TB, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	cluster, err := kfake.NewCluster(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster
}

func newClient(t testing.TB, brokers ...string) *kgo.Client {
	t.Helper()
	return newClientWith(t, []kgo.Opt{kgo.SeedBrokers(brokers...)})
}

// newClientWith closes the client with the test, if nobody did before.
func newClientWith(t testing.TB, opts []kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append(kafkasink.Options(), opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func newSink(t testing.TB, client *kgo.Client) *kafkasink.Sink {
	t.Helper()
	sink, err := kafkasink.New(client, kafkasink.Config{ProbeAfter: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sink.Close() })
	return sink
}

// stall makes a cluster take every request and answer none until it is released.
func stall(cluster *kfake.Cluster) (release func()) {
	released := make(chan struct{})
	cluster.Control(func(kmsg.Request) (kmsg.Response, error, bool) {
		select {
		case <-released:
			cluster.DropControl()
		default:
			cluster.KeepControl()
			cluster.SleepControl(func() { <-released })
		}
		return nil, nil, false
	})
	return func() { close(released) }
}

// read returns what a topic holds, partition by partition, with a client of its own.
func read(t testing.TB, topic string, brokers ...string) []sinktest.Received {
	t.Helper()
	var all []sinktest.Received
	for _, r := range records(t, topic, brokers...) {
		msg, err := kafkasink.Parse(r)
		if err != nil {
			t.Fatal(err)
		}
		if key := string(r.Key); key != msg.Meta.OrderingKey() {
			t.Errorf("the record's key is %q, want %q", key, msg.Meta.OrderingKey())
		}
		all = append(all, sinktest.Received{Message: msg})
	}
	return all
}

func records(t testing.TB, topic string, brokers ...string) []*kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeTopics(topic), kgo.MetadataMinAge(100*time.Millisecond), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	left := int64(0)
	ends.Each(func(o kadm.ListedOffset) { left += o.Offset })
	var all []*kgo.Record
	for int64(len(all)) < left {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatalf("%d of %d records: %v", len(all), left, err)
		}
		all = append(all, fetches.Records()...)
	}
	return all
}

func message(topic string, n int) outbox.DispatchedMessage {
	return outbox.DispatchedMessage{
		Meta: outbox.Meta{
			Topic: topic, EventID: uuid.New(), Sequence: int64(n), Attempts: 1, CreatedAt: time.Now(), Key: fmt.Sprintf("key-%d", n),
		},
		Payload: fmt.Appendf(nil, `{"n":%d}`, n),
	}
}

func messages(topic string, n int) []outbox.DispatchedMessage {
	all := make([]outbox.DispatchedMessage, n)
	for i := range all {
		all[i] = message(topic, i)
	}
	return all
}
