package metrics_test

import (
	"bytes"
	"context"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/metrics"
	"github.com/go-outbox/outbox/relay"
	"github.com/go-outbox/outbox/store/memstore"
)

func TestARelayIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New(metrics.Config{})
		store, err := memstore.New(memstore.Config{Table: "shop_outbox", Gate: outbox.Gate{Enqueued: m.Enqueued}})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Watch(store); err != nil {
			t.Fatal(err)
		}
		attempts := 0
		r, err := relay.New(store, outbox.DispatcherFunc(func(_ context.Context, msg outbox.DispatchedMessage) error {
			switch msg.Meta.Topic {
			case "shop.order.refused.v1":
				return outbox.Permanent(errBoom)
			case "shop.order.flaky.v1":
				if attempts++; attempts == 1 {
					return errBoom
				}
			}
			return nil
		}), relay.Config{Hooks: m.Hooks()})
		if err != nil {
			t.Fatal(err)
		}
		for _, topic := range []string{"shop.order.placed.v1", "shop.order.placed.v1", "shop.order.refused.v1", "shop.order.flaky.v1"} {
			tx := store.Begin()
			if _, err := store.Enqueue(t.Context(), tx, outbox.Message{Topic: topic, Payload: []byte(`{}`)}); err != nil {
				t.Fatal(err)
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
		}

		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		<-time.After(time.Minute) // of the bubble
		during := gather(t, m)
		stop()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		after := gather(t, m)

		const table = "shop_outbox"
		for _, want := range []struct {
			value  float64
			name   string
			labels []string
		}{
			{2, "outbox_enqueue_total", []string{table, "shop.order.placed.v1"}},
			{2, "outbox_dispatch_total", []string{"success", table, "shop.order.placed.v1"}},
			{0, "outbox_dispatch_total", []string{"failure", table, "shop.order.placed.v1"}},
			{1, "outbox_dispatch_total", []string{"failure", table, "shop.order.refused.v1"}},
			{1, "outbox_dispatch_total", []string{"failure", table, "shop.order.flaky.v1"}},
			{1, "outbox_dispatch_total", []string{"success", table, "shop.order.flaky.v1"}},
			{2, "outbox_dispatch_latency_seconds", []string{"success", table, "shop.order.placed.v1"}},
			{2, "outbox_delivery_latency_seconds", []string{table, "shop.order.placed.v1"}},
			{2, "outbox_published_total", []string{table, "shop.order.placed.v1"}},
			{1, "outbox_retry_total", []string{table, "shop.order.flaky.v1"}},
			{1, "outbox_dead_total", []string{table, "shop.order.refused.v1"}},
			{1, "outbox_dead_reason_total", []string{"permanent", table}},
			{1, "outbox_lease_acquired_total", []string{table}},
			{0, "outbox_lease_lost_total", []string{table}},
			{0, "outbox_pending", []string{table}},
			{1, "outbox_dead", []string{table}},
			{1, "outbox_relay_leader", []string{table}},
			{1, "outbox_leases", []string{table}},
			{1, "outbox_leases_held", []string{table}},
			{1, "outbox_relays", []string{table}},
		} {
			if got := number(during, want.name, want.labels...); got != want.value {
				t.Errorf("%s%v is %v, want %v", want.name, want.labels, got, want.value)
			}
		}
		for _, name := range []string{"outbox_read_duration_seconds", "outbox_read_messages", "outbox_step_duration_seconds", "outbox_step_outcomes", "outbox_batches_total"} {
			if number(during, name, table) < 1 {
				t.Errorf("%s counts nothing", name)
			}
		}
		if got := number(after, "outbox_relay_leader", table); got != 0 {
			t.Errorf("outbox_relay_leader is %v after the relay has stopped", got)
		}
	})
}

