package watermillsink_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"go.uber.org/goleak"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/contrib/watermillsink"
	"github.com/go-outbox/outbox/sink/sinktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const topic = "shop.order.placed.v1"

func TestContract(t *testing.T) {
	sinktest.Run(t, func(t *testing.T) sinktest.Harness {
		c := newConsumer(t)
		return sinktest.Harness{
			Sink:     watermillsink.New(c),
			Topic:    topic,
			Received: c.received,
			Break:    c.shut,
			// Publish says what went wrong in its own words.
			Features: sinktest.Features{Guesses: true},
		}
	})
}

// A consumer is a publisher, when it is not broken, and what subscribes to it.
type consumer struct {
	*gochannel.GoChannel
	broken atomic.Bool

	mu  sync.Mutex
	got []sinktest.Received
}

func newConsumer(t *testing.T) *consumer {
	t.Helper()
	c := &consumer{GoChannel: gochannel.NewGoChannel(
		gochannel.Config{BlockPublishUntilSubscriberAck: true}, watermill.NopLogger{})}
	deliveries, err := c.Subscribe(context.Background(), topic)
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		for m := range deliveries {
			c.take(t, m)
		}
	})
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		group.Wait()
	})
	return c
}

func (c *consumer) take(t *testing.T, m *message.Message) {
	defer m.Ack()
	msg, err := watermillsink.Parse(m)
	if err != nil {
		t.Error(err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, sinktest.Received{Message: msg, DedupID: m.UUID})
}

var errDown = errors.New("down")

func (c *consumer) Publish(topic string, messages ...*message.Message) error {
	if c.broken.Load() {
		return errDown
	}
	return c.GoChannel.Publish(topic, messages...)
}

func (c *consumer) shut(*testing.T) (restore func()) {
	c.broken.Store(true)
	return func() { c.broken.Store(false) }
}

func (c *consumer) received(*testing.T) []sinktest.Received {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.got)
}

func TestAClassifierTellsAnOutageFromOtherErrors(t *testing.T) {
	c := newConsumer(t)
	c.broken.Store(true)
	sink := outbox.Classifier(watermillsink.New(c), func(err error) error {
		if errors.Is(err, errDown) {
			return outbox.Unavailable(err)
		}
		return err
	})

	err := sink.Dispatch(t.Context(), outbox.DispatchedMessage{Meta: outbox.Meta{Topic: topic, EventID: [16]byte{1}}})

	if !outbox.IsUnavailable(err) {
		t.Errorf("got %v", err)
	}
}

func TestAStrangersMessageIsNotParsed(t *testing.T) {
	_, err := watermillsink.Parse(message.NewMessage("1", nil))
	if !errors.Is(err, outbox.ErrInvalidMessage) {
		t.Errorf("got %v", err)
	}
}

func ExampleNew() {
	pubsub := gochannel.NewGoChannel(gochannel.Config{Persistent: true}, watermill.NopLogger{})
	defer pubsub.Close()
	sink := watermillsink.New(pubsub)

	err := sink.Dispatch(context.Background(), outbox.DispatchedMessage{ // a relay does this
		Meta:    outbox.Meta{Topic: "shop.order.placed.v1", EventID: [16]byte{1}},
		Payload: []byte(`{"order": 7}`),
	})
	if err != nil {
		panic(err)
	}

	deliveries, err := pubsub.Subscribe(context.Background(), "shop.order.placed.v1")
	if err != nil {
		panic(err)
	}
	m := <-deliveries
	m.Ack()
	msg, err := watermillsink.Parse(m)
	fmt.Println(msg.Meta.Topic, string(msg.Payload), err)
	// Output: shop.order.placed.v1 {"order": 7} <nil>
}
