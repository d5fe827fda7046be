// Package metrics counts what producers and relays do, in Prometheus form, and answers
// the questions of a supervisor: is the process alive, can it work.
//
// Labels are bounded whatever the application does: table, at most Config.Topics topics
// (the rest is "other"), routes likewise, and fixed words. Tenants, events, keys,
// payloads and error texts are never labels, and never in the output of the health
// handlers. Watching a message costs less than a microsecond; the depth of a table is
// asked for at most once per Config.Sample, at a cost that does not grow with the
// backlog.
//
// Counters live in the process: they start at zero with it, and several processes have
// several of them. Enqueues are counted when a message passes the gate, also in
// transactions that are rolled back. Depths stop at outbox.CountCap and then mean "at
// least"; outbox_pending_capped says so.
package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config tunes New. The zero value is right for most.
type Config struct {
	// Topics bounds the topic labels of each group of metrics, over all tables;
	// topics beyond it are counted as "other". Every topic of a relay is about
	// fifty time series. Defaults to 200.
	Topics int
	// Sample is the shortest time between two looks at a table's depth. Scrapes in
	// between see the same values. Defaults to 15 s.
	Sample time.Duration
	// Timeout bounds the looks of one scrape at all tables together. Keep it below
	// the scrape timeout. Defaults to 5 s.
	Timeout time.Duration
	// Aliases also exports the names that other outbox systems use for the same
	// numbers, so that their dashboards keep working.
	Aliases bool
}

func (c Config) withDefaults() Config {
	if c.Topics <= 0 {
		c.Topics = 200
	}
	if c.Sample <= 0 {
		c.Sample = 15 * time.Second
	}
	if c.Timeout <= 0 {
		c.Timeout = 5 * time.Second
	}
	return c
}

// Metrics collects the numbers of one process. Create it with New and register it with
// a prometheus.Registerer; the zero value is not usable. All methods are safe for
// concurrent use.
//
// Table names are told apart by the table label alone: a process that works tables of
// the same name in two databases needs a Metrics for each, registered with
// prometheus.WrapRegistererWith.
type Metrics struct {
	cfg      Config
	sampler  *sampler
	relaying atomic.Bool // Hooks has been called

	enqueue  *labels[prometheus.Counter]
	repeated *labels[prometheus.Counter]
	topics   *labels[*topicSeries]
	circuits *labels[*circuit]
	leases   leases
	vectors
}

var _ prometheus.Collector = (*Metrics)(nil)

// New returns metrics that nobody feeds yet: give Enqueued to the store's gate, Hooks to
// the relay and the cleaner, and the stores to Watch.
func New(cfg Config) *Metrics {
	cfg = cfg.withDefaults()
	m := &Metrics{cfg: cfg, sampler: newSampler(cfg), vectors: newVectors()}
	m.enqueue = newLabels(cfg.Topics, func(table, topic string) prometheus.Counter {
		return m.enqueued.WithLabelValues(table, topic)
	})
	m.repeated = newLabels(cfg.Topics, func(table, topic string) prometheus.Counter {
		return m.duplicates.WithLabelValues(table, topic)
	})
	m.topics = newLabels(cfg.Topics, m.newTopicSeries)
	m.circuits = newLabels(cfg.Topics, func(table, route string) *circuit {
		return &circuit{open: m.circuitOpen.WithLabelValues(table, route), opened: m.circuitOpened.WithLabelValues(table, route)}
	})
	return m
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.all() {
		c.Describe(ch)
	}
	for _, g := range gauges {
		ch <- g.desc
	}
	for _, d := range []*prometheus.Desc{descLeader, descShards, descSampleSuccess, descSampleSeconds, descJobsRunning} {
		ch <- d
	}
	if m.cfg.Aliases {
		for _, d := range aliasDescs {
			ch <- d
		}
	}
}

// Collect implements prometheus.Collector. It looks at the depth of the watched tables
// when the last look is old enough.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	samples := m.sampler.scrape()
	for _, c := range m.all() {
		c.Collect(ch)
	}
	for _, s := range samples {
		s.collect(ch)
	}
	m.leases.collect(ch, m.relayedTables(samples))
	if m.cfg.Aliases {
		m.collectAliases(ch, samples)
	}
}

// relayedTables lists the tables that this process relays or may relay. A process that
// only enqueues says nothing about leadership.
func (m *Metrics) relayedTables(samples []sample) []string {
	if !m.relaying.Load() {
		return nil
	}
	tables := make([]string, len(samples))
	for i, s := range samples {
		tables[i] = s.table
	}
	return tables
}
