// Package rabbitsink delivers messages to RabbitMQ: one publish for each, to one
// exchange, with the topic as the routing key.
//
// A message counts as delivered when the broker has confirmed it and has not returned
// it: a confirm alone only says that the broker is done with it, also when no queue
// took it. Messages are persistent, and a durable queue has a message on disk, or on a
// quorum, before it is confirmed. message-id is the deduplication id; the payload
// arrives byte for byte and the metadata as headers, which [Parse] reads back.
//
// RabbitMQ deduplicates nothing. What was not confirmed when a connection was lost is
// sent again under the same id, and consumers deduplicate on it. Messages of one key
// arrive in order in a queue; with several consumers it is theirs to keep. The sink
// declares no exchanges, queues or bindings. A queue that is not durable, or drops
// messages by its own limits, loses them after the confirm.
package rabbitsink

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/go-outbox/outbox"
)

var (
	_ outbox.Dispatcher      = (*Sink)(nil)
	_ outbox.BatchDispatcher = (*Sink)(nil)
)

// Config describes a broker and an exchange. URL is required.
type Config struct {
	// URL is the broker and the vhost: amqp://USER:PASSWORD@HOST:PORT/VHOST, or
	// amqps. Its parameters are those of the client library: heartbeat, cacertfile,
	// certfile, keyfile, server_name_indication and auth_mechanism.
	URL string
	// Client is for what a URL cannot say: TLS, SASL, a dialer, properties. The
	// sink makes connections with it, and makes them again when they are lost;
	// Recovery must be nil.
	Client amqp091.Config
	// Exchange takes the messages. Empty is the default exchange, which takes the
	// routing key for the name of a queue.
	Exchange string
	// Timeout bounds the wait for a confirm. It should be shorter than the relay's
	// DispatchTimeout, so that errors say what was slow. Defaults to 15 s.
	Timeout time.Duration
}

const (
	defaultTimeout = 15 * time.Second
	closeTimeout   = 2 * time.Second

	maxInFlight = 1000 // messages on a channel without a confirm
	maxChannels = 64   // dispatches at once on a connection

	// blockedGrace is for the confirms that are under way when the broker blocks
	// the connection.
	blockedGrace = 500 * time.Millisecond
)

// A Sink publishes to one exchange. Create it with New or Open; the zero value is not
// usable. It is safe for concurrent use. Close it when it is done.
type Sink struct {
	cfg Config

	connecting chan struct{} // holds a token while somebody connects
	sending    chan struct{} // holds a token for each dispatch on the connection
	watchers   sync.WaitGroup

	mu     sync.Mutex
	link   *link // nil until the first dispatch
	closed bool
}

var errClosed = errors.New("the sink is closed")

// New makes a sink. It does no I/O: the first dispatch connects. It takes an address
// and not a connection, because a connection ends with the first failure, and because
// a write that hangs can only be ended on the socket.
func New(cfg Config) (*Sink, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	return &Sink{cfg: cfg, connecting: make(chan struct{}, 1), sending: make(chan struct{}, maxChannels)}, nil
}

// Close closes the connection. Dispatches under way fail, and so do later ones.
func (s *Sink) Close() error {
	s.mu.Lock()
	s.closed = true
	l := s.link
	s.mu.Unlock()
	if l != nil {
		l.close()
	}
	s.watchers.Wait()
	return nil
}

// Ping checks that the broker takes a connection, does not block it and has the
// exchange. It publishes nothing, so it does not tell whether a queue is bound.
func (s *Sink) Ping(ctx context.Context) error {
	l, err := s.connect(ctx)
	if err != nil {
		return err
	}
	if err := l.blockedError(); err != nil {
		return fmt.Errorf("rabbitmq: %w", err)
	}
	defer l.guard(ctx)()
	ch, err := l.conn.Channel()
	if err != nil {
		return fmt.Errorf("rabbitmq: open a channel: %w", brokerError(err))
	}
	if s.cfg.Exchange != "" {
		if err := ch.ExchangeDeclarePassive(s.cfg.Exchange, amqp091.ExchangeTopic, true, false, false, false, nil); err != nil {
			return fmt.Errorf("rabbitmq: exchange %s: %w", s.cfg.Exchange, brokerError(err))
		}
	}
	return ch.Close()
}

