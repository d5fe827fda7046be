// Package redissink delivers messages to Redis Streams: one XADD for each, to the
// stream that is its topic, pipelined a batch at a time.
//
// A message counts as delivered when Redis has answered with the id of its entry. The
// payload is the field "payload" byte for byte, the metadata and the message's headers
// are fields of their own; [Parse] reads them back.
//
// Redis is the weakest of the destinations. With its default settings an acknowledged
// entry is lost when the server dies within the second before it writes to disk
// (appendfsync everysec), and when a replica that did not have it yet takes over. Use
// appendfsync always, or Config.Replicas, where that matters; no setting makes Redis
// keep everything over a failover. It deduplicates nothing either: a message whose
// acknowledgement was lost is there twice, and consumers deduplicate on its event id.
//
// Streams are not trimmed unless the configuration says so: an entry that is trimmed is
// gone, read or not. Until then they grow, and Redis keeps them in memory.
package redissink

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/wire"
)

var (
	_ outbox.Dispatcher      = (*Sink)(nil)
	_ outbox.BatchDispatcher = (*Sink)(nil)
)

// Config tunes a sink. The zero value is right for most.
type Config struct {
	// MaxLen trims a stream to about this many entries with every message. What
	// is trimmed is lost to consumers that have not read it. Zero trims nothing.
	MaxLen int64
	// Replicas is how many replicas must have a message before it counts as
	// delivered (WAIT). It makes losing one in a failover unlikely, not
	// impossible. Not for clusters, where WAIT has no meaning. Zero does not wait.
	Replicas int
	// ReplicaTimeout bounds that wait. It must be shorter than the client's read
	// timeout. Defaults to 1 s.
	ReplicaTimeout time.Duration
	// MaxPayload is the largest payload in bytes. Redis closes the connection
	// on one beyond its proto-max-bulk-len, so this should not be more. Defaults to
	// the server's default, 512 MiB.
	MaxPayload int
}

const (
	payloadField = "payload"

	defaultReplicaTimeout = time.Second
	defaultMaxPayload     = 512 << 20
)

// A Sink adds to the streams of one Redis. Create it with New or Open; the zero value
// is not usable. It is safe for concurrent use. Close it when it is done.
type Sink struct {
	client redis.UniversalClient
	owned  bool // Open made the client
	cfg    Config
}

// New makes a sink on a client that stays the caller's. It does no I/O and reports every
// mistake in cfg at once.
//
// The client needs ContextTimeoutEnabled, or it does not keep deadlines. MaxRetries
// should be -1: a client that retries a pipeline adds its messages again. Set
// MaintNotificationsConfig.Mode to disabled unless the server is one that has them.
func New(client redis.UniversalClient, cfg Config) (*Sink, error) {
	if err := cfg.validate(client); err != nil {
		return nil, err
	}
	cfg.ReplicaTimeout = cfg.replicaTimeout()
	if cfg.MaxPayload == 0 {
		cfg.MaxPayload = defaultMaxPayload
	}
	return &Sink{client: client, cfg: cfg}, nil
}

func (c *Config) validate(client redis.UniversalClient) error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, outbox.ErrInvalidConfig.With(field, fmt.Sprintf(format, args...)))
	}
	if c.MaxLen < 0 {
		bad("max_len", "is negative")
	}
	if c.Replicas < 0 {
		bad("replicas", "is negative")
	}
	if c.MaxPayload < 0 {
		bad("max_payload", "is negative")
	}
	if c.ReplicaTimeout < 0 || c.ReplicaTimeout > 0 && c.ReplicaTimeout < time.Millisecond {
		bad("replica_timeout", "must be at least a millisecond: zero waits for ever")
	}
	var keepsDeadlines bool
	switch client := client.(type) {
	case nil:
		bad("client", "is required")
		return errors.Join(errs...)
	case *redis.Client:
		o := client.Options()
		keepsDeadlines = o.ContextTimeoutEnabled
		if o.ReadTimeout > 0 && c.Replicas > 0 && c.replicaTimeout() >= o.ReadTimeout {
			bad("replica_timeout", "must be shorter than the client's read timeout, %s", o.ReadTimeout)
		}
	case *redis.ClusterClient:
		keepsDeadlines = client.Options().ContextTimeoutEnabled
		if c.Replicas > 0 {
			bad("replicas", "cannot be used with a cluster")
		}
	default:
		keepsDeadlines = true // a client of the caller's own making
	}
	if !keepsDeadlines {
		bad("client", "needs ContextTimeoutEnabled to keep deadlines")
	}
	return errors.Join(errs...)
}

func (c *Config) replicaTimeout() time.Duration {
	if c.ReplicaTimeout == 0 {
		return defaultReplicaTimeout
	}
	return c.ReplicaTimeout
}

// Close closes the client if Open made it. Dispatches under way fail then, and so do
// later ones.
func (s *Sink) Close() error {
	if !s.owned {
		return nil
	}
	return s.client.Close()
}

