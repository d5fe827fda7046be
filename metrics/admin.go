package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// AdminConfig tunes Admin.
type AdminConfig struct {
	// Gatherer is what /metrics serves. Defaults to NewRegistry: m, the Go runtime
	// and the process.
	Gatherer prometheus.Gatherer
	// MetricsPath serves the metrics at one more path, such as /debug/prometheus.
	MetricsPath string
	Health      HealthConfig
}

// maxScrapes bounds the scrapes that run at once; further ones get 503.
const maxScrapes = 4

// Admin returns the handler of a daemon's admin listener: /metrics, /healthz and
// /readyz, for GET and HEAD only. It has no authentication and shows no secrets; bind it
// to an address that only your monitoring reaches.
func (m *Metrics) Admin(cfg AdminConfig) http.Handler {
	if cfg.Gatherer == nil {
		cfg.Gatherer = m.NewRegistry()
	}
	scrape := promhttp.HandlerFor(cfg.Gatherer, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: maxScrapes,
	})
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", scrape)
	mux.Handle("GET /healthz", Live())
	mux.Handle("GET /readyz", m.Ready(cfg.Health))
	switch cfg.MetricsPath {
	case "", "/metrics", "/healthz", "/readyz":
	default:
		mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != cfg.MetricsPath { // compared, so that no path is a pattern
				http.NotFound(w, r)
				return
			}
			scrape.ServeHTTP(w, r)
		})
	}
	return mux
}

// NewRegistry returns a registry of its own with m, the Go runtime and the process.
func (m *Metrics) NewRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(m, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}
