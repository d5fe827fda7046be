package rabbitsink_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rabbitmq/amqp091-go"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/sink/rabbitsink"
)

const topic = "shop.order.placed.v1"

func message(topic string) outbox.DispatchedMessage {
	return outbox.DispatchedMessage{
		Meta:    outbox.Meta{Topic: topic, EventID: uuid.New(), Sequence: 7, Attempts: 1, CreatedAt: time.Now()},
		Payload: []byte(`{"order": 7}`),
	}
}

func messages(n int, topic string) []outbox.DispatchedMessage {
	msgs := make([]outbox.DispatchedMessage, n)
	for i := range msgs {
		msgs[i] = message(topic)
	}
	return msgs
}

func verdict(err error) outbox.Verdict {
	v, _ := outbox.Classify(err)
	return v
}

// ids are the events that an inbox has.
func (in *inbox) ids(t *testing.T) map[uuid.UUID]bool {
	t.Helper()
	ids := map[uuid.UUID]bool{}
	for _, r := range in.received(t) {
		ids[r.Message.Meta.EventID] = true
	}
	return ids
}

func TestWhatNoQueueTakesIsNotDelivered(t *testing.T) {
	broker := testenv.RabbitMQ(t)
	in := newInbox(t, broker.URL(), broker.Name("events"))
	must(t, in.ch.QueueUnbind(in.queue, "#", in.exchange, nil))
	must(t, in.ch.QueueBind(in.queue, "bound.#", in.exchange, false, nil))
	sink := open(t, broker.URL(), in.exchange)
	msgs := messages(2500, "bound.a")
	for i := range msgs {
		if i%2 == 0 {
			msgs[i].Meta.Topic = "unbound.a"
		}
	}

	errs := sink.DispatchBatch(t.Context(), msgs)

	ids := in.ids(t)
	for i, err := range errs {
		unbound := i%2 == 0
		if unbound && (verdict(err) != outbox.VerdictRetry || !strings.Contains(err.Error(), `no queue takes "unbound.a"`)) {
			t.Fatalf("message %d: %v", i, err)
		}
		if !unbound && err != nil || ids[msgs[i].Meta.EventID] == unbound {
			t.Fatalf("message %d: %v, arrived: %v", i, err, ids[msgs[i].Meta.EventID])
		}
	}
	must(t, in.ch.QueueBind(in.queue, "unbound.#", in.exchange, false, nil))
	if err := sink.Dispatch(t.Context(), msgs[0]); err != nil || !in.ids(t)[msgs[0].Meta.EventID] {
		t.Errorf("bound now: %v", err)
	}
}

func TestAMissingExchangeIsAnOutage(t *testing.T) {
	broker := testenv.RabbitMQ(t)
	name := broker.Name("later")
	sink := open(t, broker.URL(), name)

	for _, err := range sink.DispatchBatch(t.Context(), messages(3, topic)) {
		if verdict(err) != outbox.VerdictUnavailable || !strings.Contains(err.Error(), "no exchange") {
			t.Errorf("got %v", err)
		}
	}
	if err := sink.Ping(t.Context()); verdict(err) != outbox.VerdictUnavailable {
		t.Errorf("ping: %v", err)
	}

	in := newInbox(t, broker.URL(), name)
	msg := message(topic)
	if err := sink.Dispatch(t.Context(), msg); err != nil || !in.ids(t)[msg.Meta.EventID] {
		t.Errorf("there now: %v", err)
	}
	if err := sink.Ping(t.Context()); err != nil {
		t.Errorf("ping: %v", err)
	}
}

func TestAFullQueueIsARetry(t *testing.T) {
	broker := testenv.RabbitMQ(t)
	in := newInbox(t, broker.URL(), broker.Name("events"))
	full := broker.Name("full")
	_, err := in.ch.QueueDeclare(full, true, false, false, false,
		amqp091.Table{"x-max-length": int32(1), "x-overflow": "reject-publish", "x-expires": int32(600_000)})
	must(t, err)
	sink := open(t, broker.URL(), "") // the default exchange: the topic is the queue

	err = errors.Join(sink.DispatchBatch(t.Context(), messages(20, full))...)

	if verdict(err) != outbox.VerdictRetry || !strings.Contains(err.Error(), "nack") {
		t.Errorf("got %v", err)
	}
}

