package metrics_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/metrics"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A fakeTable answers what it is told to.
type fakeTable struct {
	name   string
	stats  outbox.Stats
	err    error
	schema error
	hang   bool
	jobs   []outbox.Job
	asked  atomic.Int64
}

func (f *fakeTable) Table() string { return f.name }

func (f *fakeTable) CheckSchema(context.Context) error { return f.schema }

func (f *fakeTable) Stats(ctx context.Context) (outbox.Stats, error) {
	f.asked.Add(1)
	if f.hang {
		<-ctx.Done()
		return outbox.Stats{}, ctx.Err()
	}
	return f.stats, f.err
}

func (f *fakeTable) Jobs(context.Context, int) ([]outbox.Job, error) { return f.jobs, nil }

func watching(t *testing.T, cfg metrics.Config, tables ...metrics.Table) *metrics.Metrics {
	t.Helper()
	m := metrics.New(cfg)
	if err := m.Watch(tables...); err != nil {
		t.Fatal(err)
	}
	return m
}

func gather(t testing.TB, c prometheus.Collector) map[string]*dto.MetricFamily {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(c)
	list, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	families := map[string]*dto.MetricFamily{}
	for _, f := range list {
		families[f.GetName()] = f
	}
	return families
}

// number returns the value of the series with the given label values, in the order of
// the label names, or -1 when there is none.
func number(families map[string]*dto.MetricFamily, name string, values ...string) float64 {
	for _, m := range families[name].GetMetric() {
		if slices.Equal(labelValues(m), values) {
			switch {
			case m.Counter != nil:
				return m.GetCounter().GetValue()
			case m.Gauge != nil:
				return m.GetGauge().GetValue()
			default:
				return float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return -1
}

func labelValues(m *dto.Metric) []string {
	var values []string
	for _, l := range m.GetLabel() {
		values = append(values, l.GetValue())
	}
	return values
}

// promtool runs Prometheus's own checker.
func promtool(t *testing.T, stdin string, args ...string) {
	t.Helper()
	if out, err := testenv.Promtool(t, stdin, args...); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

var errBoom = errors.New("boom")

func meta(table, topic string) *outbox.Meta {
	return &outbox.Meta{Table: table, Topic: topic, CreatedAt: time.Now().Add(-time.Second)}
}
