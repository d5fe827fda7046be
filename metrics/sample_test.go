package metrics_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/metrics"
)

func TestATableIsAskedAtMostOncePerInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := &fakeTable{name: "shop_outbox", stats: outbox.Stats{Pending: 1}}
		m := watching(t, metrics.Config{Sample: 10 * time.Second}, table)
		for range 60 { // a scrape per second for a minute
			if got := number(gather(t, m), "outbox_pending", "shop_outbox"); got != 1 {
				t.Fatalf("pending is %v", got)
			}
			<-time.After(time.Second)
		}
		if n := table.asked.Load(); n != 6 {
			t.Errorf("asked %d times, want 6", n)
		}
	})
}

func TestAHangingTableDelaysAScrapeByTheTimeoutAndTheOthersByOneScrape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hanging, healthy := &fakeTable{name: "a_outbox", hang: true}, &fakeTable{name: "b_outbox"}
		m := watching(t, metrics.Config{Timeout: 2 * time.Second}, hanging, healthy)

		start := time.Now()
		first := gather(t, m)
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("the scrape took %s", took)
		}
		if got := number(first, "outbox_sample_success", "a_outbox"); got != 0 {
			t.Errorf("success of the hanging table is %v", got)
		}
		if got := number(gather(t, m), "outbox_sample_success", "b_outbox"); got != 1 {
			t.Errorf("success of the healthy table is %v", got)
		}
	})
}

func TestConcurrentScrapesShareOneLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := &fakeTable{name: "shop_outbox", hang: true}
		m := watching(t, metrics.Config{}, table)
		done := make(chan struct{})
		for range 8 {
			go func() {
				gather(t, m)
				done <- struct{}{}
			}()
		}
		for range 8 {
			<-done
		}
		if n := table.asked.Load(); n != 1 {
			t.Errorf("asked %d times, want 1", n)
		}
	})
}

func TestAnOldDepthIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := &fakeTable{name: "shop_outbox", stats: outbox.Stats{Pending: 5}}
		m := watching(t, metrics.Config{Sample: 10 * time.Second, Aliases: true}, table)
		gather(t, m)
		table.err = errBoom

		<-time.After(20 * time.Second)
		f := gather(t, m)
		if got := number(f, "outbox_pending", "shop_outbox"); got != 5 {
			t.Errorf("one failure later pending is %v, want the last known 5", got)
		}
		if got := number(f, "outbox_sample_success", "shop_outbox"); got != 0 {
			t.Errorf("success is %v", got)
		}
		<-time.After(30 * time.Second)
		f = gather(t, m)
		for _, name := range []string{"outbox_pending", "outbox_pending_count", "outbox_oldest_pending_age_seconds"} {
			if got := number(f, name, "shop_outbox"); got != -1 {
				t.Errorf("%s is %v long after the last success", name, got)
			}
		}
	})
}

func TestACappedCountSaysSo(t *testing.T) {
	m := watching(t, metrics.Config{}, &fakeTable{
		name:  "shop_outbox",
		stats: outbox.Stats{Pending: outbox.CountCap, Capped: true, OldestPending: time.Hour},
	})
	f := gather(t, m)
	if number(f, "outbox_pending", "shop_outbox") != outbox.CountCap || number(f, "outbox_pending_capped", "shop_outbox") != 1 ||
		number(f, "outbox_oldest_pending_age_seconds", "shop_outbox") != 3600 {
		t.Errorf("got %v", f)
	}
}

func TestWhatIsPausedAndUnderWayIsShown(t *testing.T) {
	table := &fakeTable{
		name:  "shop_outbox",
		stats: outbox.Stats{Paused: []outbox.PausedRoute{{Route: "kafka"}, {Route: ""}, {Route: "crm"}}},
		jobs:  []outbox.Job{{State: outbox.JobRunning}, {State: outbox.JobPaused}, {State: outbox.JobDone}},
	}
	for _, want := range []struct{ table, routes, jobs float64 }{{1, 2, 1}, {0, 0, 0}} {
		f := gather(t, watching(t, metrics.Config{}, table))
		for name, value := range map[string]float64{
			"outbox_paused": want.table, "outbox_paused_routes": want.routes, "outbox_jobs_running": want.jobs,
		} {
			if got := number(f, name, "shop_outbox"); got != value {
				t.Errorf("%s is %v, want %v", name, got, value)
			}
		}
		table.stats.Paused, table.jobs = nil, nil
	}
}

func TestATableIsWatchedOnce(t *testing.T) {
	m := watching(t, metrics.Config{}, &fakeTable{name: "shop_outbox"})
	if err := m.Watch(&fakeTable{name: "shop_outbox"}); !errors.Is(err, outbox.ErrInvalidConfig) {
		t.Errorf("got %v", err)
	}
}

func TestASnapshotSumsUpTables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := watching(t, metrics.Config{},
			&fakeTable{name: "org_outbox", stats: outbox.Stats{Pending: 3}},
			&fakeTable{name: "hrm_outbox", stats: outbox.Stats{Pending: 4, Capped: true}})
		hooks := m.Hooks()
		hooks.Dispatched(meta("org_outbox", "a"), 0, nil)
		hooks.Dispatched(meta("hrm_outbox", "b"), 0, errBoom)
		hooks.Settled(meta("org_outbox", "a"), outbox.Outcome{})
		hooks.Settled(meta("hrm_outbox", "b"), outbox.Outcome{Kind: outbox.Retry})
		published := time.Now()

		all, err := m.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := metrics.Snapshot{TotalPublished: 1, TotalFailed: 1, PendingCount: 7, PendingCapped: true, LastPublishTime: published.Local()}
		if !all.LastPublishTime.Equal(published) {
			t.Errorf("last published at %s, want %s", all.LastPublishTime, published)
		}
		all.LastPublishTime = want.LastPublishTime
		if all != want {
			t.Errorf("all: %+v, want %+v", all, want)
		}
		one, err := m.Snapshot(t.Context(), "hrm_outbox")
		if want := (metrics.Snapshot{TotalFailed: 1, PendingCount: 4, PendingCapped: true}); err != nil || one != want {
			t.Errorf("one: %+v (%v), want %+v", one, err, want)
		}
	})
}

func TestASnapshotSaysWhenADepthIsUnknown(t *testing.T) {
	m := watching(t, metrics.Config{}, &fakeTable{name: "shop_outbox", err: errBoom})
	if _, err := m.Snapshot(t.Context()); !errors.Is(err, errBoom) {
		t.Errorf("got %v", err)
	}
}

func TestACallerWhoGivesUpSaysNothingAboutTheTable(t *testing.T) {
	m := watching(t, metrics.Config{}, &fakeTable{name: "shop_outbox", hang: true})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Snapshot(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	report := m.Report(ctx, metrics.HealthConfig{})
	if code := report.Tables[0].Reasons[0].Code; code != "not_seen" {
		t.Errorf("the table is %s", code)
	}
}
