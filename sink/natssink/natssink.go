// Package natssink delivers messages to NATS JetStream: one publish for each, on the
// subject that is its topic, with acknowledgements awaited a batch at a time.
//
// A message counts as delivered when a stream has acknowledged it. Nats-Msg-Id is the
// deduplication id, so a message that is sent again within the stream's duplicate
// window is stored once; that a stream had it already counts as delivered and is
// reported (see Config.Duplicate). The payload arrives byte for byte, the metadata as
// headers; [Parse] reads them back.
//
// An acknowledgement is as durable as the stream: JetStream writes to disk every two
// minutes by default, so a stream with one replica may lose what it acknowledged when
// its machine fails. Give streams three replicas, or sync_interval: always. After the
// duplicate window, a message that is sent again is stored again. Messages without a
// stream for their subject are not delivered: the sink creates no streams.
package natssink

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/wire"
)

var (
	_ outbox.Dispatcher      = (*Sink)(nil)
	_ outbox.BatchDispatcher = (*Sink)(nil)
)

// Config tunes a sink. The zero value is right for most.
type Config struct {
	// Domain is the JetStream domain of the streams. Empty means the connection's
	// own.
	Domain string
	// Timeout bounds the wait for an acknowledgement. It should be shorter than
	// the relay's DispatchTimeout, so that errors say what was slow. Defaults to
	// 15 s.
	Timeout time.Duration
	// Duplicate is told of every message that its stream had already: a retry
	// whose first acknowledgement was lost, or an id that somebody else used. It
	// runs on the goroutine of the dispatch and must not block. Optional.
	Duplicate func(meta outbox.Meta)
}

const (
	defaultTimeout = 15 * time.Second
	// lookupTimeout bounds the question why nobody acknowledged.
	lookupTimeout = 2 * time.Second
)

// A Sink publishes on one connection. Create it with New or Open; the zero value is
// not usable. It is safe for concurrent use. Close it when it is done.
type Sink struct {
	conn       *nats.Conn
	js         jetstream.JetStream
	inbox      *inbox
	owned      bool // Open made the connection
	cfg        Config
	duplicates atomic.Int64
}

// New makes a sink on a connection that stays the caller's. It does no I/O.
//
// The sink reports an outage at once when the connection knows of it, so the
// connection should ping often (nats.PingInterval, minutes by default), reconnect for
// ever (nats.MaxReconnects(-1)) and not block on a full buffer for long
// (nats.FlusherTimeout).
func New(conn *nats.Conn, cfg Config) (*Sink, error) {
	if err := cfg.validate(conn); err != nil {
		return nil, err
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	js, err := jetstream.New(conn)
	if cfg.Domain != "" {
		js, err = jetstream.NewWithDomain(conn, cfg.Domain)
	}
	if err != nil {
		return nil, outbox.ErrInvalidConfig.Wrap(err)
	}
	return &Sink{conn: conn, js: js, inbox: newInbox(conn), cfg: cfg}, nil
}

func (c *Config) validate(conn *nats.Conn) error {
	var errs []error
	if conn == nil {
		errs = append(errs, outbox.ErrInvalidConfig.With("connection", "is required"))
	}
	if c.Timeout < 0 {
		errs = append(errs, outbox.ErrInvalidConfig.With("timeout", "is negative"))
	}
	if c.Domain != "" && checkSubject(c.Domain) != nil {
		errs = append(errs, outbox.ErrInvalidConfig.With("domain", "cannot be part of a subject"))
	}
	return errors.Join(errs...)
}

// Close ends the sink, and the connection if Open made it. Dispatches under way fail,
// and so do later ones.
func (s *Sink) Close() error {
	s.inbox.close()
	if s.owned {
		s.conn.Close()
	}
	return nil
}

var errClosed = errors.New("nats: the sink is closed")

// Duplicates counts the messages that their streams had already.
func (s *Sink) Duplicates() int64 { return s.duplicates.Load() }

// Ping checks that JetStream answers and that the connection may use it. It publishes
// nothing, so it does not tell whether there is a stream for a topic.
func (s *Sink) Ping(ctx context.Context) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	if _, err := s.js.AccountInfo(ctx); err != nil {
		return fmt.Errorf("nats: account info: %w", classify(err))
	}
	return nil
}

// Dispatch publishes one message. What its errors mean is the table in errors.go.
func (s *Sink) Dispatch(ctx context.Context, msg outbox.DispatchedMessage) error {
	return s.DispatchBatch(ctx, []outbox.DispatchedMessage{msg})[0]
}

// DispatchBatch publishes all messages, in order, and then awaits what became of them.
func (s *Sink) DispatchBatch(ctx context.Context, msgs []outbox.DispatchedMessage) []error {
	errs := make([]error, len(msgs))
	if len(msgs) == 0 {
		return errs
	}
	batch, err := s.inbox.begin(len(msgs))
	if err != nil {
		return all(errs, classify(err))
	}
	defer batch.end()
	if err := s.ready(ctx); err != nil { // after begin: the batch is told what breaks from here on
		return all(errs, err)
	}
	s.exchange(ctx, batch, msgs, errs)
	s.explain(ctx, msgs, errs)
	return errs
}