func TestTheDocumentedNamesHaveTheirLabels(t *testing.T) {
	described := describe(metrics.New(metrics.Config{Aliases: true}))
	for name, labels := range map[string]string{
		"outbox_enqueue_total":              "table,topic",
		"outbox_dispatch_total":             "table,topic,result",
		"outbox_dead_total":                 "table,topic",
		"outbox_dispatch_latency_seconds":   "table,topic,result",
		"outbox_pending":                    "table",
		"outbox_locked":                     "table",
		"outbox_relay_leader":               "table",
		"outbox_oldest_pending_age_seconds": "table",
		"outbox_retrying":                   "table",
		"outbox_dead":                       "table",
		// other systems' names
		"outbox_pending_count":          "table",
		"outbox_locked_count":           "table",
		"outbox_unpublished_count":      "table",
		"outbox_failed_count":           "table",
		"outbox_max_retry_count":        "table",
		"outbox_processed_count":        "table",
		"outbox_publish_success_rate":   "table",
		"outbox_pending_total":          "table",
		"outbox_retry_total":            "table,topic",
		"outbox_failed_permanent_total": "table",
		"outbox_dispatch_latency_ms":    "table,topic",
	} {
		got, ok := described[name]
		if !ok {
			t.Errorf("%s does not exist", name)
		} else if joined := strings.Join(got, ","); joined != labels {
			t.Errorf("%s has the labels %s, want %s", name, joined, labels)
		}
	}
}

func TestNoLabelIsUnbounded(t *testing.T) {
	bounded := []string{"table", "topic", "result", "reason", "route", "op", "state"}
	for name, labels := range describe(metrics.New(metrics.Config{Aliases: true})) {
		for _, l := range labels {
			if !slices.Contains(bounded, l) {
				t.Errorf("%s has the label %s", name, l)
			}
		}
	}
}

// describe returns the labels of each metric by name.
func describe(c prometheus.Collector) map[string][]string {
	ch := make(chan *prometheus.Desc, 1000)
	c.Describe(ch)
	close(ch)
	pattern := regexp.MustCompile(`fqName: "(\w+)".*variableLabels: \{([\w,]*)\}`)
	names := map[string][]string{}
	for d := range ch {
		found := pattern.FindStringSubmatch(d.String())
		names[found[1]] = strings.FieldsFunc(found[2], func(r rune) bool { return r == ',' })
	}
	return names
}

func TestAMillionTopicsAreTwoHundredAndOne(t *testing.T) {
	n := 1_000_000
	if testing.Short() {
		n = 200_000
	}
	m := metrics.New(metrics.Config{})
	hooks := m.Hooks()
	message := meta("shop_outbox", "")
	pass := func(from, to int) {
		for i := from; i < to; i++ {
			message.Topic = "shop.random" + strconv.Itoa(i) + ".happened.v1"
			m.Enqueued(t.Context(), message.Table, message.Topic)
			hooks.Dispatched(message, time.Millisecond, nil)
			hooks.Settled(message, outbox.Outcome{})
			if i%100 == 0 {
				hooks.Dispatched(message, time.Millisecond, errBoom)
				hooks.Circuit(message.Table, message.Topic, true)
				m.Deduplicated(*message)
			}
		}
	}
	pass(0, 100_000)
	before := heap()
	pass(100_000, n)
	grown := int64(heap()) - int64(before)

	if grown > 1<<20 {
		t.Errorf("memory grew by %d bytes", grown)
	}
	for name, f := range gather(t, m) {
		topics := map[string]bool{}
		for _, s := range f.GetMetric() {
			for _, l := range s.GetLabel() {
				if l.GetName() == "topic" || l.GetName() == "route" {
					topics[l.GetValue()] = true
				}
			}
		}
		if len(topics) > 0 && (len(topics) != 201 || !topics["other"]) {
			t.Errorf("%s has %d topics", name, len(topics))
		}
	}
}

func heap() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

func TestTopicsThatCannotBeLabelsAreOther(t *testing.T) {
	m := metrics.New(metrics.Config{})
	for _, topic := range []string{"other", "bad\xff", strings.Repeat("x", 256)} {
		m.Enqueued(t.Context(), "shop_outbox", topic)
	}
	if got := number(gather(t, m), "outbox_enqueue_total", "shop_outbox", "other"); got != 3 {
		t.Errorf("other is %v, want 3", got)
	}
}

