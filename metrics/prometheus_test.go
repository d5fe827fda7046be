package metrics_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/metrics"
	"github.com/go-outbox/outbox/relay"
	"github.com/go-outbox/outbox/store/memstore"
)

func TestARealPrometheusScrapesARunningRelay(t *testing.T) {
	m := metrics.New(metrics.Config{Sample: time.Millisecond})
	store, err := memstore.New(memstore.Config{Table: "shop_outbox", Gate: outbox.Gate{Enqueued: m.Enqueued}})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Watch(store); err != nil {
		t.Fatal(err)
	}
	p := scraping(t, m)
	r, err := relay.New(store, outbox.DispatcherFunc(func(_ context.Context, msg outbox.DispatchedMessage) error {
		if msg.Meta.Topic == "shop.order.refused.v1" {
			return outbox.Permanent(errBoom)
		}
		return nil
	}), relay.Config{Hooks: m.Hooks()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()

	for _, topic := range []string{"shop.order.placed.v1", "shop.order.placed.v1", "shop.order.refused.v1"} {
		if _, err := store.EnqueueAutocommit(t.Context(), outbox.Message{Topic: topic, Payload: []byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, expr := range []string{
		`outbox_enqueue_total{topic="shop.order.placed.v1"} == 2`,
		`outbox_published_total{job="relay",table="shop_outbox",topic="shop.order.placed.v1"} == 2`,
		`outbox_dispatch_latency_seconds_count{result="success"} == 2`,
		`outbox_dead_total{topic="shop.order.refused.v1"} == 1`,
		`outbox_dead{table="shop_outbox"} == 1`,
		`outbox_pending == 0`,
		`outbox_relay_leader == 1`,
		`outbox_jobs_running == 0`,
	} {
		p.await(t, expr)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	p.await(t, `outbox_relay_leader == 0`)
	p.await(t, `ALERTS{alertname="outbox_leader_missing",table="shop_outbox",alertstate="pending"}`)
}

func TestARealPrometheusAnswersEveryQuery(t *testing.T) {
	p := scraping(t, busy(t, metrics.Config{Aliases: true}))
	p.await(t, `outbox_pending{job="relay",table="shop_outbox"} == 7`)
	for _, q := range queries(t) {
		if strings.HasPrefix(q, "label_values(") {
			continue // Grafana's own
		}
		expr := strings.NewReplacer("$__rate_interval", "1m", "$job", ".*", "$table", ".*").Replace(q)
		if _, err := p.query(t, expr); err != nil {
			t.Errorf("%s: %v", q, err)
		}
	}
	for _, r := range rules(t) {
		if _, err := p.query(t, r.Expr); err != nil {
			t.Errorf("%s: %v", r.Alert, err)
		}
	}
}

type prometheusServer struct{ url string }

// scraping starts a Prometheus, with our rules, that scrapes m.
func scraping(t *testing.T, m *metrics.Metrics) prometheusServer {
	t.Helper()
	admin := httptest.NewServer(m.Admin(metrics.AdminConfig{}))
	t.Cleanup(admin.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return prometheusServer{testenv.Prometheus(t, admin.Listener.Addr().String(), rulesFile)}
}

// await asks until there is an answer, for at most half a minute.
func (p prometheusServer) await(t *testing.T, expr string) {
	t.Helper()
	var n int
	var err error
	for range 300 {
		if n, err = p.query(t, expr); n > 0 {
			return
		}
		<-time.After(100 * time.Millisecond)
	}
	t.Fatalf("%s: no answer (%v)", expr, err)
}

// query returns how many series answer an expression.
func (p prometheusServer) query(t *testing.T, expr string) (int, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+"/api/v1/query?query="+url.QueryEscape(expr), nil)
	if err != nil {
		return 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	var body struct {
		Status, Error string
		Data          struct{ Result []json.RawMessage }
	}
	if err := json.NewDecoder(res.Body).Decode(&body); err != nil {
		return 0, err
	}
	if body.Status != "success" {
		return 0, fmt.Errorf("%s: %s", body.Status, body.Error)
	}
	return len(body.Data.Result), nil
}
