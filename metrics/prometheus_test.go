package metrics_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-outbox/outbox/metrics"
)

func TestARealPrometheusScrapesAndAnswersEveryQuery(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server")
	}
	server := httptest.NewServer(busy(t, metrics.Config{Aliases: true}).Admin(metrics.AdminConfig{}))
	t.Cleanup(server.Close)
	p := startPrometheus(t, server.Listener.Addr().String())

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

type prometheusServer struct{ address string }

func startPrometheus(t *testing.T, target string) prometheusServer {
	t.Helper()
	path, dir := program(t, "prometheus"), t.TempDir()
	rules, err := filepath.Abs(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: 200ms, scrape_timeout: 200ms}\nrule_files: [%q]\n"+
		"scrape_configs:\n- job_name: relay\n  static_configs: [{targets: [%q]}]\n", rules, target)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	var log bytes.Buffer
	cmd := exec.CommandContext(t.Context(), path, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // after t.Context has ended, and the process with it
		_ = cmd.Wait() // killed
		if t.Failed() {
			t.Logf("prometheus:\n%s", log.String())
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return prometheusServer{address}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
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
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.address+"/api/v1/query?query="+url.QueryEscape(expr), nil)
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
