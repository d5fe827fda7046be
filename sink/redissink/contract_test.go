package redissink_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"go.uber.org/goleak"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/sink/redissink"
	"github.com/go-outbox/outbox/sink/sinktest"
)

func TestMain(m *testing.M) {
	redis.SetLogger(quiet{}) // or it prints every failed dial
	goleak.VerifyTestMain(m)
}

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// topic is what the suite uses by default.
const topic = "shop.order.placed.v1"

func TestContract(t *testing.T) {
	server := testenv.PrivateRedis(t, "proto-max-bulk-len 1mb")
	sinktest.Run(t, func(t *testing.T) sinktest.Harness {
		proxy := testenv.NewProxy(t, server.Addr())
		empty(t, server.Addr())
		sink := open(t, "redis://"+proxy.Addr()+"/0?max_payload=524288")
		return sinktest.Harness{
			Sink: sink, Close: sink.Close,
			Received: func(t *testing.T) []sinktest.Received { return received(t, server.Addr()) },
			Break: func(*testing.T) (restore func()) {
				heal := proxy.Fail("down")
				server.Kill()
				return func() { server.Start(); heal() }
			},
			Stall: func(*testing.T) (release func()) {
				server.Pause()
				return server.Resume
			},
			Refuse: func(msg *outbox.DispatchedMessage) {
				msg.Payload = []byte(`"` + strings.Repeat("x", 512<<10) + `"`)
			},
			Fault: func(_ *testing.T, fault sinktest.Fault) func() { return proxy.Fail(string(fault)) },
		}
	})
}

func empty(t *testing.T, addr string) {
	t.Helper()
	if err := client(t, addr).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
}

// received reads every stream on a connection of its own.
func received(t *testing.T, addr string) []sinktest.Received {
	t.Helper()
	c := client(t, addr)
	streams, err := c.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	var all []sinktest.Received
	for _, stream := range streams {
		entries, err := c.XRange(t.Context(), stream, "-", "+").Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			msg, err := redissink.Parse(entry)
			if err != nil {
				t.Fatalf("%s %s: %v", stream, entry.ID, err)
			}
			all = append(all, sinktest.Received{Message: msg})
		}
	}
	return all
}

func open(t testing.TB, url string) *redissink.Sink {
	t.Helper()
	sink, err := redissink.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sink.Close() })
	return sink
}

// client is a client that is not the sink's.
func client(t testing.TB, addr string) *redis.Client {
	t.Helper()
	c := redis.NewClient(options(addr))
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func options(addr string) *redis.Options {
	return &redis.Options{
		Addr: addr, ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// message is a valid message.
func message() outbox.DispatchedMessage {
	return outbox.DispatchedMessage{
		Meta:    outbox.Meta{Topic: topic, EventID: uuid.New(), Sequence: 7, Attempts: 1, CreatedAt: time.Now()},
		Payload: []byte(`{"order": 7}`),
	}
}

func messages(n int) []outbox.DispatchedMessage {
	msgs := make([]outbox.DispatchedMessage, n)
	for i := range msgs {
		msgs[i] = message()
		msgs[i].Meta.Key = fmt.Sprint("key-", i)
		msgs[i].Meta.Sequence = int64(i + 1)
	}
	return msgs
}
