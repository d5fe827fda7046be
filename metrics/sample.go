package metrics

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/go-outbox/outbox"
)

// A Table is what Watch needs of a store. Every store of this module is one.
type Table interface {
	Table() string
	// Stats has a bounded cost whatever the backlog.
	Stats(ctx context.Context) (outbox.Stats, error)
}

// Watch adds tables whose depth is sampled and which the health handlers report on. It
// refuses a name that is watched already.
func (m *Metrics) Watch(tables ...Table) error {
	var errs []error
	for _, t := range tables {
		errs = append(errs, m.sampler.watch(t))
	}
	return errors.Join(errs...)
}

// sampler keeps the last look at each watched table.
type sampler struct {
	every, timeout time.Duration
	turn           chan struct{} // holds a token while somebody looks

	mu      sync.Mutex
	watched []*watched
}

// watched is a table and the last look at it, guarded by the sampler's lock.
type watched struct {
	table Table
	tried time.Time // when the last look began
	took  time.Duration
	err   error // of the last look
	stats outbox.Stats
	// running are the bulk changes under way; -1 when the table cannot tell.
	running int
	good    time.Time // when stats was read; zero before the first success
	right   bool      // the schema was checked, and nothing failed since
}

// A sample is a copy of what is known about a table.
type sample struct {
	table string
	watched
	stale bool
}

func newSampler(cfg Config) *sampler {
	return &sampler{every: cfg.Sample, timeout: cfg.Timeout, turn: make(chan struct{}, 1)}
}

func (s *sampler) watch(t Table) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(s.watched, func(w *watched) bool { return w.table.Table() == t.Table() }) {
		return outbox.ErrInvalidConfig.With("table", t.Table()+" is watched already")
	}
	s.watched = append(s.watched, &watched{table: t})
	return nil
}

// scrape is refresh for a collector, which is given no context.
func (s *sampler) scrape() []sample {
	return s.refresh(context.Background(), s.every) //nolint:forbidigo // Collect has none to pass on
}

// refresh looks at the tables whose last look is older than age, and returns what is
// known then. One caller looks at a time; the others wait and find its results.
func (s *sampler) refresh(ctx context.Context, age time.Duration) []sample {
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, errSampleTimeout)
	defer cancel()
	select {
	case s.turn <- struct{}{}:
		for _, w := range s.due(age) {
			if ctx.Err() == nil {
				s.look(ctx, w)
			}
		}
		<-s.turn
	case <-ctx.Done():
	}
	return s.samples()
}

var errSampleTimeout = errors.New("the tables took too long to answer")

// due lists the tables to look at, the one looked at longest ago first: a table that
// takes all the time there is does so once, and then it is the others' turn.
func (s *sampler) due(age time.Duration) []*watched {
	s.mu.Lock()
	defer s.mu.Unlock()
	var due []*watched
	for _, w := range s.watched {
		if time.Since(w.tried) >= age {
			due = append(due, w)
		}
	}
	slices.SortStableFunc(due, func(a, b *watched) int { return a.tried.Compare(b.tried) })
	return due
}

// look is called by one goroutine at a time.
func (s *sampler) look(ctx context.Context, w *watched) {
	start := time.Now()
	err := w.checkSchema(ctx)
	var stats outbox.Stats
	if err == nil {
		stats, err = w.table.Stats(ctx)
	}
	running := 0
	if err == nil {
		running, err = w.countJobs(ctx)
	}
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errSampleTimeout) {
		return // the caller has given up, which says nothing about the table
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.tried, w.took, w.err, w.right = start, time.Since(start), err, err == nil
	if err == nil {
		w.stats, w.running, w.good = stats, running, start
	}
}

// checkSchema asks a table that can tell, at first and after each failure: somebody may
// have mended or replaced it.
func (w *watched) checkSchema(ctx context.Context) error {
	c, ok := w.table.(interface{ CheckSchema(context.Context) error })
	if !ok || w.right {
		return nil
	}
	return c.CheckSchema(ctx)
}

// countJobs counts the bulk changes under way among the newest, or returns -1 for a table
// that has none.
func (w *watched) countJobs(ctx context.Context) (int, error) {
	t, ok := w.table.(interface {
		Jobs(ctx context.Context, limit int) ([]outbox.Job, error)
	})
	if !ok {
		return -1, nil
	}
	jobs, err := t.Jobs(ctx, outbox.MaxPage)
	n := 0
	for _, j := range jobs {
		if j.State == outbox.JobRunning {
			n++
		}
	}
	return n, err
}

