package metrics

import "github.com/prometheus/client_golang/prometheus"

// Bounds of the histograms, in seconds and messages.
var (
	dispatchBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	deliveryBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600}
	databaseBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}
	sizeBuckets     = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000}
)

// vectors are the metrics that events feed. Depths are sampled instead.
type vectors struct {
	enqueued   *prometheus.CounterVec
	dispatched *prometheus.CounterVec
	latency    *prometheus.HistogramVec
	delivery   *prometheus.HistogramVec
	published  *prometheus.CounterVec
	retried    *prometheus.CounterVec
	deferred   *prometheus.CounterVec
	dead       *prometheus.CounterVec
	deadReason *prometheus.CounterVec
	duplicates *prometheus.CounterVec

	readSeconds  *prometheus.HistogramVec
	readMessages *prometheus.HistogramVec
	stepSeconds  *prometheus.HistogramVec
	stepOutcomes *prometheus.HistogramVec
	batches      *prometheus.CounterVec

	leaseAcquired *prometheus.CounterVec
	leaseLost     *prometheus.CounterVec
	takeovers     *prometheus.CounterVec
	isolated      *prometheus.CounterVec
	circuitOpen   *prometheus.GaugeVec
	circuitOpened *prometheus.CounterVec
	databaseError *prometheus.CounterVec
	purged        *prometheus.CounterVec
}

func newVectors() vectors {
	return vectors{
		enqueued:   counter("outbox_enqueue_total", "Messages that passed the gate, also in transactions that were rolled back.", "table", "topic"),
		dispatched: counter("outbox_dispatch_total", "Dispatches that ended, by result: success or failure.", "table", "topic", "result"),
		latency:    histogram("outbox_dispatch_latency_seconds", "Time of one dispatch.", dispatchBuckets, "table", "topic", "result"),
		delivery: histogram("outbox_delivery_latency_seconds",
			"Time from created_at to the acknowledgement, across two clocks; replays are left out.", deliveryBuckets, "table", "topic"),
		published: counter("outbox_published_total", "Messages recorded as published.", "table", "topic"),
		retried:   counter("outbox_retry_total", "Failures after which the message will be tried again.", "table", "topic"),
		deferred:  counter("outbox_deferred_total", "Messages put back without an attempt spent.", "table", "topic"),
		dead:      counter("outbox_dead_total", "Messages given up until a person replays them.", "table", "topic"),

		duplicates: counter("outbox_deduplicated_total",
			"Messages that their destination had already, as it said itself.", "table", "topic"),
		deadReason:   counter("outbox_dead_reason_total", "Dead messages by reason.", "table", "reason"),
		readSeconds:  histogram("outbox_read_duration_seconds", "Time of one read that found messages.", databaseBuckets, "table"),
		readMessages: histogram("outbox_read_messages", "Messages that one read found.", sizeBuckets, "table"),
		stepSeconds:  histogram("outbox_step_duration_seconds", "Time of one write that settles outcomes and records batches.", databaseBuckets, "table"),
		stepOutcomes: histogram("outbox_step_outcomes", "Outcomes that one write settled.", sizeBuckets, "table"),
		batches:      counter("outbox_batches_total", "Batches recorded before their dispatch.", "table"),

		leaseAcquired: counter("outbox_lease_acquired_total", "Leases that this process took.", "table"),
		takeovers:     counter("outbox_lease_takeovers_total", "Leases that this process took from an owner that had not given them back.", "table"),
		leaseLost:     counter("outbox_lease_lost_total", "Leases that this process lost instead of giving them back.", "table"),
		isolated:      counter("outbox_crash_isolated_total", "Messages of a crashed relay that were dispatched apart from others.", "table"),
		circuitOpen: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "outbox_circuit_open", Help: "Shards of this process whose circuit for the route is open.",
		}, []string{"table", "route"}),
		circuitOpened: counter("outbox_circuit_opened_total", "Times that a route's circuit opened.", "table", "route"),
		databaseError: counter("outbox_database_errors_total", "Failed database calls of the relay and the cleaner.", "table", "op"),
		purged:        counter("outbox_purged_total", "Messages deleted after their retention, by state: published or dead.", "table", "state"),
	}
}

func (v *vectors) all() []prometheus.Collector {
	return []prometheus.Collector{
		v.enqueued, v.dispatched, v.latency, v.delivery, v.published, v.retried, v.deferred, v.dead, v.deadReason, v.duplicates,
		v.readSeconds, v.readMessages, v.stepSeconds, v.stepOutcomes, v.batches,
		v.leaseAcquired, v.takeovers, v.leaseLost, v.isolated, v.circuitOpen, v.circuitOpened, v.databaseError, v.purged,
	}
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}
