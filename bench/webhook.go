package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/sink/webhooksink"
	"github.com/go-outbox/outbox/webhook"
)

const (
	webhookWorkload = "sink_webhook"
	webhookDelay    = 20 * time.Millisecond // of the endpoint's answers
)

func webhookDestination() destination {
	return destination{
		workload: webhookWorkload,
		settings: "webhooksink, signed, HTTP/1.1 keep-alive, to an endpoint in the same process that answers after 20 ms",
		count:    func(z sizes) int { return z.webhook },
		open:     openWebhook,
	}
}

type webhookEndpoint struct {
	listener net.Listener
	server   *http.Server
	requests atomic.Int64
}

func openWebhook(context.Context) (endpoint, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &webhookEndpoint{listener: l}
	w.server = &http.Server{Handler: w}
	go func() { _ = w.server.Serve(l) }() // ends with close
	return w, nil
}

func (w *webhookEndpoint) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil || !pause(r.Context(), webhookDelay) {
		return
	}
	w.requests.Add(1)
	rw.WriteHeader(http.StatusNoContent)
}

func (w *webhookEndpoint) reset(context.Context) error {
	w.requests.Store(0)
	return nil
}

func (w *webhookEndpoint) arrived(context.Context) (int, error) { return int(w.requests.Load()), nil }

func (w *webhookEndpoint) sink(context.Context) (outbox.Dispatcher, func() error, error) {
	address := w.listener.Addr().(*net.TCPAddr).AddrPort()
	s, err := webhooksink.New(webhooksink.Config{
		URL:     "http://" + address.String() + "/",
		Secrets: []webhook.Secret{webhook.NewSecret()},
		Allow:   []netip.Prefix{netip.PrefixFrom(address.Addr(), 32)},
		Ports:   []uint16{address.Port()},
	})
	if err != nil {
		return nil, nil, err
	}
	return s, s.Close, nil
}

func (w *webhookEndpoint) close() error { return w.server.Close() }