func (s *sampler) samples() []sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]sample, len(s.watched))
	for i, w := range s.watched {
		list[i] = sample{table: w.table.Table(), watched: *w, stale: time.Since(w.good) > 4*s.every}
	}
	return list
}

var (
	descSampleSuccess = prometheus.NewDesc("outbox_sample_success",
		"1 when the last look at the table's depth succeeded. Depths are kept for a while, then left out.", []string{"table"}, nil)
	descSampleSeconds = prometheus.NewDesc("outbox_sample_duration_seconds",
		"Time of the last look at the table's depth.", []string{"table"}, nil)
	descJobsRunning = prometheus.NewDesc("outbox_jobs_running", "Bulk changes of the table that are under way.", []string{"table"}, nil)
)

// A gauge is one number of a sample.
type gauge struct {
	desc  *prometheus.Desc
	value func(*outbox.Stats) float64
}

func newGauge(name, help string, value func(*outbox.Stats) float64) gauge {
	return gauge{prometheus.NewDesc(name, help, []string{"table"}, nil), value}
}

var gauges = []gauge{
	newGauge("outbox_pending", "Messages neither published nor dead, in flight and retrying included.", pending),
	newGauge("outbox_locked", "Messages in flight: recorded in a relay's batch.",
		func(s *outbox.Stats) float64 { return float64(s.InFlight) }),
	newGauge("outbox_retrying", "Messages that failed and will be tried again.", retrying),
	newGauge("outbox_scheduled", "Messages that are not due yet and were never tried.",
		func(s *outbox.Stats) float64 { return float64(s.Scheduled) }),
	newGauge("outbox_dead", "Messages given up until a person replays them.", dead),
	newGauge("outbox_discarded", "Messages given up by a person.", func(s *outbox.Stats) float64 { return float64(s.Discarded) }),
	newGauge("outbox_oldest_pending_age_seconds", "Age of the oldest message that is due and not published; 0 when there is none.",
		func(s *outbox.Stats) float64 { return s.OldestPending.Seconds() }),
	newGauge("outbox_pending_capped", "1 when a count reached its cap and means at least.",
		func(s *outbox.Stats) float64 { return boolean(s.Capped) }),
	newGauge("outbox_leases", "Leases of the table: its shards.", func(s *outbox.Stats) float64 { return float64(len(s.Leases)) }),
	newGauge("outbox_leases_held", "Leases of the table that some relay holds.", leasesHeld),
	newGauge("outbox_relays", "Relay processes that reported to the table within a minute.", relays),
	newGauge("outbox_paused", "1 while the whole table is paused.", func(s *outbox.Stats) float64 { return boolean(tablePaused(s)) }),
	newGauge("outbox_paused_routes", "Routes of the table that are paused.",
		func(s *outbox.Stats) float64 { return float64(len(s.Paused)) - boolean(tablePaused(s)) }),
}

func pending(s *outbox.Stats) float64  { return float64(s.Pending) }
func retrying(s *outbox.Stats) float64 { return float64(s.Retrying) }
func dead(s *outbox.Stats) float64     { return float64(s.Dead) }

func tablePaused(s *outbox.Stats) bool {
	return slices.ContainsFunc(s.Paused, func(p outbox.PausedRoute) bool { return p.Route == "" })
}

func leasesHeld(s *outbox.Stats) float64 {
	n := 0
	for _, l := range s.Leases {
		if l.Held {
			n++
		}
	}
	return float64(n)
}

func relays(s *outbox.Stats) float64 {
	n := 0
	for _, r := range s.Relays {
		if s.Now.Sub(r.SeenAt) <= time.Minute {
			n++
		}
	}
	return float64(n)
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// collect reports a sample. A depth that is too old is left out: no number is better
// than a wrong one, and outbox_sample_success says why.
func (s sample) collect(ch chan<- prometheus.Metric) {
	if s.tried.IsZero() {
		return
	}
	ch <- prometheus.MustNewConstMetric(descSampleSuccess, prometheus.GaugeValue, boolean(s.err == nil), s.table)
	ch <- prometheus.MustNewConstMetric(descSampleSeconds, prometheus.GaugeValue, s.took.Seconds(), s.table)
	if s.stale {
		return
	}
	for _, g := range gauges {
		ch <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, g.value(&s.stats), s.table)
	}
	if s.running >= 0 {
		ch <- prometheus.MustNewConstMetric(descJobsRunning, prometheus.GaugeValue, float64(s.running), s.table)
	}
}
