package metrics

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// A Snapshot is the few numbers an application asks for most.
type Snapshot struct {
	// TotalPublished and TotalFailed count, since the process started, messages
	// recorded as published and dispatches that failed.
	TotalPublished, TotalFailed int64
	// PendingCount counts what waits in the tables, at least when PendingCapped.
	PendingCount  int64
	PendingCapped bool
	// LastPublishTime is when this process last recorded a message as published; zero
	// when it has not.
	LastPublishTime time.Time
}

// Snapshot sums up the given tables, or all of them when none is given. Tables are
// looked at when the last look is older than Config.Sample. An error means that the
// depth of some watched table is not known; the other fields are right all the same.
func (m *Metrics) Snapshot(ctx context.Context, tables ...string) (Snapshot, error) {
	wanted := func(table string) bool { return len(tables) == 0 || slices.Contains(tables, table) }
	var snap Snapshot
	var last int64
	m.topics.each(func(table string, s *topicSeries) {
		if wanted(table) {
			snap.TotalPublished += int64(value(s.published))
			snap.TotalFailed += int64(value(s.failed))
			last = max(last, s.lastPublished.Load())
		}
	})
	if last > 0 {
		snap.LastPublishTime = time.Unix(0, last)
	}
	var unknown error
	for _, s := range m.sampler.refresh(ctx, m.cfg.Sample) {
		switch {
		case !wanted(s.table):
		case s.err != nil:
			unknown = errors.Join(unknown, fmt.Errorf("read the depth of %s: %w", s.table, s.err))
		case s.good.IsZero():
			unknown = errors.Join(unknown, fmt.Errorf("read the depth of %s: %w", s.table, context.Cause(ctx)))
		default:
			snap.PendingCount += int64(s.stats.Pending)
			snap.PendingCapped = snap.PendingCapped || s.stats.Capped
		}
	}
	return snap, unknown
}

func value(c prometheus.Counter) float64 {
	return read(c).GetCounter().GetValue()
}

// read returns the current state of a metric. Writing a metric of this package cannot
// fail: its labels are valid by construction.
func read(m prometheus.Metric) *dto.Metric {
	var out dto.Metric
	if err := m.Write(&out); err != nil {
		panic(err)
	}
	return &out
}
