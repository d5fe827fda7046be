package natssink_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/sink/natssink"
	"github.com/go-outbox/outbox/sink/sinktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const maxMessage = 512 << 10 // of the streams; the server takes a megabyte

func TestContractOfASinkWithItsOwnConnection(t *testing.T) {
	server := testenv.PrivateNATS(t)
	sinktest.Run(t, func(t *testing.T) sinktest.Harness {
		proxy := testenv.NewProxy(t, server.Addr())
		h := harness(t, server, open(t, "nats://"+proxy.Addr()))
		kill := h.Break
		h.Break = func(t *testing.T) (restore func()) {
			heal := proxy.Fail("down") // it would keep a connection to nobody open
			start := kill(t)
			return func() { start(); heal() }
		}
		h.Fault = func(_ *testing.T, fault sinktest.Fault) func() { return proxy.Fail(string(fault)) }
		return h
	})
}

func TestContractOfASinkOnTheCallersConnection(t *testing.T) {
	server := testenv.PrivateNATS(t)
	sinktest.Run(t, func(t *testing.T) sinktest.Harness {
		conn := connect(t, server.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond), nats.ReconnectBufSize(-1))
		sink, err := natssink.New(conn, natssink.Config{})
		if err != nil {
			t.Fatal(err)
		}
		return harness(t, server, sink)
	})
}

func harness(t *testing.T, server *testenv.NATSServer, sink *natssink.Sink) sinktest.Harness {
	t.Helper()
	s := newStream(t, server.URL(), jetstream.StreamConfig{MaxMsgSize: maxMessage})
	awaitPing(t, sink, true)
	return sinktest.Harness{
		Sink: sink, Close: sink.Close, Topic: s.topic,
		Received: s.received,
		Break: func(t *testing.T) (restore func()) {
			server.Kill()
			awaitPing(t, sink, false) // the client has noticed
			return server.Start
		},
		Stall: func(*testing.T) (release func()) {
			server.Pause()
			return server.Resume
		},
		Refuse: func(msg *outbox.DispatchedMessage) {
			msg.Payload = []byte(`"` + strings.Repeat("x", maxMessage) + `"`)
		},
	}
}

// A stream is a test's own, and the topic that it takes.
type stream struct {
	url, name, topic string
}

var streams atomic.Int64

func newStream(t *testing.T, url string, cfg jetstream.StreamConfig) *stream {
	t.Helper()
	name := fmt.Sprintf("t%d-%d", os.Getpid(), streams.Add(1))
	s := &stream{url: url, name: name, topic: name + ".order.placed.v1"}
	cfg.Name, cfg.Subjects = name, []string{name + ".>"}
	// A cluster elects its leaders first, and does not answer until then.
	eventually(t, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		return withJetStream(url, func(js jetstream.JetStream) error {
			_, err := js.CreateStream(ctx, cfg)
			return err
		})
	})
	return s
}

// received reads the stream on a connection of its own.
func (s *stream) received(t *testing.T) []sinktest.Received {
	t.Helper()
	var all []sinktest.Received
	eventually(t, func(ctx context.Context) error {
		all = nil
		return withJetStream(s.url, func(js jetstream.JetStream) error {
			stream, err := js.Stream(ctx, s.name)
			if err != nil {
				return err
			}
			info, err := stream.Info(ctx)
			if err != nil {
				return err
			}
			for seq := uint64(1); seq <= info.State.LastSeq; seq++ {
				raw, err := stream.GetMsg(ctx, seq)
				if err != nil {
					return err
				}
				msg, err := natssink.Parse(delivery{raw})
				if err != nil {
					return err
				}
				all = append(all, sinktest.Received{Message: msg, DedupID: raw.Header.Get(jetstream.MsgIDHeader)})
			}
			return nil
		})
	})
	return all
}

// A delivery is a message read from the stream and not from a consumer.
type delivery struct{ raw *jetstream.RawStreamMsg }

func (d delivery) Headers() nats.Header { return d.raw.Header }
func (d delivery) Data() []byte         { return d.raw.Data }

func open(t *testing.T, url string) *natssink.Sink {
	t.Helper()
	sink, err := natssink.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sink.Close() })
	return sink
}

func connect(t *testing.T, url string, options ...nats.Option) *nats.Conn {
	t.Helper()
	options = append(options, nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	conn, err := nats.Connect(url, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func withJetStream(url string, use func(jetstream.JetStream) error) error {
	conn, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	return use(js)
}

// awaitPing waits until the sink knows whether its server is there.
func awaitPing(t *testing.T, sink *natssink.Sink, there bool) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		if err := sink.Ping(ctx); (err == nil) != there {
			return fmt.Errorf("there is %v, ping: %w", there, err)
		}
		return nil
	})
}

// eventually tries until it works, for what nobody announces.
func eventually(t *testing.T, try func(ctx context.Context) error) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		err := try(ctx)
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// message is a valid message.
func message(topic string) outbox.DispatchedMessage {
	return outbox.DispatchedMessage{
		Meta:    outbox.Meta{Topic: topic, EventID: uuid.New(), Sequence: 7, Attempts: 1, CreatedAt: time.Now()},
		Payload: []byte(`{"order": 7}`),
	}
}

func messages(topic string, n int) []outbox.DispatchedMessage {
	msgs := make([]outbox.DispatchedMessage, n)
	for i := range msgs {
		msgs[i] = message(topic)
		msgs[i].Meta.Key = fmt.Sprint("key-", i)
		msgs[i].Meta.Sequence = int64(i + 1)
	}
	return msgs
}