func TestDeliveryLatencyIsFromCreationToAcknowledgement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New(metrics.Config{})
		hooks := m.Hooks()
		message := meta("shop_outbox", "shop.order.placed.v1") // a second old
		hooks.Dispatched(message, time.Millisecond, nil)
		hooks.Dispatched(message, time.Millisecond, errBoom)
		message.CreatedAt = time.Now().Add(time.Minute) // a clock that is ahead
		hooks.Dispatched(message, time.Millisecond, nil)
		message.CreatedAt, message.Replays = time.Now().Add(-time.Hour), 1
		hooks.Dispatched(message, time.Millisecond, nil)

		h := gather(t, m)["outbox_delivery_latency_seconds"].GetMetric()[0].GetHistogram()
		if h.GetSampleCount() != 2 || h.GetSampleSum() != 1 {
			t.Errorf("%d deliveries in %v s, want 2 in 1", h.GetSampleCount(), h.GetSampleSum())
		}
	})
}

func TestAnUnknownReasonOfDeathIsOther(t *testing.T) {
	m := metrics.New(metrics.Config{})
	m.Hooks().Settled(meta("shop_outbox", "t"), outbox.Outcome{Kind: outbox.Dead, Reason: "password=hunter2"})
	if got := number(gather(t, m), "outbox_dead_reason_total", "other", "shop_outbox"); got != 1 {
		t.Errorf("got %v", got)
	}
}

func TestOnlyARelaySaysWhoLeads(t *testing.T) {
	m := watching(t, metrics.Config{}, &fakeTable{name: "shop_outbox"})
	if got := number(gather(t, m), "outbox_relay_leader", "shop_outbox"); got != -1 {
		t.Errorf("a producer reports %v", got)
	}
	hooks := m.Hooks()
	for _, want := range []struct {
		leader, shards float64
		act            func()
	}{
		{0, 0, func() {}},
		{1, 1, func() { hooks.LeaseAcquired("shop_outbox", outbox.LeaseInfo{}) }},
		{1, 2, func() { hooks.LeaseAcquired("shop_outbox", outbox.LeaseInfo{Shard: 1}) }},
		{1, 1, func() { hooks.LeaseLost("shop_outbox", outbox.LeaseInfo{}, outbox.ErrLeaseLost) }},
		{0, 0, func() { hooks.LeaseLost("shop_outbox", outbox.LeaseInfo{Shard: 1}, nil) }},
	} {
		want.act()
		f := gather(t, m)
		if l, s := number(f, "outbox_relay_leader", "shop_outbox"), number(f, "outbox_relay_shards", "shop_outbox"); l != want.leader || s != want.shards {
			t.Errorf("leader %v with %v shards, want %v with %v", l, s, want.leader, want.shards)
		}
	}
	if got := number(gather(t, m), "outbox_lease_lost_total", "shop_outbox"); got != 1 {
		t.Errorf("%v leases lost; one that is given back is not", got)
	}
}

func TestCircuitsEndWithTheLease(t *testing.T) {
	m := metrics.New(metrics.Config{})
	hooks := m.Hooks()
	open := func() float64 { return number(gather(t, m), "outbox_circuit_open", "kafka", "shop_outbox") }

	hooks.LeaseAcquired("shop_outbox", outbox.LeaseInfo{})
	hooks.Circuit("shop_outbox", "kafka", true)
	if open() != 1 {
		t.Errorf("open circuit is %v", open())
	}
	hooks.Circuit("shop_outbox", "kafka", false)
	if open() != 0 {
		t.Errorf("closed circuit is %v", open())
	}
	hooks.Circuit("shop_outbox", "kafka", true)
	hooks.LeaseLost("shop_outbox", outbox.LeaseInfo{}, nil)
	if open() != 0 {
		t.Errorf("circuit of a lease that is gone is %v", open())
	}
	if got := number(gather(t, m), "outbox_circuit_opened_total", "kafka", "shop_outbox"); got != 2 {
		t.Errorf("opened %v times, want 2", got)
	}
}