// probe is a stream that does not exist.
const probe = "outbox-probe"

// Ping checks that Redis takes writes: it adds to a stream that does not exist and asks
// not to make it. Nothing is left behind.
func (s *Sink) Ping(ctx context.Context) error {
	err := s.client.XAdd(ctx, &redis.XAddArgs{Stream: probe, NoMkStream: true, Values: []string{"probe", "1"}}).Err()
	if err != nil && !errors.Is(err, redis.Nil) {
		return fmt.Errorf("redis: %w", classify(err))
	}
	return nil
}

// Dispatch adds one message. What its errors mean is the table in errors.go.
func (s *Sink) Dispatch(ctx context.Context, msg outbox.DispatchedMessage) error {
	return s.DispatchBatch(ctx, []outbox.DispatchedMessage{msg})[0]
}

// DispatchBatch adds all messages, in order, in one round trip.
func (s *Sink) DispatchBatch(ctx context.Context, msgs []outbox.DispatchedMessage) []error {
	errs := make([]error, len(msgs))
	if err := ctx.Err(); err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	added := make([]*redis.StringCmd, len(msgs))
	pipe := s.client.Pipeline()
	for i := range msgs {
		var args []any
		if args, errs[i] = s.xadd(&msgs[i]); errs[i] == nil {
			added[i] = redis.NewStringCmd(ctx, args...)
			_ = pipe.Process(ctx, added[i]) // it only queues
		}
	}
	if pipe.Len() == 0 {
		return errs
	}
	replicated := s.wait(ctx, pipe)
	_, broken := pipe.Exec(ctx)
	shortfall := replicated()
	for i, cmd := range added {
		switch {
		case cmd == nil: // refused
		case cmd.Val() == "":
			errs[i] = failure(cmd, broken)
		default:
			errs[i] = shortfall
		}
	}
	return errs
}

// failure is the error of a message without an id. An id counts even if its pipeline
// broke later, and nothing else does: a command has no error of its own when the client
// could not log in.
func failure(cmd *redis.StringCmd, broken error) error {
	if err := cmp.Or(cmd.Err(), broken); err != nil {
		return fmt.Errorf("redis: %w", classify(err))
	}
	return errors.New("redis: no answer")
}

// xadd is the command that adds a message.
func (s *Sink) xadd(msg *outbox.DispatchedMessage) ([]any, error) {
	headers, err := wire.Headers(&msg.Meta)
	if err != nil {
		return nil, err
	}
	if len(msg.Payload) > s.cfg.MaxPayload {
		return nil, outbox.Permanent(outbox.ErrPayloadTooLarge.With("payload",
			fmt.Sprintf("has %d bytes, at most %d are allowed", len(msg.Payload), s.cfg.MaxPayload)))
	}
	args := make([]any, 0, 8+2*len(headers))
	args = append(args, "xadd", msg.Meta.Topic)
	if s.cfg.MaxLen > 0 {
		args = append(args, "maxlen", "~", s.cfg.MaxLen)
	}
	args = append(args, "*", payloadField, []byte(msg.Payload))
	for _, h := range headers {
		if h.Name == payloadField {
			return nil, outbox.Permanent(outbox.ErrInvalidHeader.With("headers", `name "payload" is the payload's own in Redis`))
		}
		args = append(args, h.Name, h.Value)
	}
	return args, nil
}

// wait puts the wait for replicas behind the messages, on the same connection: Redis
// waits for what was written there. It returns what is wrong with all of them.
func (s *Sink) wait(ctx context.Context, pipe redis.Pipeliner) func() error {
	if s.cfg.Replicas == 0 {
		return func() error { return nil }
	}
	want := s.cfg.Replicas
	cmd := redis.NewIntCmd(ctx, "wait", want, s.cfg.ReplicaTimeout.Milliseconds())
	_ = pipe.Process(ctx, cmd) // it only queues
	return func() error {
		switch n, err := cmd.Result(); {
		case err != nil:
			return fmt.Errorf("redis: added, and waiting for replicas failed: %w", classify(err))
		case n < int64(want):
			return fmt.Errorf("redis: added, but only %d of %d replicas have it after %s", n, want, s.cfg.ReplicaTimeout)
		}
		return nil
	}
}

// Parse returns the message that a sink added, on the consumer's side. An entry that did
// not come from an outbox is an error.
func Parse(entry redis.XMessage) (outbox.DispatchedMessage, error) {
	var payload []byte
	headers := make([]wire.Header, 0, len(entry.Values))
	for name, value := range entry.Values {
		text, ok := value.(string)
		if !ok {
			return outbox.DispatchedMessage{}, outbox.ErrInvalidMessage.With(name, fmt.Sprintf("is a %T, not text", value))
		}
		if name == payloadField {
			payload = []byte(text)
			continue
		}
		headers = append(headers, wire.Header{Name: name, Value: text})
	}
	return wire.Parse(headers, payload)
}
