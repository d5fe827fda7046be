package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/go-outbox/outbox"
)

// The names of other outbox systems for the same numbers, with dots as underscores. They
// are computed from ours at each scrape. Some break the naming conventions of
// Prometheus; outbox_retry_total is missing because it is ours as well.
var (
	depthAliases = []gauge{
		newGauge("outbox_pending_count", "Alias of outbox_pending.", pending),
		newGauge("outbox_locked_count", "Alias of outbox_locked.", func(s *outbox.Stats) float64 { return float64(s.InFlight) }),
		newGauge("outbox_unpublished_count", "Alias of outbox_pending.", pending),
		newGauge("outbox_failed_count", "Alias of outbox_retrying.", retrying),
		newGauge("outbox_max_retry_count", "Alias of outbox_dead.", dead),
		newGauge("outbox_pending_total", "Alias of outbox_pending.", pending),
	}
	aliasProcessed = prometheus.NewDesc("outbox_processed_count", "Alias of outbox_published_total, over all topics.", []string{"table"}, nil)
	aliasSuccess   = prometheus.NewDesc("outbox_publish_success_rate",
		"Share of dispatches that succeeded since the process started, 0 to 1.", []string{"table"}, nil)
	aliasPermanent = prometheus.NewDesc("outbox_failed_permanent_total", "Alias of outbox_dead_total, over all topics.", []string{"table"}, nil)
	aliasLatency   = prometheus.NewDesc("outbox_dispatch_latency_ms",
		"Alias of outbox_dispatch_latency_seconds for successes, in milliseconds.", []string{"table", "topic"}, nil)

	aliasDescs = describeAliases()
)

func describeAliases() []*prometheus.Desc {
	descs := []*prometheus.Desc{aliasProcessed, aliasSuccess, aliasPermanent, aliasLatency}
	for _, g := range depthAliases {
		descs = append(descs, g.desc)
	}
	return descs
}

type totals struct{ published, succeeded, failed, dead float64 }

func (m *Metrics) collectAliases(ch chan<- prometheus.Metric, samples []sample) {
	for _, s := range samples {
		if s.stale {
			continue
		}
		for _, g := range depthAliases {
			ch <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, g.value(&s.stats), s.table)
		}
	}
	sums := map[string]totals{}
	m.topics.each(func(table string, s *topicSeries) {
		t := sums[table]
		t.published += value(s.published)
		t.succeeded += value(s.succeeded)
		t.failed += value(s.failed)
		t.dead += value(s.dead)
		sums[table] = t
		ch <- milliseconds(table, s)
	})
	for table, t := range sums {
		ch <- prometheus.MustNewConstMetric(aliasProcessed, prometheus.CounterValue, t.published, table)
		ch <- prometheus.MustNewConstMetric(aliasPermanent, prometheus.CounterValue, t.dead, table)
		if n := t.succeeded + t.failed; n > 0 {
			ch <- prometheus.MustNewConstMetric(aliasSuccess, prometheus.GaugeValue, t.succeeded/n, table)
		}
	}
}

// milliseconds is the histogram of successful dispatches in another unit.
func milliseconds(table string, s *topicSeries) prometheus.Metric {
	h := read(s.latency.(prometheus.Metric)).GetHistogram() // observers of a HistogramVec are histograms
	buckets := make(map[float64]uint64, len(h.GetBucket()))
	for _, b := range h.GetBucket() {
		buckets[1000*b.GetUpperBound()] = b.GetCumulativeCount()
	}
	return prometheus.MustNewConstHistogram(aliasLatency, h.GetSampleCount(), 1000*h.GetSampleSum(), buckets, table, s.topic)
}