// The relay closes the circuits of a shard that it gives up.
func TestACircuitStaysOpenInTheShardsThatAreLeft(t *testing.T) {
	m := metrics.New(metrics.Config{})
	hooks := m.Hooks()
	open := func() float64 { return number(gather(t, m), "outbox_circuit_open", "kafka", "shop_outbox") }
	for shard := range 2 {
		hooks.LeaseAcquired("shop_outbox", outbox.LeaseInfo{Shard: shard})
		hooks.Circuit("shop_outbox", "kafka", true)
	}
	for shard, want := range []float64{1, 0} {
		hooks.Circuit("shop_outbox", "kafka", false)
		hooks.LeaseLost("shop_outbox", outbox.LeaseInfo{Shard: shard}, nil)
		if open() != want {
			t.Errorf("open in %v shards, want %v", open(), want)
		}
	}
}

func TestTheRareHooksAreCounted(t *testing.T) {
	m := metrics.New(metrics.Config{})
	hooks := m.Hooks()
	hooks.Isolated("shop_outbox", 3, 1)
	hooks.DatabaseError("shop_outbox", "read", errBoom)
	hooks.Purged("shop_outbox", outbox.PurgeResult{Published: 5, Dead: 2})
	hooks.Settled(meta("shop_outbox", "t"), outbox.Outcome{Kind: outbox.Deferred})
	f := gather(t, m)
	for _, got := range []struct{ value, want float64 }{
		{number(f, "outbox_crash_isolated_total", "shop_outbox"), 3},
		{number(f, "outbox_database_errors_total", "read", "shop_outbox"), 1},
		{number(f, "outbox_purged_total", "published", "shop_outbox"), 5},
		{number(f, "outbox_purged_total", "dead", "shop_outbox"), 2},
		{number(f, "outbox_deferred_total", "shop_outbox", "t"), 1},
	} {
		if got.value != got.want {
			t.Errorf("got %v, want %v", got.value, got.want)
		}
	}
}

func TestWhatABrokerHadAlreadyIsCounted(t *testing.T) {
	m := metrics.New(metrics.Config{Topics: 1})
	for _, topic := range []string{"a", "a", "b"} {
		m.Deduplicated(*meta("shop_outbox", topic))
	}
	f := gather(t, m)
	if a, rest := number(f, "outbox_deduplicated_total", "shop_outbox", "a"), number(f, "outbox_deduplicated_total", "shop_outbox", "other"); a != 2 || rest != 1 {
		t.Errorf("%v of a and %v of others, want 2 and 1", a, rest)
	}
}

// busy returns metrics that have a value for every name.
func busy(t testing.TB, cfg metrics.Config) *metrics.Metrics {
	t.Helper()
	m := metrics.New(cfg)
	if err := m.Watch(&fakeTable{name: "shop_outbox", stats: outbox.Stats{Pending: 7, InFlight: 2, Retrying: 3, Dead: 1}, jobs: []outbox.Job{{State: outbox.JobRunning}}}); err != nil {
		t.Fatal(err)
	}
	hooks, message := m.Hooks(), meta("shop_outbox", "shop.order.placed.v1")
	m.Enqueued(t.Context(), message.Table, message.Topic)
	m.Deduplicated(*message)
	hooks.LeaseAcquired(message.Table, outbox.LeaseInfo{})
	hooks.Read(message.Table, 1, time.Millisecond)
	hooks.Stepped(message.Table, 1, 1, time.Millisecond)
	for range 3 {
		hooks.Dispatched(message, 20*time.Millisecond, nil)
	}
	hooks.Dispatched(message, time.Millisecond, errBoom)
	hooks.Settled(message, outbox.Outcome{Kind: outbox.Published})
	hooks.Settled(message, outbox.Outcome{Kind: outbox.Dead, Reason: outbox.DeadPermanent})
	hooks.Isolated(message.Table, 1, 1)
	hooks.Circuit(message.Table, "kafka", true)
	hooks.DatabaseError(message.Table, "read", errBoom)
	hooks.Purged(message.Table, outbox.PurgeResult{Published: 1})
	return m
}

