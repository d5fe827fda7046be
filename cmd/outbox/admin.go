package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/config"
	"github.com/go-outbox/outbox/metrics"
	"github.com/go-outbox/outbox/notify"
	"github.com/go-outbox/outbox/relay"
)

// An admin is what monitoring sees of a daemon: /metrics, /healthz and /readyz.
type admin struct {
	addr     string
	instance string // of every relay in this process
	metrics  *metrics.Metrics
	server   *http.Server
	serving  sync.WaitGroup

	notifier *notify.Notifier // nil: nobody is told of dead messages
	notified func()           // ends it, once it has told of the last
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

// notify starts to tell of dead messages, if somebody is to be told. Call notified when the
// relays have stopped.
func (a *admin) notify(ctx context.Context, cfg *config.Config, log *slog.Logger) error {
	a.notified = func() {}
	if cfg.Notify.URL == "" {
		return nil
	}
	to := config.Sink{
		URL: cfg.Notify.URL, SecretFile: cmp.Or(cfg.Notify.SecretFile, cfg.Webhook.SecretFile), Allow: cfg.Webhook.Allow,
	}
	sink, err := openOne(to, cfg, io.Discard)
	if err != nil {
		return fmt.Errorf("notify.url: %w", err)
	}
	if a.notifier, err = notify.New(notify.Config{To: sink, Log: log}); err != nil {
		return errors.Join(err, sink.close())
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { _ = a.notifier.Run(ctx) }) // it returns nil
	a.notified = func() {
		cancel()
		running.Wait()
		if err := sink.close(); err != nil {
			log.WarnContext(ctx, "close notify.url", slog.String("err", outbox.SanitizeError(err, nil, 0)))
		}
	}
	return nil
}

// hooks are those of a relay.
func (a *admin) hooks() relay.Hooks {
	if a.notifier == nil {
		return a.metrics.Hooks()
	}
	return metrics.Chain(a.metrics.Hooks(), a.notifier.Hooks())
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