// Dispatch publishes one message. What its errors mean is the table in errors.go.
func (s *Sink) Dispatch(ctx context.Context, msg outbox.DispatchedMessage) error {
	return s.DispatchBatch(ctx, []outbox.DispatchedMessage{msg})[0]
}

// DispatchBatch publishes all messages, in order, and then awaits what became of them.
func (s *Sink) DispatchBatch(ctx context.Context, msgs []outbox.DispatchedMessage) []error {
	errs := make([]error, len(msgs))
	letters := make([]*letter, 0, len(msgs))
	for i := range msgs {
		l, err := newLetter(&msgs[i], &errs[i])
		if err != nil {
			errs[i] = err
			continue
		}
		letters = append(letters, l)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.Timeout, fmt.Errorf("no confirm within %s", s.cfg.Timeout))
	defer cancel()
	for len(letters) > 0 {
		n := min(len(letters), maxInFlight)
		s.send(ctx, letters[:n])
		letters = letters[n:]
	}
	return errs
}

// send publishes letters and fills in their results. When the broker closes the
// channel for the sake of one, nobody is told which: each is sent again by itself.
func (s *Sink) send(ctx context.Context, letters []*letter) {
	if !s.exchange(ctx, letters) || len(letters) == 1 {
		return
	}
	for i, l := range letters {
		if *l.err != nil {
			s.exchange(ctx, letters[i:i+1])
		}
	}
}

// exchange publishes letters on a channel of their own and awaits the confirms. It
// reports whether one of them may be why the others failed.
func (s *Sink) exchange(ctx context.Context, letters []*letter) (oneForAll bool) {
	select {
	case s.sending <- struct{}{}:
		defer func() { <-s.sending }()
	case <-ctx.Done():
		return fail(letters, fmt.Errorf("rabbitmq: wait for a channel: %w", unsentError(ctx, context.Cause(ctx))))
	}
	l, ch, err := s.channel(ctx)
	if err != nil {
		return fail(letters, err)
	}
	defer l.giveBack(ch)
	for _, x := range letters {
		x.confirm = nil // of an earlier channel
	}
	failed := s.publish(ctx, l, ch, letters)
	if silence := await(ctx, l, letters); failed == nil {
		failed = silence
	}
	if blocked := l.blockedError(); blocked != nil {
		failed = blocked
	}
	return ch.judge(letters, failed)
}

func fail(letters []*letter, err error) (oneForAll bool) {
	for _, x := range letters {
		*x.err = err
	}
	return false
}

// channel returns a channel that nobody else uses.
func (s *Sink) channel(ctx context.Context) (*link, *channel, error) {
	l, err := s.connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := l.blockedError(); err != nil {
		return nil, nil, fmt.Errorf("rabbitmq: %w", err)
	}
	ch, err := l.take(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("rabbitmq: open a channel: %w", unsentError(ctx, err))
	}
	return l, ch, nil
}

// publish writes letters to the socket. It stops at the first error: the connection
// or the channel is gone then.
func (s *Sink) publish(ctx context.Context, l *link, ch *channel, letters []*letter) error {
	defer l.guard(ctx)()
	alarm := l.alarm()
	for _, x := range letters {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-alarm:
			return errNoAnswer
		default:
		}
		confirm, err := ch.raw.PublishWithDeferredConfirm(s.cfg.Exchange, x.key, true, false, x.publishing)
		if err != nil {
			l.writeFailed(err)
			return err
		}
		x.confirm = confirm
		ch.unsettled = append(ch.unsettled, confirm)
	}
	return nil
}

var errNoAnswer = errors.New("no confirm before the broker blocked the connection")

// await waits until every letter is confirmed, or there is no more point in waiting.
func await(ctx context.Context, l *link, letters []*letter) error {
	alarm, enough := l.alarm(), (<-chan time.Time)(nil)
	for _, x := range letters {
		if x.confirm == nil {
			return nil // nor have those behind it been published
		}
		for waiting := true; waiting; {
			select {
			case <-x.confirm.Done():
				waiting = false
			case <-alarm:
				alarm, enough = nil, time.After(blockedGrace)
			case <-enough:
				return errNoAnswer
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return nil
}
