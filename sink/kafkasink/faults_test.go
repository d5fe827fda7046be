package kafkasink_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/sink/kafkasink"
)

const topic = "shop.order.placed.v1"

// fake returns a sink and its cluster of three brokers.
func fake(t *testing.T) (*kafkasink.Sink, *kfake.Cluster) {
	t.Helper()
	cluster := newCluster(t, kfake.NumBrokers(3), kfake.SeedTopics(4, topic))
	return newSink(t, newClient(t, cluster.ListenAddrs()...)), cluster
}

func dispatch(t *testing.T, sink *kafkasink.Sink, limit time.Duration, msg outbox.DispatchedMessage) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	return sink.Dispatch(ctx, msg)
}

func TestWhatABrokersAnswerMeans(t *testing.T) {
	const (
		delivered   = outbox.VerdictDelivered
		retry       = outbox.VerdictRetry
		permanent   = outbox.VerdictPermanent
		unavailable = outbox.VerdictUnavailable
	)
	for _, tt := range []struct {
		answer *kerr.Error
		times  int // -1 is always
		want   outbox.Verdict
		text   string
	}{
		// What the client mends by itself.
		{kerr.NotLeaderForPartition, 3, delivered, ""},
		{kerr.LeaderNotAvailable, 3, delivered, ""},
		{kerr.NotEnoughReplicas, 3, delivered, ""},
		{kerr.KafkaStorageError, 3, delivered, ""},
		{kerr.NetworkException, 3, delivered, ""},
		{kerr.OutOfOrderSequenceNumber, 1, delivered, ""},
		{kerr.RequestTimedOut, 3, delivered, ""},              // and written
		{kerr.NotEnoughReplicasAfterAppend, 3, delivered, ""}, // and written

		{kerr.MessageTooLarge, -1, permanent, "MESSAGE_TOO_LARGE"},
		{kerr.RecordListTooLarge, -1, permanent, ""},
		{kerr.InvalidRecord, -1, permanent, ""},
		{kerr.InvalidTimestamp, -1, permanent, ""},
		{kerr.InvalidTopicException, -1, permanent, ""},
		{kerr.MessageTooLarge, 1, delivered, ""}, // it was somebody else's fault

		{kerr.UnknownTopicOrPartition, -1, retry, "create the topic"},
		{kerr.TopicAuthorizationFailed, -1, retry, "allow the relay to write"},
		{kerr.CorruptMessage, -1, retry, ""},
		{kerr.UnknownServerError, -1, retry, ""},
		{kerr.PolicyViolation, -1, retry, ""},

		{kerr.ClusterAuthorizationFailed, -1, unavailable, "idempotently"},
	} {
		t.Run(fmt.Sprintf("%s %d times", tt.answer.Message, tt.times), func(t *testing.T) {
			sink, cluster := fake(t)
			cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: tt.answer, Count: tt.times})
			msg := message(topic, 1)

			err := dispatch(t, sink, 20*time.Second, msg)

			if got, _ := outbox.Classify(err); got != tt.want {
				t.Errorf("verdict %s of %v, want %s", got, err, tt.want)
			}
			if err != nil && !strings.Contains(err.Error(), tt.text) {
				t.Errorf("text %q, want %q in it", err, tt.text)
			}
			if found := len(read(t, topic, cluster.ListenAddrs()...)); (err == nil) != (found > 0) {
				t.Errorf("%d are there, reported was %v", found, err)
			}
		})
	}
}

func TestAnAnswerThatIsLostMakesNoDuplicate(t *testing.T) {
	for _, answer := range []*kerr.Error{kerr.RequestTimedOut, kerr.NotEnoughReplicasAfterAppend} {
		sink, cluster := fake(t)
		cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: answer, Count: 2})

		if err := dispatch(t, sink, 20*time.Second, message(topic, 1)); err != nil {
			t.Fatal(err)
		}

		if found := read(t, topic, cluster.ListenAddrs()...); len(found) != 1 {
			t.Errorf("after %s it is there %d times", answer.Message, len(found))
		}
	}
}

// silence makes the cluster keep produce requests until it is released.
func silence(cluster *kfake.Cluster) (heard <-chan struct{}, release func()) {
	arrived, released := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(arrived) })
	cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.DropControl()
		once()
		cluster.SleepControl(func() { <-released })
		return nil, nil, false
	})
	return arrived, func() { close(released) }
}