func TestAMessageSaysWhatItCarries(t *testing.T) {
	broker := testenv.RabbitMQ(t)
	in := newInbox(t, broker.URL(), broker.Name("events"))
	sink := open(t, broker.URL(), in.exchange)
	msg := message(topic)
	msg.Meta.Replays, msg.Meta.EventType, msg.Meta.ContentType = 2, "order.placed", "application/cloudevents+json"
	msg.Meta.Headers = map[string]string{"cloudEvents_id": "1", "x-a": "b"}
	must(t, sink.Dispatch(t.Context(), msg))

	d, ok, err := in.ch.Get(in.queue, true)

	if err != nil || !ok {
		t.Fatal(err, ok)
	}
	if d.MessageId != msg.Meta.EventID.String()+"-r2" || d.ContentType != "application/cloudevents+json" ||
		d.DeliveryMode != amqp091.Persistent || d.RoutingKey != topic || d.Type != "order.placed" ||
		d.Timestamp.Unix() != msg.Meta.CreatedAt.Unix() || d.Headers["cloudEvents_id"] != "1" || d.Headers["outbox-event-id"] != msg.Meta.EventID.String() {
		t.Errorf("got %+v", d)
	}
	got, err := rabbitsink.Parse(&d)
	if err != nil || got.Meta.Replays != 2 || got.Meta.ContentType != msg.Meta.ContentType || got.Meta.Headers["x-a"] != "b" {
		t.Errorf("parsed %+v, %v", got.Meta, err)
	}
}

func TestADeadLetterIsParsedAllTheSame(t *testing.T) {
	d := amqp091.Delivery{Body: []byte("1"), Headers: amqp091.Table{
		"outbox-event-id": uuid.NewString(), "x-death": []any{amqp091.Table{"count": int64(1)}}, "x-first-death-queue": "q",
	}}
	if _, err := rabbitsink.Parse(&d); err != nil {
		t.Error(err)
	}
	if _, err := rabbitsink.Parse(&amqp091.Delivery{}); !errors.Is(err, outbox.ErrInvalidMessage) {
		t.Errorf("a stranger's delivery: %v", err)
	}
}

func TestAWrongPasswordIsAnOutageAndNotShown(t *testing.T) {
	broker := testenv.RabbitMQ(t)
	sink := open(t, "amqp://guest:canary@"+broker.Addr()+"/", "events")

	for _, err := range []error{sink.Dispatch(t.Context(), message(topic)), sink.Ping(t.Context())} {
		if verdict(err) != outbox.VerdictUnavailable || strings.Contains(err.Error(), "canary") {
			t.Errorf("got %v", err)
		}
	}
}

func TestAContentTypeThatAMQPCannotHoldIsRefused(t *testing.T) {
	sink := open(t, "amqp://127.0.0.1:1/", "events") // nobody is asked
	msg := message(topic)
	msg.Meta.ContentType = strings.Repeat("a", 256)

	if err := sink.Dispatch(t.Context(), msg); !outbox.IsPermanent(err) || !errors.Is(err, outbox.ErrInvalidMessage) {
		t.Errorf("got %v", err)
	}
}

func TestAClosedSinkSendsNothing(t *testing.T) {
	broker := testenv.RabbitMQ(t)
	in := newInbox(t, broker.URL(), broker.Name("events"))
	sink := open(t, broker.URL(), in.exchange)
	must(t, sink.Dispatch(t.Context(), message(topic)))
	must(t, sink.Close())
	must(t, sink.Close())

	if err := sink.Dispatch(t.Context(), message(topic)); err == nil || outbox.IsPermanent(err) {
		t.Errorf("got %v", err)
	}
}

