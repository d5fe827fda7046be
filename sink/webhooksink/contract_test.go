package webhooksink_test

import (
	"bytes"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/internal/wire"
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
		h := sinktest.Harness{
			Received: e.received,
			Break:    e.shut,
			Stall:    e.stall,
			Refuse:   func(msg *outbox.DispatchedMessage) { msg.Payload = []byte(`"refuse me"`) },
		}
		address := e.address
		if !testing.Short() {
			address = e.overABadNetwork(t, &h)
		}
		sink := e.sink(t, address)
		h.Sink, h.Close = sink, sink.Close
		return h
	})
}

// overABadNetwork puts a proxy in front of the endpoint, and returns its address.
func (e *endpoint) overABadNetwork(t *testing.T, h *sinktest.Harness) string {
	t.Helper()
	proxy := testenv.NewProxy(t, e.address)
	h.Break = func(t *testing.T) func() {
		heal := proxy.Fail("down") // or it would take connections for a server that is not there
		open := e.shut(t)
		return func() { open(); heal() }
	}
	h.Fault = func(_ *testing.T, fault sinktest.Fault) func() { return proxy.Fail(string(fault)) }
	return proxy.Addr()
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
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that were cut
	if e.secure {
		server.StartTLS()
	} else {
		server.Start()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.server, e.address = server, listener.Addr().String()
}

func (e *endpoint) sink(t *testing.T, at string) *webhooksink.Sink {
	t.Helper()
	address := netip.MustParseAddrPort(at)
	cfg := webhooksink.Config{
		URL: "http://" + at + "/hooks?token=canary", Secrets: []webhook.Secret{e.secret, webhook.NewSecret()},
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
	var headers []wire.Header
	for name := range r.Header {
		headers = append(headers, wire.Header{Name: strings.ToLower(name), Value: r.Header.Get(name)})
	}
	msg, err := wire.Parse(headers, payload)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.got = append(e.got, sinktest.Received{Message: msg, DedupID: r.Header.Get(webhook.HeaderID)})
	w.WriteHeader(http.StatusNoContent)
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
