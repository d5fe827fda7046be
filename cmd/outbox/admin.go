package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox/config"
	"github.com/go-outbox/outbox/metrics"
)

// An admin is what monitoring sees of a daemon: /metrics, /healthz and /readyz.
type admin struct {
	addr     string
	instance string // of every relay in this process
	metrics  *metrics.Metrics
	server   *http.Server
	serving  sync.WaitGroup
}

func newAdmin(cfg *config.Config, stores []store) (*admin, error) {
	host, _ := os.Hostname() // an unnamed host is no reason to fail
	a := &admin{
		addr: cfg.Admin.Addr, metrics: metrics.New(metrics.Config{}),
		instance: fmt.Sprintf("%s-%d-%s", host, os.Getpid(), uuid.NewString()[:8]),
	}
	for _, s := range stores {
		if err := a.metrics.Watch(s); err != nil {
			return nil, err
		}
	}
	handler := metrics.AdminConfig{Health: metrics.HealthConfig{Instance: a.instance, Beat: 4 * cfg.Relay.LockTTL}}
	if cfg.Metrics.Enabled {
		handler.MetricsPath = cfg.Metrics.Path
	}
	a.server = &http.Server{
		Handler: a.metrics.Admin(handler), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
	return a, nil
}

// listen opens the listener, so that an address that cannot be had ends the start and
// not the night.
func (a *admin) listen(ctx context.Context, log *slog.Logger) error {
	if a.addr == "" {
		return nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", a.addr)
	if err != nil {
		return fmt.Errorf("listen for --admin: %w", err)
	}
	log.InfoContext(ctx, "admin listener", slog.String("addr", l.Addr().String()))
	a.serving.Go(func() {
		if err := a.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.ErrorContext(ctx, "admin listener failed", slog.Any("err", err))
		}
	})
	return nil
}

func (a *admin) close() {
	_ = a.server.Close() // a scrape that is cut off is repeated
	a.serving.Wait()
}