func TestMoreDispatchesThanChannelsWaitTheirTurn(t *testing.T) {
	broker := testenv.RabbitMQ(t)
	in := newInbox(t, broker.URL(), broker.Name("events"))
	sink := open(t, broker.URL(), in.exchange)
	msgs := messages(200, topic)

	var group sync.WaitGroup
	for i := range msgs {
		group.Go(func() {
			if err := sink.Dispatch(t.Context(), msgs[i]); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()

	in.has(t, msgs)
}

// A socket takes no more bytes once it is stuck, as that of a broker that has stopped
// reading, and nobody tells.
type socket struct {
	net.Conn
	stuck  *atomic.Bool
	closed chan struct{}
	once   sync.Once
}

func (s *socket) Write(p []byte) (int, error) {
	if s.stuck.Load() {
		<-s.closed
		return 0, net.ErrClosed
	}
	return s.Conn.Write(p)
}

func (s *socket) Close() error {
	s.once.Do(func() { close(s.closed) })
	return s.Conn.Close()
}

func TestAWriteThatHangsEndsWithItsDeadline(t *testing.T) {
	broker := testenv.RabbitMQ(t)
	in := newInbox(t, broker.URL(), broker.Name("events"))
	var stuck atomic.Bool
	sink, err := rabbitsink.New(rabbitsink.Config{
		URL: broker.URL(), Exchange: in.exchange,
		Client: amqp091.Config{Dial: func(network, address string) (net.Conn, error) {
			conn, err := net.Dial(network, address)
			return &socket{Conn: conn, stuck: &stuck, closed: make(chan struct{})}, err
		}},
	})
	must(t, err)
	defer sink.Close()
	must(t, sink.Dispatch(t.Context(), message(topic)))
	stuck.Store(true)
	start := time.Now()

	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			for _, err := range sink.DispatchBatch(ctx, messages(3, topic)) {
				if v := verdict(err); v == outbox.VerdictDelivered || v == outbox.VerdictPermanent {
					t.Errorf("got %v", err)
				}
			}
		})
	}
	group.Wait()

	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	stuck.Store(false)
	in.has(t, []outbox.DispatchedMessage{recovered(t, sink)})
	stuck.Store(true)
	start = time.Now()
	must(t, sink.Close())
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("close took %s", took)
	}
}

// One broker for both, because it takes a while to start.
func TestABrokerHasBadDays(t *testing.T) {
	broker := testenv.PrivateRabbitMQ(t)
	in := newInbox(t, broker.URL(), "events")
	sink := open(t, broker.URL(), in.exchange)
	must(t, sink.Dispatch(t.Context(), message(topic)))

	t.Run("blocked by an alarm it is unavailable, and nothing hangs", func(t *testing.T) {
		broker.Control("set_vm_memory_high_watermark", "0")
		delivered := blocked(t, sink)
		broker.Control("set_vm_memory_high_watermark", "0.6")
		delivered = append(delivered, recovered(t, sink))
		in.has(t, delivered)
	})
	t.Run("killed and started again it has what it confirmed", func(t *testing.T) {
		delivered := sendThroughCrash(t, broker, sink)
		delivered = append(delivered, recovered(t, sink))
		in.connect(t)
		in.has(t, delivered)
		t.Logf("%d messages were confirmed", len(delivered))
	})
}

// blocked checks that dispatches to a broker with an alarm end in time and are
// outages, once the broker has said so. It returns what was delivered before.
func blocked(t *testing.T, sink *rabbitsink.Sink) (delivered []outbox.DispatchedMessage) {
	t.Helper()
	large := messages(100, topic)
	for i := range large {
		large[i].Payload = []byte(strings.Repeat("1", testenv.RabbitMaxMessage/2)) // more than sockets hold
	}
	for round, msgs := range [][]outbox.DispatchedMessage{large, messages(1, topic), large} {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		start := time.Now()
		errs := sink.DispatchBatch(ctx, msgs)
		cancel()
		if took := time.Since(start); took > 8*time.Second {
			t.Errorf("it took %s", took)
		}
		for i, err := range errs {
			switch {
			case err == nil && round == 0:
				delivered = append(delivered, msgs[i])
			case verdict(err) != outbox.VerdictUnavailable:
				t.Fatalf("round %d, message %d: %v is %s", round, i, err, verdict(err))
			}
		}
	}
	return delivered
}