func TestADispatchAfterADeadlineWaitsForTheSameRecord(t *testing.T) {
	sink, cluster := fake(t)
	heard, release := silence(cluster)
	msg := message(topic, 1)
	want := string(msg.Payload)

	err := dispatch(t, sink, 300*time.Millisecond, msg)
	<-heard
	if verdict, _ := outbox.Classify(err); verdict != outbox.VerdictRetry || !strings.Contains(err.Error(), "may still arrive") {
		t.Fatalf("verdict %s of %v", verdict, err)
	}
	again := dispatch(t, sink, 300*time.Millisecond, msg) // the cluster is still silent
	if verdict, _ := outbox.Classify(again); verdict != outbox.VerdictRetry {
		t.Fatalf("verdict %s of %v", verdict, again)
	}
	clear(msg.Payload) // it is the relay's, and the client has a record still
	msg.Payload = []byte(want)
	release()

	if err := dispatch(t, sink, 20*time.Second, msg); err != nil {
		t.Fatal(err)
	}
	found := read(t, topic, cluster.ListenAddrs()...)
	if len(found) != 1 || string(found[0].Message.Payload) != want {
		t.Errorf("it is there %d times, and as %s", len(found), found[0].Message.Payload)
	}
}

func TestARecordThatArrivedLateIsNotSentAgain(t *testing.T) {
	sink, cluster := fake(t)
	_, release := silence(cluster)
	msg := message(topic, 1)
	if err := dispatch(t, sink, 300*time.Millisecond, msg); err == nil {
		t.Fatal("nobody answered")
	}
	release()
	if err := dispatch(t, sink, 20*time.Second, withKeyOf(msg)); err != nil { // the same partition: it is behind the first
		t.Fatal(err)
	}

	if err := dispatch(t, sink, 20*time.Second, msg); err != nil {
		t.Fatal(err)
	}
	if found := len(read(t, topic, cluster.ListenAddrs()...)); found != 2 {
		t.Errorf("two messages are there as %d records", found)
	}

	msg.Meta.Replays = 1 // an operator's wish is another matter
	if err := dispatch(t, sink, 20*time.Second, msg); err != nil {
		t.Fatal(err)
	}
	if found := len(read(t, topic, cluster.ListenAddrs()...)); found != 3 {
		t.Errorf("the replay is not there: %d records", found)
	}
}

func TestADeadlineOfOneDispatchIsNoneOfAnother(t *testing.T) {
	sink, cluster := fake(t)
	heard, release := silence(cluster)
	first := message(topic, 1)
	hasty, patient := withKeyOf(first), withKeyOf(first) // the same partition
	var group sync.WaitGroup
	group.Go(func() {
		if err := dispatch(t, sink, 20*time.Second, first); err != nil {
			t.Errorf("first: %v", err)
		}
	})
	<-heard

	if err := dispatch(t, sink, 100*time.Millisecond, hasty); err == nil { // waits behind the first
		t.Error("nobody answered")
	}
	group.Go(func() {
		if err := dispatch(t, sink, 20*time.Second, patient); err != nil {
			t.Errorf("patient: %v", err)
		}
	})
	release()
	group.Wait()
}

func withKeyOf(msg outbox.DispatchedMessage) outbox.DispatchedMessage {
	msg.Meta.EventID = uuid.New()
	return msg
}

func TestADeadlineIsKeptWithoutAConnection(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	sink := newSink(t, newClient(t, listener.Addr().String()))
	start := time.Now()

	got := dispatch(t, sink, 500*time.Millisecond, message(topic, 1))

	if verdict, _ := outbox.Classify(got); verdict != outbox.VerdictRetry || time.Since(start) > 3*time.Second {
		t.Errorf("verdict %s of %v after %s", verdict, got, time.Since(start))
	}
}

func TestNobodyThereIsAnOutageAndToldSoon(t *testing.T) {
	sink := newSink(t, newClient(t, "127.0.0.1:1"))
	start := time.Now()

	errs := sink.DispatchBatch(t.Context(), messages(topic, 3))

	for _, err := range errs {
		if !outbox.IsUnavailable(err) {
			t.Errorf("got %v", err)
		}
	}
	if waited := time.Since(start); waited > 5*time.Second {
		t.Errorf("it took %s", waited)
	}
	if err := sink.Ping(t.Context()); err == nil {
		t.Error("somebody answered the ping")
	}
}

func TestSilentBrokersAreAnOutage(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	sink := newSink(t, newClient(t, listener.Addr().String()))

	if err := dispatch(t, sink, 20*time.Second, message(topic, 1)); !outbox.IsUnavailable(err) {
		t.Errorf("got %v", err)
	}
}

