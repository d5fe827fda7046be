package metrics_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/metrics"
	"github.com/go-outbox/outbox/relay"
	"github.com/go-outbox/outbox/store/memstore"
)

func TestReadiness(t *testing.T) {
	now := time.Now()
	seen := func(ago time.Duration) outbox.Stats {
		return outbox.Stats{Now: now, Relays: []outbox.RelayState{{Instance: "me", SeenAt: now.Add(-ago)}}}
	}
	failing := []metrics.Check{{Name: "scheduler", Check: func(context.Context) error { return errBoom }}}
	tests := []struct {
		name   string
		table  fakeTable
		cfg    metrics.HealthConfig
		code   int
		status metrics.Status
		reason string
	}{
		{name: "healthy", code: 200, status: "ok"},
		{name: "a thousand wait", table: fakeTable{stats: outbox.Stats{Pending: 1000}}, code: 200, status: "ok"},
		{name: "more than a thousand wait", table: fakeTable{stats: outbox.Stats{Pending: 1001}}, code: 200, status: "warning", reason: "backlog"},
		{name: "more than the given number wait", table: fakeTable{stats: outbox.Stats{Pending: 6}}, cfg: metrics.HealthConfig{Backlog: 5}, code: 200, status: "warning", reason: "backlog"},
		{name: "database down", table: fakeTable{err: errBoom}, code: 503, status: "unready", reason: "unreachable"},
		{name: "database slow", table: fakeTable{hang: true}, code: 503, status: "unready", reason: "timeout"},
		{name: "schema wrong", table: fakeTable{schema: outbox.ErrSchema.With("version", "too old")}, code: 503, status: "unready", reason: "schema"},
		{name: "lease loop alive", table: fakeTable{stats: seen(10 * time.Second)}, cfg: metrics.HealthConfig{Instance: "me"}, code: 200, status: "ok"},
		{name: "lease loop silent", table: fakeTable{stats: seen(2 * time.Minute)}, cfg: metrics.HealthConfig{Instance: "me"}, code: 503, status: "unready", reason: "lease_loop"},
		{name: "lease loop never heard of", table: fakeTable{stats: seen(0)}, cfg: metrics.HealthConfig{Instance: "you"}, code: 503, status: "unready", reason: "lease_loop"},
		{name: "a check fails", cfg: metrics.HealthConfig{Checks: failing}, code: 503, status: "unready"},
	}
	for i := range tests {
		tt := &tests[i]
		t.Run(tt.name, func(t *testing.T) {
			tt.table.name = "shop_outbox"
			m := watching(t, metrics.Config{Timeout: 20 * time.Millisecond}, &tt.table)
			res := get(t, m.Ready(tt.cfg), "/readyz")
			var body metrics.Report
			if err := json.Unmarshal([]byte(res.body), &body); err != nil {
				t.Fatal(err)
			}
			if res.code != tt.code || body.Status != tt.status {
				t.Errorf("got %d %s, want %d %s", res.code, body.Status, tt.code, tt.status)
			}
			reason := ""
			if r := body.Tables[0].Reasons; len(r) > 0 {
				reason = r[0].Code
			}
			if reason != tt.reason {
				t.Errorf("because of %q, want %q", reason, tt.reason)
			}
		})
	}
}

func TestAProcessWithoutTablesIsReady(t *testing.T) {
	res := get(t, metrics.New(metrics.Config{}).Ready(metrics.HealthConfig{}), "/readyz")
	if want := `{"status":"ok","tables":[]}`; res.code != http.StatusOK || strings.TrimSpace(res.body) != want {
		t.Errorf("got %d %s, want %s", res.code, res.body, want)
	}
}

func TestProbesDoNotLoadTheDatabase(t *testing.T) {
	table := &fakeTable{name: "shop_outbox"}
	m := watching(t, metrics.Config{}, table)
	for range 100 {
		get(t, m.Ready(metrics.HealthConfig{}), "/readyz")
	}
	if n := table.asked.Load(); n > 2 { // they take less than a second, or two on a bad day
		t.Errorf("asked %d times", n)
	}
}