// recovered dispatches a message until it is delivered.
func recovered(t *testing.T, sink *rabbitsink.Sink) outbox.DispatchedMessage {
	t.Helper()
	msg := message(topic)
	deadline := time.Now().Add(30 * time.Second)
	for {
		err := sink.Dispatch(t.Context(), msg)
		if err == nil {
			return msg
		}
		if time.Now().After(deadline) || outbox.IsPermanent(err) {
			t.Fatal(err)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// sendThroughCrash kills the broker while several dispatches are under way, starts it
// again, and returns what was reported as delivered.
func sendThroughCrash(t *testing.T, broker *testenv.RabbitServer, sink *rabbitsink.Sink) (delivered []outbox.DispatchedMessage) {
	t.Helper()
	var mu sync.Mutex
	var group sync.WaitGroup
	warm := make(chan struct{}, 4)
	for range cap(warm) {
		group.Go(func() {
			for round := 0; ; round++ {
				msgs := messages(200, topic)
				failed := false
				for i, err := range sink.DispatchBatch(t.Context(), msgs) {
					if err == nil {
						mu.Lock()
						delivered = append(delivered, msgs[i])
						mu.Unlock()
						continue
					}
					failed = true
					if outbox.IsPermanent(err) {
						t.Errorf("the crash killed a message: %v", err)
					}
				}
				if round == 2 {
					warm <- struct{}{}
				}
				if failed {
					return
				}
			}
		})
	}
	for range cap(warm) {
		<-warm
	}
	broker.Kill()
	group.Wait()
	if err := sink.Dispatch(t.Context(), message(topic)); verdict(err) != outbox.VerdictUnavailable {
		t.Errorf("while it is down: %v", err)
	}
	broker.Start()
	return delivered
}

func (in *inbox) has(t *testing.T, msgs []outbox.DispatchedMessage) {
	t.Helper()
	ids := in.ids(t)
	for _, m := range msgs {
		if !ids[m.Meta.EventID] {
			t.Fatalf("%s was reported as delivered and is not there", m.Meta.EventID)
		}
	}
}

func BenchmarkDispatchBatch(b *testing.B) {
	broker := testenv.RabbitMQ(b)
	in := newInbox(b, broker.URL(), broker.Name("events"))
	sink := open(b, broker.URL(), in.exchange)
	msgs := messages(500, topic)
	for i := range msgs {
		msgs[i].Payload = []byte(`"` + strings.Repeat("x", 298) + `"`)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := errors.Join(sink.DispatchBatch(b.Context(), msgs)...); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*len(msgs))/b.Elapsed().Seconds(), "messages/s")
}

func BenchmarkRawClient(b *testing.B) {
	broker := testenv.RabbitMQ(b)
	in := newInbox(b, broker.URL(), broker.Name("events"))
	must(b, in.ch.Confirm(false))
	body := []byte(`"` + strings.Repeat("x", 298) + `"`)
	const batch = 500
	for b.Loop() {
		confirms := make([]*amqp091.DeferredConfirmation, batch)
		for i := range confirms {
			confirm, err := in.ch.PublishWithDeferredConfirm(in.exchange, topic, true, false,
				amqp091.Publishing{DeliveryMode: amqp091.Persistent, MessageId: fmt.Sprint(i), Body: body})
			must(b, err)
			confirms[i] = confirm
		}
		for _, c := range confirms {
			if !c.Wait() {
				b.Fatal("nack")
			}
		}
	}
	b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "messages/s")
}
