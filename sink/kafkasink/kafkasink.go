// Package kafkasink delivers messages to Kafka topics.
//
// A message counts as delivered when all in-sync replicas of its partition have
// acknowledged it (acks=all), and only then. The producer is idempotent: however often
// the client sends a record, the partition has it once. The record's key is the
// ordering key, so the messages of a key are in one partition and in order for as long
// as the topic keeps its number of partitions; the value is the payload byte for byte,
// and the metadata travels in headers that [Parse] reads.
//
// A record in flight is never cancelled: the client could not know whether the broker
// has it, and would have to give up its sequence numbers. A dispatch that runs out of
// time leaves its record with the client and says that nobody knows; when the message
// is dispatched again, it waits for the same record. So an outage makes no duplicates
// while the process lives, with one exception: if a record is not acknowledged for a
// minute or more (three attempts) while brokers answer, the client may be stuck, and
// all that it has is sent again, in order and perhaps twice. After a restart, or when
// another relay takes over, messages may be sent twice, and a record that the old
// process still had in flight may arrive after its successors: consumers deduplicate on
// the event id.
//
// What a broker does with a record after all in-sync replicas have it is the topic's
// affair: its replication factor, min.insync.replicas and retention. Topics are not
// created.
package kafkasink

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/go-outbox/outbox"
)

var (
	_ outbox.Dispatcher      = (*Sink)(nil)
	_ outbox.BatchDispatcher = (*Sink)(nil)
)

// Config describes a sink. Its zero value is a good one.
type Config struct {
	// ProbeAfter is how long a dispatch waits for an acknowledgement before it asks
	// whether any broker is there at all, and again each time as long after that.
	// When none is, the dispatch ends at once: the destination is unavailable.
	// Defaults to 1 s.
	ProbeAfter time.Duration
}

const defaultProbeAfter = time.Second

// A Sink produces to the topics of one Kafka cluster. Create it with New or Open; the
// zero value is not usable. It is safe for concurrent use. Close it when it is done.
type Sink struct {
	client        *kgo.Client
	owned         bool          // Open made the client
	recordTimeout time.Duration // the client's, 0 for none
	probeAfter    time.Duration
	stuckAfter    time.Duration
	brokers       probe
	apart         apart

	mu      sync.Mutex // guards every parcel and flight
	overdue overdue
	starts  int // how often a client had to begin anew
}

// New makes a sink of a client, which stays the caller's and must be used for nothing
// that consumes. If it gets stuck, records of the caller's own fail with
// [kgo.ErrAborting]. New does no I/O and reports every mistake at once. [Options] are
// good ones for the client.
func New(client *kgo.Client, cfg Config) (*Sink, error) {
	if err := errors.Join(validate(client)...); err != nil {
		return nil, err
	}
	if cfg.ProbeAfter < 0 {
		return nil, outbox.ErrInvalidConfig.With("probe_after", "is negative")
	}
	if cfg.ProbeAfter == 0 {
		cfg.ProbeAfter = defaultProbeAfter
	}
	recordTimeout, _ := client.OptValue(kgo.RecordDeliveryTimeout).(time.Duration)
	return &Sink{
		client: client, recordTimeout: recordTimeout,
		probeAfter: cfg.ProbeAfter, stuckAfter: stuckAfter(client), apart: newApart(client),
	}, nil
}

// validate says what makes a client unfit: everything that could turn a lost message
// into a delivered one, or that the sink's own copies of the client must not repeat.
func validate(client *kgo.Client) (errs []error) {
	bad := func(why string) { errs = append(errs, outbox.ErrInvalidConfig.With("client", why)) }
	if client == nil {
		bad("is nil")
		return errs
	}
	is := func(option any) bool { on, _ := client.OptValue(option).(bool); return on }
	if client.OptValue(kgo.RequiredAcks) != any(kgo.AllISRAcks()) {
		bad("must require the acknowledgement of all in-sync replicas: leave RequiredAcks out")
	}
	if is(kgo.DisableIdempotentWrite) {
		bad("must be idempotent: leave DisableIdempotentWrite out")
	}
	if is(kgo.AllowIdempotentProduceCancellation) {
		bad("must not cancel records in flight: leave AllowIdempotentProduceCancellation out")
	}
	if is(kgo.ManualFlushing) {
		bad("must send by itself: leave ManualFlushing out")
	}
	if is(kgo.DefaultProduceTopicAlways) {
		bad("must leave the topic to the message: leave DefaultProduceTopicAlways out")
	}
	if id, _ := client.OptValue(kgo.TransactionalID).(string); id != "" {
		bad("must not be transactional")
	}
	group, _ := client.OptValue(kgo.ConsumerGroup).(string)
	topics, _ := client.OptValue(kgo.ConsumeTopics).(map[string]*regexp.Regexp)
	if group != "" || len(topics) > 0 {
		bad("must not consume: give the sink one of its own")
	}
	return errs
}

// Close closes what the sink made: the client too, if Open did. Dispatches under way
// fail then, and so do later ones.
func (s *Sink) Close() error {
	s.apart.close()
	if s.owned {
		s.client.Close()
	}
	return nil
}

// Ping returns nil when a broker answers. It leaves nothing behind.
func (s *Sink) Ping(ctx context.Context) error {
	if err := ping(ctx, s.client); err != nil {
		return fmt.Errorf("kafka: %w", err)
	}
	return nil
}

// Dispatch produces one message. What its errors mean is the table in errors.go.
func (s *Sink) Dispatch(ctx context.Context, msg outbox.DispatchedMessage) error {
	return s.DispatchBatch(ctx, []outbox.DispatchedMessage{msg})[0]
}

// DispatchBatch produces messages together and returns when each has its outcome, or
// the context ends.
func (s *Sink) DispatchBatch(ctx context.Context, msgs []outbox.DispatchedMessage) []error {
	errs := make([]error, len(msgs))
	if err := ctx.Err(); err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	parcels := make([]*parcel, 0, len(msgs))
	for i := range msgs {
		p, err := pack(&msgs[i])
		if errs[i] = err; err == nil {
			p.index = i
			parcels = append(parcels, p)
		}
	}
	s.deliver(ctx, parcels)
	for _, p := range parcels {
		if p.err != nil {
			errs[p.index] = fmt.Errorf("kafka topic %s: %w", p.record.Topic, s.judge(ctx, p.err))
		}
	}
	return errs
}

// deliver gives every parcel its outcome.
func (s *Sink) deliver(ctx context.Context, parcels []*parcel) {
	start := time.Now()
	s.send(ctx, s.client, parcels)

	// The client gives up a record only together with all that wait behind it. What
	// timed out sooner than it could is such a one, and goes again.
	if time.Since(start) < s.recordTimeout {
		s.send(ctx, s.client, those(parcels, isTimeout))
	}
	if refused := those(parcels, blamesOneOfMany); len(refused) > 0 {
		s.separate(ctx, refused)
	}
	s.forgetRecreated(parcels)
}

// those are the parcels with an error of a kind.
func those(parcels []*parcel, kind func(error) bool) []*parcel {
	var some []*parcel
	for _, p := range parcels {
		if p.err != nil && kind(p.err) {
			some = append(some, p)
		}
	}
	return some
}