func TestTheAdminListenerServesMetricsAndHealth(t *testing.T) {
	admin := busy(t, metrics.Config{}).Admin(metrics.AdminConfig{MetricsPath: "/debug/prometheus"})
	for path, want := range map[string]string{
		"/metrics":          `outbox_pending{table="shop_outbox"} 7`,
		"/debug/prometheus": `outbox_pending{table="shop_outbox"} 7`,
		"/healthz":          `{"status":"ok"}`,
		"/readyz":           `"pending":7`,
	} {
		res := get(t, admin, path)
		if res.code != http.StatusOK || !strings.Contains(res.body, want) {
			t.Errorf("%s: %d %.200s, want %s", path, res.code, res.body, want)
		}
	}
	if res := get(t, admin, "/debug"); res.code != http.StatusNotFound {
		t.Errorf("/debug: %d", res.code)
	}
	post := httptest.NewRecorder()
	admin.ServeHTTP(post, httptest.NewRequest(http.MethodPost, "/metrics", nil))
	if post.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", post.Code)
	}
}

func TestNothingSecretIsServed(t *testing.T) {
	const canary = "hunter2"
	secret := errors.New("dial postgres://app:" + canary + "@db/shop: token=" + canary)
	m := watching(t, metrics.Config{Aliases: true}, &fakeTable{name: "shop_outbox", err: secret}, &fakeTable{name: "b_outbox", schema: outbox.ErrSchema.Wrap(secret)})
	hooks := m.Hooks()
	message := &outbox.Meta{
		Table: "shop_outbox", Topic: "shop.order.placed.v1", TenantID: canary, Key: canary, AggregateID: canary, EventType: canary,
		ContentType: canary, Headers: map[string]string{canary: canary}, TraceParent: canary, TraceState: canary,
	}
	hooks.Dispatched(message, 0, secret)
	hooks.Settled(message, outbox.Outcome{Kind: outbox.Dead, Reason: canary, Error: canary, Route: canary})
	hooks.DatabaseError("shop_outbox", "read", secret)
	hooks.LeaseLost("shop_outbox", outbox.LeaseInfo{}, secret)

	admin := m.Admin(metrics.AdminConfig{Health: metrics.HealthConfig{
		Instance: canary,
		Checks:   []metrics.Check{{Name: "scheduler", Check: func(context.Context) error { return secret }}},
	}})
	for _, path := range []string{"/metrics", "/healthz", "/readyz"} {
		if res := get(t, admin, path); strings.Contains(res.body, canary) {
			t.Errorf("%s serves a secret:\n%s", path, res.body)
		}
	}
}

type response struct {
	code int
	body string
}

func get(t *testing.T, h http.Handler, path string) response {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	body, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response{w.Code, string(body)}
}

func TestTheLeaseLoopOfAWorkingRelayAndOfItsSpareIsAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := memstore.New(memstore.Config{Table: "shop_outbox"})
		if err != nil {
			t.Fatal(err)
		}
		m := watching(t, metrics.Config{}, store)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		for _, name := range []string{"worker", "spare"} {
			r, err := relay.New(store, outbox.DispatcherFunc(nil), relay.Config{Instance: name})
			if err != nil {
				t.Fatal(err)
			}
			go func() { done <- r.Run(ctx) }()
			synctest.Wait()
		}
		status := func(instance string) metrics.Status {
			<-time.After(10 * time.Minute)
			return m.Report(t.Context(), metrics.HealthConfig{Instance: instance}).Status
		}

		for _, name := range []string{"worker", "spare"} {
			if got := status(name); got != metrics.StatusOK {
				t.Errorf("the %s is %s", name, got)
			}
		}
		stop()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if got := status("worker"); got != metrics.StatusUnready {
			t.Errorf("a worker that has stopped is %s", got)
		}
	})
}
