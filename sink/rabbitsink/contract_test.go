package rabbitsink_test

import (
	"bytes"
	"net/url"
	"sync"
	"testing"

	"github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/sink/rabbitsink"
	"github.com/go-outbox/outbox/sink/sinktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	sinktest.Run(t, func(t *testing.T) sinktest.Harness {
		broker := testenv.RabbitMQ(t)
		inbox := newInbox(t, broker.URL(), broker.Name("events"))
		proxy := testenv.NewProxy(t, broker.Addr())
		sink := open(t, "amqp://guest:guest@"+proxy.Addr()+"/", inbox.exchange)
		return sinktest.Harness{
			Sink: sink, Close: sink.Close,
			Received: inbox.received,
			Break:    func(*testing.T) func() { return proxy.Fail("down") },
			Stall:    func(*testing.T) func() { return proxy.Fail("blackhole") },
			Fault:    func(_ *testing.T, fault sinktest.Fault) func() { return proxy.Fail(string(fault)) },
			Refuse: func(msg *outbox.DispatchedMessage) {
				msg.Payload = bytes.Repeat([]byte{'1'}, testenv.RabbitMaxMessage+1)
			},
		}
	})
}

func open(t testing.TB, address, exchange string) *rabbitsink.Sink {
	t.Helper()
	sink, err := rabbitsink.Open(address + "?exchange=" + url.QueryEscape(exchange))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sink.Close() })
	return sink
}

// An inbox is an exchange and a durable queue that takes all it gets, read over a
// connection of its own.
type inbox struct {
	exchange, queue string

	url  string
	mu   sync.Mutex
	conn *amqp091.Connection
	ch   *amqp091.Channel
	got  []sinktest.Received
}

func newInbox(t testing.TB, url, name string) *inbox {
	t.Helper()
	in := &inbox{url: url, exchange: name, queue: name}
	in.connect(t)
	t.Cleanup(func() { in.conn.Close() })
	must(t, in.ch.ExchangeDeclare(in.exchange, amqp091.ExchangeTopic, true, false, false, false, nil))
	_, err := in.ch.QueueDeclare(in.queue, true, false, false, false, amqp091.Table{"x-expires": int32(600_000)})
	must(t, err)
	must(t, in.ch.QueueBind(in.queue, "#", in.exchange, false, nil))
	t.Cleanup(func() {
		_, _ = in.ch.QueueDelete(in.queue, false, false, false)
		_ = in.ch.ExchangeDelete(in.exchange, false, false)
	})
	return in
}

func (in *inbox) connect(t testing.TB) {
	t.Helper()
	var err error
	in.conn, err = amqp091.Dial(in.url)
	must(t, err)
	in.ch, err = in.conn.Channel()
	must(t, err)
}

func (in *inbox) received(t *testing.T) []sinktest.Received {
	t.Helper()
	in.mu.Lock()
	defer in.mu.Unlock()
	for {
		delivery, ok, err := in.ch.Get(in.queue, true)
		must(t, err)
		if !ok {
			return in.got[:len(in.got):len(in.got)]
		}
		msg, err := rabbitsink.Parse(&delivery)
		must(t, err)
		in.got = append(in.got, sinktest.Received{Message: msg, DedupID: delivery.MessageId})
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