func TestEveryDescribedNameIsExported(t *testing.T) {
	m := busy(t, metrics.Config{Aliases: true})
	exported := gather(t, m)
	for name := range describe(m) {
		if exported[name] == nil {
			t.Errorf("%s has no value", name)
		}
	}
}

func TestAliasesSayTheSame(t *testing.T) {
	f := gather(t, busy(t, metrics.Config{Aliases: true}))
	for name, want := range map[string]float64{
		"outbox_pending_count": 7, "outbox_unpublished_count": 7, "outbox_pending_total": 7, "outbox_locked_count": 2,
		"outbox_failed_count": 3, "outbox_max_retry_count": 1, "outbox_processed_count": 1, "outbox_failed_permanent_total": 1,
		"outbox_publish_success_rate": 0.75,
	} {
		if got := number(f, name, "shop_outbox"); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	h := f["outbox_dispatch_latency_ms"].GetMetric()[0].GetHistogram()
	if h.GetSampleCount() != 3 || h.GetSampleSum() < 59.9 || h.GetSampleSum() > 60.1 {
		t.Errorf("%d dispatches in %v ms, want 3 in 60", h.GetSampleCount(), h.GetSampleSum())
	}
	if b := bucket(h, 25); b != 3 {
		t.Errorf("%d dispatches within 25 ms, want 3", b)
	}
	if n := len(gather(t, busy(t, metrics.Config{}))["outbox_pending_count"].GetMetric()); n != 0 {
		t.Error("aliases are exported without being asked for")
	}
}

func bucket(h *dto.Histogram, bound float64) uint64 {
	for _, b := range h.GetBucket() {
		if b.GetUpperBound() == bound {
			return b.GetCumulativeCount()
		}
	}
	return 0
}

func TestNamesFollowTheConventions(t *testing.T) {
	m := busy(t, metrics.Config{})
	problems, err := testutil.CollectAndLint(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestPromtoolAcceptsTheMetrics(t *testing.T) {
	var page bytes.Buffer
	for _, f := range gather(t, busy(t, metrics.Config{})) {
		if _, err := expfmt.MetricFamilyToText(&page, f); err != nil {
			t.Fatal(err)
		}
	}
	promtool(t, page.String(), "check", "metrics")
}

func TestAMessageCostsOneAllocationAtMost(t *testing.T) {
	m := metrics.New(metrics.Config{})
	observe := observer(m)
	observe()
	if n := testing.AllocsPerRun(1000, observe); n > 1 {
		t.Errorf("%v allocations per message", n)
	}
}

// observer returns everything that hooks and metrics do for one message: enqueue,
// dispatch, and settle with the metadata that the relay makes for it.
func observer(m *metrics.Metrics) func() {
	ctx, hooks, message := context.Background(), m.Hooks(), meta("shop_outbox", "shop.order.placed.v1")
	record := &outbox.Record{Topic: message.Topic, CreatedAt: message.CreatedAt}
	return func() {
		m.Enqueued(ctx, message.Table, message.Topic)
		hooks.Dispatched(message, time.Millisecond, nil)
		settled := record.Meta(message.Table)
		hooks.Settled(&settled, outbox.Outcome{})
	}
}

func BenchmarkMessage(b *testing.B) {
	m := metrics.New(metrics.Config{})
	for i := range 200 {
		m.Hooks().Dispatched(meta("shop_outbox", strconv.Itoa(i)), 0, nil)
		m.Enqueued(b.Context(), "shop_outbox", strconv.Itoa(i))
	}
	b.Run("known topic", func(b *testing.B) {
		observe := observer(metrics.New(metrics.Config{}))
		b.ReportAllocs()
		for b.Loop() {
			observe()
		}
	})
	b.Run("other topic", func(b *testing.B) {
		observe := observer(m)
		b.ReportAllocs()
		for b.Loop() {
			observe()
		}
	})
	b.Run("parallel", func(b *testing.B) {
		shared := metrics.New(metrics.Config{})
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			observe := observer(shared)
			for pb.Next() {
				observe()
			}
		})
	})
}