func TestAPartitionThatTakesNothingIsNoOutage(t *testing.T) {
	cluster := newCluster(t, kfake.NumBrokers(3), kfake.SeedTopics(1, topic))
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1})
	sink := newSink(t, newClientWith(t, []kgo.Opt{kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.RecordDeliveryTimeout(time.Second)}))

	err := dispatch(t, sink, 20*time.Second, message(topic, 1))

	// Other partitions may be well, and the brokers are.
	if verdict, _ := outbox.Classify(err); verdict != outbox.VerdictRetry {
		t.Errorf("verdict %s of %v", verdict, err)
	}
}

// The client gives up what was there before with all that waits behind it.
func TestAMessageDoesNotTimeOutForAnother(t *testing.T) {
	cluster := newCluster(t, kfake.NumBrokers(3), kfake.SeedTopics(1, topic))
	fault := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1})
	sink := newSink(t, newClientWith(t, []kgo.Opt{kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.RecordDeliveryTimeout(2 * time.Second)}))
	old := message(topic, 1)
	if err := dispatch(t, sink, 1500*time.Millisecond, old); err == nil {
		t.Fatal("delivered to nobody")
	}
	var group sync.WaitGroup
	group.Go(func() {
		if err := dispatch(t, sink, 20*time.Second, message(topic, 2)); err != nil {
			t.Errorf("it timed out at once: %v", err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := fault.Wait(ctx, fault.Hits()+2); err != nil { // past the old one's end
		t.Error(err)
	}
	fault.Remove()
	group.Wait()
}

func TestATopicThatIsMissingHoldsUpNoOther(t *testing.T) {
	sink, cluster := fake(t)
	msgs := messages(topic, 4)
	msgs[1].Meta.Topic = "shop.order.missing.v1"

	errs := sink.DispatchBatch(t.Context(), msgs)

	for i, err := range errs {
		want := outbox.VerdictDelivered
		if i == 1 {
			want = outbox.VerdictRetry
		}
		if got, _ := outbox.Classify(err); got != want {
			t.Errorf("message %d: verdict %s of %v, want %s", i, got, err, want)
		}
	}

	if err := cluster.CreateTopic("shop.order.missing.v1", 1, nil); err != nil {
		t.Fatal(err)
	}
	if err := dispatch(t, sink, 20*time.Second, msgs[1]); err != nil {
		t.Errorf("the topic is there now: %v", err)
	}
}

func TestATopicThatWasCreatedAnewIsUsed(t *testing.T) {
	sink, cluster := fake(t)
	if err := dispatch(t, sink, 20*time.Second, message(topic, 1)); err != nil {
		t.Fatal(err)
	}
	if err := cluster.DeleteTopic(topic); err != nil {
		t.Fatal(err)
	}
	if err := cluster.CreateTopic(topic, 2, nil); err != nil {
		t.Fatal(err)
	}

	var err error
	for range 10 { // a relay's attempts
		if err = dispatch(t, sink, 5*time.Second, message(topic, 2)); err == nil {
			break
		}
		if verdict, _ := outbox.Classify(err); verdict != outbox.VerdictRetry {
			t.Fatalf("verdict %s of %v", verdict, err)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// A topic may take less than the client puts into a batch: the batch is refused, and
// none of its messages is to blame except the one that is too large by itself.
func TestARefusedBatchIsSentInParts(t *testing.T) {
	cluster := newCluster(t)
	if err := cluster.CreateTopic(topic, 1, map[string]string{"max.message.bytes": "10000"}); err != nil {
		t.Fatal(err)
	}
	refusedInParts(t, topic, cluster.ListenAddrs()...)
}

func refusedInParts(t *testing.T, topic string, brokers ...string) {
	t.Helper()
	sink := newSink(t, newClient(t, brokers...))
	msgs := messages(topic, 300)
	for i := range msgs {
		size := 500
		if i == 17 || i == 203 {
			size = 15_000
		}
		msgs[i].Payload = incompressible(size)
	}

	// A client that was refused may send requests behind it empty, which Kafka was seen
	// not to answer: then it waits for 15 s, and the messages are to be tried again.
	errs := settle(t, sink, 20*time.Second, msgs)

	for i, err := range errs {
		want := outbox.VerdictDelivered
		if len(msgs[i].Payload) > 10_000 {
			want = outbox.VerdictPermanent
		}
		if got, _ := outbox.Classify(err); got != want {
			t.Errorf("message %d: verdict %s of %v, want %s", i, got, err, want)
		}
	}
	seen := map[int64]bool{}
	for _, r := range read(t, topic, brokers...) {
		seen[r.Message.Meta.Sequence] = true
	}
	if len(seen) != len(msgs)-2 || seen[17] || seen[203] {
		t.Errorf("%d of %d messages are there", len(seen), len(msgs))
	}
}

func incompressible(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

// A brittle network loses one answer in a hundred, after the broker has acted on the
// request.
func brittle(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return &brittleConn{Conn: conn}, err
}

type brittleConn struct{ net.Conn }

func (c *brittleConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if rand.IntN(100) == 0 {
		c.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

// Every kind of "nobody knows" at once: 5 % of the requests are written and answered
// with a time-out, 1 % of the answers are lost with their connection, some requests are
// refused while others behind them are under way, leaders move, and 5 % of the
// dispatches run out of time. A relay's part is played by dispatching again
// what was not reported as delivered.
func TestWhatIsReportedAsDeliveredIsThere(t *testing.T) {
	total := 10_000
	if os.Getenv("OUTBOX_SOAK") == "1" {
		total = 200_000
	}
	const workers, batch = 8, 50
	cluster := newCluster(t, kfake.NumBrokers(3), kfake.SeedTopics(8, topic))
	faults := cluster.Fault(
		kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.RequestTimedOut, Count: -1, When: oneIn(20)},
		kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicasAfterAppend, Count: -1, When: oneIn(100)},
		kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotLeaderForPartition, Count: -1, When: oneIn(100)},
		kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.UnknownServerError, Count: -1, When: oneIn(100)},
	)
	sink := newSink(t, newClientWith(t, []kgo.Opt{kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.Dialer(brittle)}))

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var missed atomic.Int64
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for first := w * batch; first < total && ctx.Err() == nil; first += workers * batch {
				if first%(40*workers*batch) == 0 {
					cluster.ShufflePartitionLeaders()
				}
				n, err := untilDelivered(ctx, sink, first, min(batch, total-first))
				missed.Add(n)
				if err != nil {
					t.Error(err)
					stop() // the others would get stuck as well, one batch after the other
				}
			}
		})
	}
	group.Wait()
	if t.Failed() {
		t.FailNow()
	}

	found := map[int64]int{}
	for _, r := range read(t, topic, cluster.ListenAddrs()...) {
		found[r.Message.Meta.Sequence]++
	}
	duplicates := 0
	for n := range total {
		if found[int64(n)] == 0 {
			t.Errorf("message %d was reported as delivered and is not there", n)
		}
		duplicates += max(found[int64(n)]-1, 0)
	}
	t.Logf("%d messages, %d faults, %d results that were not a delivery, %d duplicates",
		total, faults.Hits(), missed.Load(), duplicates)
}

func oneIn(n int) func(kmsg.Request) bool {
	return func(kmsg.Request) bool { return rand.IntN(n) == 0 }
}

// untilDelivered plays the relay for a batch, and counts results that were errors. It
// gives up after two minutes: a client may be stuck for one (see TestAStuckClientBeginsAnew).
func untilDelivered(ctx context.Context, sink *kafkasink.Sink, first, n int) (missed int64, err error) {
	left := make([]outbox.DispatchedMessage, n)
	for i := range left {
		left[i] = message(topic, first+i)
	}
	last := map[string]error{} // by key
	for deadline := time.Now().Add(2 * time.Minute); len(left) > 0 && ctx.Err() == nil; {
		if time.Now().After(deadline) {
			return missed, fmt.Errorf("%d messages are stuck: %v", len(left), last)
		}
		limit := 20 * time.Second
		if rand.IntN(20) == 0 {
			limit = time.Duration(rand.IntN(10)) * time.Millisecond
		}
		limited, cancel := context.WithTimeout(ctx, limit)
		errs := sink.DispatchBatch(limited, left)
		cancel()
		clear(last)
		for i, err := range errs {
			if outbox.IsPermanent(err) {
				return missed, fmt.Errorf("a message died: %w", err)
			}
			if err != nil {
				missed++
				last[left[i].Meta.Key] = err
			}
		}
		left = slices.DeleteFunc(left, func(msg outbox.DispatchedMessage) bool { return last[msg.Meta.Key] == nil })
	}
	return missed, nil
}