func all(errs []error, err error) []error {
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// exchange publishes a batch and collects the answers.
func (s *Sink) exchange(ctx context.Context, batch *batch, msgs []outbox.DispatchedMessage, errs []error) {
	for i := range msgs {
		if errs[i] = ctx.Err(); errs[i] == nil { // a full socket may have held us up
			errs[i] = s.publish(&msgs[i], batch.reply(i))
		}
		if errs[i] != nil {
			batch.skip()
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.Timeout, fmt.Errorf("none within %s", s.cfg.Timeout))
	defer cancel()
	silence := batch.wait(ctx)
	for i := range msgs {
		if errs[i] != nil {
			continue
		}
		answer := batch.answer(i)
		if answer == nil {
			errs[i] = s.unanswered(silence)
			continue
		}
		errs[i] = s.read(answer, &msgs[i].Meta)
	}
}

// ready says whether there is somebody to publish to. Without the question, the client
// would keep messages for later, and their dispatches would end with their deadlines.
func (s *Sink) ready(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case !s.conn.IsConnected():
		err := fmt.Errorf("nats: connection is %s", strings.ToLower(s.conn.Status().String()))
		if last := s.conn.LastError(); last != nil {
			err = fmt.Errorf("%w: %w", err, last)
		}
		return outbox.Unavailable(err)
	}
	return nil
}

// publish sends a message and does not wait. The client copies it before it returns.
func (s *Sink) publish(msg *outbox.DispatchedMessage, reply string) error {
	if err := checkSubject(msg.Meta.Topic); err != nil {
		return err
	}
	headers, err := wire.Headers(&msg.Meta)
	if err != nil {
		return err
	}
	return classify(s.conn.PublishMsg(&nats.Msg{
		Subject: msg.Meta.Topic, Reply: reply, Data: msg.Payload, Header: header(headers, msg.Meta.DedupID()),
	}))
}

// header makes NATS headers with one allocation for all values.
func header(headers []wire.Header, id string) nats.Header {
	values := make([]string, len(headers)+1)
	all := make(nats.Header, len(values))
	for i, h := range headers {
		values[i] = h.Value
		all[h.Name] = values[i : i+1 : i+1]
	}
	last := len(headers)
	values[last] = id
	all[jetstream.MsgIDHeader] = values[last:]
	return all
}

// read takes the answer of a stream for what it is.
func (s *Sink) read(answer *nats.Msg, meta *outbox.Meta) error {
	duplicate, err := acknowledgement(answer)
	if err != nil {
		return classify(err)
	}
	if duplicate {
		s.duplicates.Add(1)
		if s.cfg.Duplicate != nil {
			s.cfg.Duplicate(*meta)
		}
	}
	return nil
}

// unanswered adds why a server may have kept silent: it complains about a forbidden
// publish on the connection only.
func (s *Sink) unanswered(silence error) error {
	if last := s.conn.LastError(); errors.Is(last, nats.ErrPermissionViolation) {
		return classify(fmt.Errorf("nats: %w (the connection's last error: %w)", silence, last))
	}
	return classify(fmt.Errorf("nats: %w", silence))
}

// explain finds out why nobody was there to acknowledge, once for each topic.
func (s *Sink) explain(ctx context.Context, msgs []outbox.DispatchedMessage, errs []error) {
	var reasons map[string]error
	for i, err := range errs {
		if !errors.Is(err, jetstream.ErrNoStreamResponse) {
			continue
		}
		topic := msgs[i].Meta.Topic
		reason, known := reasons[topic]
		if !known {
			reason = s.whyNobody(ctx, topic)
			if reasons == nil {
				reasons = map[string]error{}
			}
			reasons[topic] = reason
		}
		errs[i] = reason
	}
}

// whyNobody tells a stream that is missing, which is one topic's trouble, from a stream
// without a leader and a JetStream that is down, which are outages.
func (s *Sink) whyNobody(ctx context.Context, topic string) error {
	limited, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	stream, err := s.js.StreamNameBySubject(limited, topic)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("nats: %w: %w", jetstream.ErrNoStreamResponse, context.Cause(ctx)) // and no time to ask
	case err == nil:
		return outbox.Unavailable(fmt.Errorf("nats: stream %s does not answer: it has no leader", stream))
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return fmt.Errorf("nats: no stream takes subject %s: create one, or add the subject to one", topic)
	}
	return outbox.Unavailable(fmt.Errorf("nats: jetstream does not answer: %w", err))
}

// checkSubject refuses what is no plain subject, and subjects that are calls to the
// server. Its error is permanent.
func checkSubject(subject string) error {
	if err := wire.CheckTopic(subject); err != nil {
		return err
	}
	var why string
	switch {
	case strings.ContainsAny(subject, "*>"):
		why = "must not hold wildcards (* and >)"
	case strings.HasPrefix(subject, ".") || strings.HasSuffix(subject, ".") || strings.Contains(subject, ".."):
		why = "must not hold empty parts between its dots"
	case strings.HasPrefix(subject, "$") || strings.HasPrefix(subject, "_INBOX."):
		why = "must not be one of the server's own ($… and _INBOX.…)"
	default:
		return nil
	}
	return outbox.Permanent(outbox.ErrInvalidTopic.With("topic", why))
}

// A Delivery is what Parse needs of a jetstream.Msg.
type Delivery interface {
	Headers() nats.Header
	Data() []byte
}

// Parse returns the message that a sink published, on the consumer's side. The payload
// is not copied. A delivery that did not come from an outbox is an error.
func Parse(msg Delivery) (outbox.DispatchedMessage, error) {
	var headers []wire.Header
	for name, values := range msg.Headers() {
		if strings.HasPrefix(name, "Nats-") {
			continue // the server's
		}
		for _, value := range values {
			headers = append(headers, wire.Header{Name: name, Value: value})
		}
	}
	return wire.Parse(headers, msg.Data())
}
