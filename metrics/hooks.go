package metrics

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/relay"
)

const (
	success = "success"
	failure = "failure"
)

// topicSeries are the metrics of one topic of a relay. Failures take the slower way to
// their histogram, so that a topic that never fails has none.
type topicSeries struct {
	topic string // as labelled

	succeeded, failed                  prometheus.Counter
	latency, delivery                  prometheus.Observer
	published, retried, deferred, dead prometheus.Counter
	lastPublished                      atomic.Int64 // Unix nanoseconds
}

func (m *Metrics) newTopicSeries(table, topic string) *topicSeries {
	return &topicSeries{
		topic:     topic,
		succeeded: m.dispatched.WithLabelValues(table, topic, success),
		failed:    m.dispatched.WithLabelValues(table, topic, failure),
		latency:   m.latency.WithLabelValues(table, topic, success),
		delivery:  m.delivery.WithLabelValues(table, topic),
		published: m.published.WithLabelValues(table, topic),
		retried:   m.retried.WithLabelValues(table, topic),
		deferred:  m.deferred.WithLabelValues(table, topic),
		dead:      m.dead.WithLabelValues(table, topic),
	}
}

// Enqueued counts a message that passed a gate. Set it as outbox.Gate.Enqueued.
func (m *Metrics) Enqueued(_ context.Context, table, topic string) {
	m.enqueue.of(table, topic).Inc()
}

// Deduplicated counts a message that its destination had already: an earlier dispatch
// had arrived although nobody heard of it. Give it to sinks that are told, such as
// natssink.Config.Duplicate.
func (m *Metrics) Deduplicated(meta outbox.Meta) {
	m.repeated.of(meta.Table, meta.Topic).Inc()
}

// Hooks returns the hooks that feed m, for any number of relays and cleaners. Calling
// it marks the process as one that relays: from then on it exports outbox_relay_leader
// for every table it watches.
func (m *Metrics) Hooks() relay.Hooks {
	m.relaying.Store(true)
	return relay.Hooks{
		LeaseAcquired: m.onLeaseAcquired,
		LeaseLost:     m.onLeaseLost,
		Read:          m.onRead,
		Stepped:       m.onStepped,
		Dispatched:    m.onDispatched,
		Settled:       m.onSettled,
		Isolated:      m.onIsolated,
		Circuit:       m.onCircuit,
		DatabaseError: m.onDatabaseError,
		Purged:        m.onPurged,
	}
}

func (m *Metrics) onDispatched(meta *outbox.Meta, took time.Duration, err error) {
	s := m.topics.of(meta.Table, meta.Topic)
	if err != nil {
		s.failed.Inc()
		m.latency.WithLabelValues(meta.Table, s.topic, failure).Observe(took.Seconds())
		return
	}
	s.succeeded.Inc()
	s.latency.Observe(took.Seconds())
	// A replay would count the days until a person decided on it.
	if meta.Replays == 0 && !meta.CreatedAt.IsZero() {
		s.delivery.Observe(max(time.Since(meta.CreatedAt), 0).Seconds())
	}
}

func (m *Metrics) onSettled(meta *outbox.Meta, outcome outbox.Outcome) {
	s := m.topics.of(meta.Table, meta.Topic)
	switch outcome.Kind {
	case outbox.Published:
		s.published.Inc()
		s.lastPublished.Store(time.Now().UnixNano())
	case outbox.Retry:
		s.retried.Inc()
	case outbox.Dead:
		s.dead.Inc()
		m.deadReason.WithLabelValues(meta.Table, deadReason(outcome.Reason)).Inc()
	default:
		s.deferred.Inc()
	}
}

func deadReason(reason string) string {
	switch reason {
	case outbox.DeadAttempts, outbox.DeadPermanent, outbox.DeadCrash, outbox.DeadCorrupt, outbox.DeadSize, outbox.DeadNoRoute:
		return reason
	}
	return other
}

func (m *Metrics) onRead(table string, messages int, took time.Duration) {
	m.readSeconds.WithLabelValues(table).Observe(took.Seconds())
	m.readMessages.WithLabelValues(table).Observe(float64(messages))
}

func (m *Metrics) onStepped(table string, outcomes, recorded int, took time.Duration) {
	m.stepSeconds.WithLabelValues(table).Observe(took.Seconds())
	if outcomes > 0 {
		m.stepOutcomes.WithLabelValues(table).Observe(float64(outcomes))
	}
	m.batches.WithLabelValues(table).Add(float64(recorded))
}

func (m *Metrics) onIsolated(table string, messages, _ int) {
	m.isolated.WithLabelValues(table).Add(float64(messages))
}

func (m *Metrics) onDatabaseError(table, op string, _ error) {
	m.databaseError.WithLabelValues(table, op).Inc()
}

func (m *Metrics) onPurged(table string, result outbox.PurgeResult) {
	m.purged.WithLabelValues(table, "published").Add(float64(result.Published))
	m.purged.WithLabelValues(table, "dead").Add(float64(result.Dead))
}

func (m *Metrics) onLeaseAcquired(table string, lease outbox.LeaseInfo) {
	m.leaseAcquired.WithLabelValues(table).Inc()
	if takeovers := m.takeovers.WithLabelValues(table); lease.Takeover {
		takeovers.Inc()
	}
	m.leaseLost.WithLabelValues(table) // so that the first loss is an increase
	m.leases.add(table, 1)
}

func (m *Metrics) onLeaseLost(table string, _ outbox.LeaseInfo, err error) {
	if err != nil {
		m.leaseLost.WithLabelValues(table).Inc()
	}
	if m.leases.add(table, -1) > 0 {
		return
	}
	// Circuits end with the shifts they belong to.
	m.circuits.each(func(of string, c *circuit) {
		if of == table {
			c.reset()
		}
	})
}

func (m *Metrics) onCircuit(table, route string, open bool) {
	m.circuits.of(table, route).turn(open)
}

// A circuit counts the shards in which a route's circuit is open.
type circuit struct {
	mu     sync.Mutex
	shards int
	open   prometheus.Gauge
	opened prometheus.Counter
}

func (c *circuit) turn(open bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if open {
		c.shards++
		c.opened.Inc()
	} else {
		c.shards = max(c.shards-1, 0)
	}
	c.open.Set(float64(c.shards))
}

func (c *circuit) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shards = 0
	c.open.Set(0)
}
