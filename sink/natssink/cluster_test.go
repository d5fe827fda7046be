package natssink_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/sink/natssink"
)

// Three nodes, a stream with three replicas, and the node that leads it is killed while
// batches are under way: what was reported as delivered is there, once, and everything
// else is delivered by retries.
func TestAKilledNodeLosesNothingThatWasReportedAsDelivered(t *testing.T) {
	cluster := testenv.NATSCluster(t)
	s := newStream(t, cluster[0].URL(), jetstream.StreamConfig{Replicas: 3})
	sink := open(t, urls(cluster))
	awaitPing(t, sink, true)
	leader := s.leader(t, cluster)
	s.url = cluster[(leader+1)%len(cluster)].URL() // reads do not need the victim

	const batches, size = 60, 25
	msgs := messages(s.topic, batches*size)
	var reported atomic.Int64
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		for reported.Load() < batches/3*size && t.Context().Err() == nil {
			<-time.After(time.Millisecond)
		}
		cluster[leader].Kill()
	}()
	var retried int
	for b := range batches {
		retried += deliver(t, sink, msgs[b*size:(b+1)*size], &reported)
	}
	<-killed

	found := map[string]int{}
	for _, r := range s.received(t) {
		found[r.DedupID]++
	}
	for i := range msgs {
		if n := found[msgs[i].Meta.DedupID()]; n != 1 {
			t.Errorf("message %d is there %d times", i, n)
		}
	}
	t.Logf("%d messages, %d dispatches failed and were tried again, %d were duplicates", len(msgs), retried, sink.Duplicates())

	cluster[leader].Start()
	s.url = cluster[leader].URL()
	if got := len(s.received(t)); got != len(msgs) {
		t.Errorf("%d messages after the node came back, want %d", got, len(msgs))
	}
}

// A stream with one replica, on a node that is down: it exists, and nobody answers.
func TestAStreamWithoutALeaderIsAnOutage(t *testing.T) {
	cluster := testenv.NATSCluster(t)
	s := newStream(t, cluster[0].URL(), jetstream.StreamConfig{Replicas: 1})
	leader := s.leader(t, cluster)
	sink := open(t, cluster[(leader+1)%len(cluster)].URL())
	awaitPing(t, sink, true)
	if err := sink.Dispatch(t.Context(), message(s.topic)); err != nil {
		t.Fatal(err)
	}

	cluster[leader].Kill()

	// Until the others have noticed, nobody answers at all.
	eventually(t, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		err := sink.Dispatch(ctx, message(s.topic))
		switch {
		case err == nil:
			t.Fatal("delivered to nobody")
		case outbox.IsPermanent(err):
			t.Fatalf("the outage killed a message: %v", err)
		case !outbox.IsUnavailable(err):
			return errors.Join(errors.New("not known as an outage yet"), err)
		}
		return nil
	})
	cluster[leader].Start()
	eventually(t, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		return sink.Dispatch(ctx, message(s.topic))
	})
}

// deliver dispatches a batch until all of it is delivered, as a relay would, and counts
// what failed.
func deliver(t *testing.T, sink *natssink.Sink, msgs []outbox.DispatchedMessage, reported *atomic.Int64) (failed int) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for len(msgs) > 0 {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		errs := sink.DispatchBatch(ctx, msgs)
		cancel()
		var again []outbox.DispatchedMessage
		for i, err := range errs {
			switch {
			case err == nil:
				reported.Add(1)
			case outbox.IsPermanent(err) || time.Now().After(deadline):
				t.Fatalf("message %d: %v", msgs[i].Meta.Sequence, err)
			default:
				again = append(again, msgs[i])
			}
		}
		failed += len(again)
		if len(again) > 0 {
			<-time.After(50 * time.Millisecond)
		}
		msgs = again
	}
	return failed
}

// leader returns the index of the node that leads the stream.
func (s *stream) leader(t *testing.T, cluster []*testenv.NATSServer) (leader int) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		return withJetStream(s.url, func(js jetstream.JetStream) error {
			stream, err := js.Stream(ctx, s.name)
			if err != nil {
				return err
			}
			info := stream.CachedInfo()
			for i, node := range cluster {
				if info.Cluster != nil && node.Name() == info.Cluster.Leader {
					leader = i
					return nil
				}
			}
			return fmt.Errorf("no leader in %+v", info.Cluster)
		})
	})
	return leader
}

func urls(cluster []*testenv.NATSServer) string {
	var hosts []string
	for _, node := range cluster {
		hosts = append(hosts, node.Addr())
	}
	return "nats://" + strings.Join(hosts, ",")
}
