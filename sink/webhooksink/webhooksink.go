// Package webhooksink delivers messages to an HTTP endpoint: one POST for each,
// signed by the Standard Webhooks specification, for receivers that import package
// webhook or any other library for it.
//
// A message counts as delivered when the endpoint has answered 2xx, whatever its
// body says. The request body is the payload byte for byte; webhook-id is the
// deduplication id, and the rest of the metadata travels in outbox-* headers.
//
// An answer that is lost leaves nobody knowing: the message is sent again under the
// same webhook-id, signed anew, and receivers deduplicate on it. An endpoint may
// process concurrent requests in another order than they were sent; messages that
// share a key are sent one after the other.
//
// Requests go to public addresses on the usual ports only, unless the configuration
// allows others: the address is checked when a connection is made, after the name was
// resolved, so that no DNS answer leads into the private network. Redirects are not
// followed, and proxies of the environment are not used. Who may set the URL may
// still send signed requests to any public address.
package webhooksink

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/webhook"
)

var _ outbox.Dispatcher = (*Sink)(nil)

// Config describes an endpoint. URL and Secrets are required.
type Config struct {
	// URL is where messages are posted: https, without user or fragment. http is
	// only for addresses in Allow.
	URL string
	// Secrets sign every request, each of them: give the old and the new one
	// while a secret is rotated, and drop the old when the receiver has the new.
	Secrets []webhook.Secret
	// Timeout bounds a request from the dial to the answer. It should be shorter
	// than the relay's DispatchTimeout, so that errors say what was slow.
	// Defaults to 15 s.
	Timeout time.Duration
	// Allow lists networks that may be sent to although they are not public.
	Allow []netip.Prefix
	// Ports may be used besides 443 and 80.
	Ports []uint16
	// RootCAs verify the endpoint. Defaults to the system's.
	RootCAs *x509.CertPool
}

const (
	defaultTimeout = 15 * time.Second
	dialTimeout    = 10 * time.Second
	idleTimeout    = 90 * time.Second
	pingAfter      = 15 * time.Second // of silence, on HTTP/2

	maxIdle            = 256       // the relay's default concurrency: every worker may keep its connection
	maxResponse        = 64 << 10  // bytes that are read
	maxExcerpt         = 1 << 10   // bytes that are kept
	maxResponseHeaders = 256 << 10 // bytes that are read
)

// A Sink posts to one endpoint. Create it with New; the zero value is not usable. It
// is safe for concurrent use. Close it when it is done.
type Sink struct {
	url       *url.URL
	secrets   []webhook.Secret
	timeout   time.Duration
	transport *http.Transport
	pool      *pool
}

// New makes a sink. It does no I/O and reports every mistake in cfg at once.
func New(cfg Config) (*Sink, error) {
	u, err := cfg.validate()
	if err != nil {
		return nil, err
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	guard := egress{allow: slices.Clone(cfg.Allow), plain: u.Scheme == "http"}
	p := &pool{
		dialer: &net.Dialer{Timeout: min(cfg.Timeout, dialTimeout), Control: guard.control},
		open:   make(map[*conn]struct{}),
	}
	return &Sink{
		url: u, secrets: slices.Clone(cfg.Secrets), timeout: cfg.Timeout,
		pool: p, transport: newTransport(p, cfg.RootCAs),
	}, nil
}

func newTransport(p *pool, roots *x509.CertPool) *http.Transport {
	return &http.Transport{
		Proxy:                  nil, // not even the environment's: the guard would see the proxy's address
		DialContext:            p.dial,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		TLSHandshakeTimeout:    dialTimeout,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingAfter},
		DisableCompression:     true,
		MaxIdleConnsPerHost:    maxIdle,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxResponseHeaders,
	}
}

// Close closes all connections. Dispatches under way fail, and so do later ones.
func (s *Sink) Close() error {
	s.pool.close()
	s.transport.CloseIdleConnections()
	return nil
}

// Dispatch posts one message. What its errors mean is the table in errors.go.
func (s *Sink) Dispatch(ctx context.Context, msg outbox.DispatchedMessage) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	header, err := s.header(&msg, time.Now())
	if err != nil {
		return err
	}
	err = s.post(ctx, header, msg.Payload)
	if err != nil {
		return fmt.Errorf("webhook %s: %w", s.url.Host, err)
	}
	return nil
}

func (s *Sink) post(ctx context.Context, header http.Header, payload []byte) error {
	limited, cancel := context.WithTimeoutCause(ctx, s.timeout, fmt.Errorf("no answer within %s", s.timeout))
	defer cancel()
	var connected atomic.Bool
	traced := httptrace.WithClientTrace(limited, &httptrace.ClientTrace{
		// Twice when an idle connection turns out to be dead before anything was
		// sent on it.
		GetConn: func(string) { connected.Store(false) },
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	lent := &body{payload: payload}
	defer lent.release()
	request := lent.request(traced, s.url, header)

	// The transport and not a client: a client follows redirects, and its errors
	// show the whole URL, which may hold a token.
	response, err := s.transport.RoundTrip(request)
	if err != nil {
		return transportError(ctx, err, connected.Load())
	}
	defer response.Body.Close()
	// Read to its end also when it does not matter, so that the connection can be
	// used again; a longer body costs the connection.
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxResponse))
	return answerError(response, text, payload, time.Now())
}
