package webhooksink_test

import (
	"bytes"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/sink/sinktest"
	"github.com/go-outbox/outbox/sink/webhooksink"
	"github.com/go-outbox/outbox/webhook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContractOverHTTP(t *testing.T)  { contract(t, false) }
func TestContractOverHTTP2(t *testing.T) { contract(t, true) }

func contract(t *testing.T, secure bool) {
	sinktest.Run(t, func(t *testing.T) sinktest.Harness {
		e := newEndpoint(t, secure)
		sink := e.sink(t)
		return sinktest.Harness{
			Sink: sink, Close: sink.Close,
			Received: e.received,
			Break:    e.shut,
			Stall:    e.stall,
			Refuse:   func(msg *outbox.DispatchedMessage) { msg.Payload = []byte(`"refuse me"`) },
		}
	})
}

// An endpoint receives webhooks as an application would: it verifies them with
// package webhook and takes them apart.
type endpoint struct {
	secure bool
	secret webhook.Secret
	verify http.Handler

	mu      sync.Mutex
	server  *httptest.Server
	address string
	got     []sinktest.Received
	stalled chan struct{} // nil while it answers
}

func newEndpoint(t *testing.T, secure bool) *endpoint {
	t.Helper()
	e := &endpoint{secure: secure, secret: webhook.NewSecret(), address: "127.0.0.1:0"}
	verifier, err := webhook.NewVerifier(webhook.Config{
		Secrets: []webhook.Secret{e.secret}, MaxBody: 1 << 20,
		Rejected: func(_ *http.Request, err error) { t.Logf("rejected: %v", err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	e.verify = verifier.Handler(http.HandlerFunc(e.take))
	e.open(t)
	t.Cleanup(func() { e.server.Close() })
	return e
}

func (e *endpoint) open(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", e.address)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(e.serve))
	server.Listener.Close()
	server.Listener = listener
	server.EnableHTTP2 = e.secure
	server.Config.ErrorLog = nil
	if e.secure {
		server.StartTLS()
	} else {
		server.Start()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.server, e.address = server, listener.Addr().String()
}

func (e *endpoint) sink(t *testing.T) *webhooksink.Sink {
	t.Helper()
	address := netip.MustParseAddrPort(e.address)
	cfg := webhooksink.Config{
		URL: "http://" + e.address + "/hooks?token=canary", Secrets: []webhook.Secret{e.secret, webhook.NewSecret()},
		Allow: []netip.Prefix{netip.PrefixFrom(address.Addr(), 32)}, Ports: []uint16{address.Port()},
	}
	if e.secure {
		cfg.URL = "https" + strings.TrimPrefix(cfg.URL, "http")
		cfg.RootCAs = x509.NewCertPool()
		cfg.RootCAs.AddCert(e.server.Certificate())
	}
	sink, err := webhooksink.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return sink
}

func (e *endpoint) serve(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	stalled := e.stalled
	e.mu.Unlock()
	if stalled != nil {
		_, _ = io.Copy(io.Discard, r.Body) // or the server does not see that the client left
		select {
		case <-stalled:
		case <-r.Context().Done():
		}
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	if e.secure && r.ProtoMajor != 2 {
		w.WriteHeader(http.StatusHTTPVersionNotSupported)
		return
	}
	e.verify.ServeHTTP(w, r)
}

func (e *endpoint) take(w http.ResponseWriter, r *http.Request) {
	payload, _ := io.ReadAll(r.Body)
	if bytes.Equal(payload, []byte(`"refuse me"`)) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.got = append(e.got, sinktest.Received{
		Message: outbox.DispatchedMessage{Meta: metaOf(r.Header), Payload: payload},
		DedupID: r.Header.Get(webhook.HeaderID),
	})
	w.WriteHeader(http.StatusNoContent)
}

func metaOf(h http.Header) outbox.Meta {
	text := func(name string) string { s, _ := url.PathUnescape(h.Get(name)); return s }
	number := func(name string) int { n, _ := strconv.Atoi(h.Get(name)); return n }
	m := outbox.Meta{
		EventID: uuid.MustParse(h.Get("outbox-event-id")), Topic: h.Get("outbox-topic"),
		TenantID: text("outbox-tenant"), Key: text("outbox-key"), EventType: text("outbox-type"),
		Sequence: int64(number("outbox-sequence")), Attempts: number("outbox-attempt"), EventVersion: number("outbox-version"),
		TraceParent: h.Get("traceparent"), TraceState: h.Get("tracestate"), ContentType: h.Get("content-type"),
		Headers: map[string]string{},
	}
	for name := range h {
		m.Headers[strings.ToLower(name)] = h.Get(name)
	}
	return m
}

func (e *endpoint) received(*testing.T) []sinktest.Received {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.got)
}

// shut closes the listener and every connection; what it has received stays.
func (e *endpoint) shut(t *testing.T) (restore func()) {
	e.server.CloseClientConnections()
	e.server.Close()
	return func() { e.open(t) }
}

func (e *endpoint) stall(*testing.T) (release func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	stalled := make(chan struct{})
	e.stalled = stalled
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		close(stalled)
		e.stalled = nil
	}
}

// message is a valid message.
func message() outbox.DispatchedMessage {
	return outbox.DispatchedMessage{
		Meta: outbox.Meta{
			Topic: "shop.order.placed.v1", EventID: uuid.New(), Sequence: 7, Attempts: 1, CreatedAt: time.Now(),
		},
		Payload: []byte(`{"order": 7}`),
	}
}
