package webhooksink_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/sink/webhooksink"
	"github.com/go-outbox/outbox/webhook"
)

// newSink makes a sink for a plain handler on loopback.
func newSink(t testing.TB, handler http.HandlerFunc, edit ...func(*webhooksink.Config)) *webhooksink.Sink {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	address := netip.MustParseAddrPort(server.Listener.Addr().String())
	cfg := webhooksink.Config{
		URL: server.URL + "/hooks?token=canary", Secrets: []webhook.Secret{webhook.NewSecret()},
		Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Ports: []uint16{address.Port()},
	}
	for _, e := range edit {
		e(&cfg)
	}
	sink, err := webhooksink.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sink.Close() })
	return sink
}

func TestReceiversWithTheOfficialLibraryAcceptEitherSecret(t *testing.T) {
	secrets := []webhook.Secret{webhook.NewSecret(), webhook.NewSecret()}
	sink := newSink(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for i, s := range secrets {
			official, err := standardwebhooks.NewWebhook(s.Reveal())
			if err != nil {
				t.Error(err)
			} else if err := official.Verify(body, r.Header); err != nil {
				t.Errorf("secret %d: %v", i+1, err)
			}
		}
	}, func(cfg *webhooksink.Config) { cfg.Secrets = secrets })

	if err := sink.Dispatch(t.Context(), message()); err != nil {
		t.Error(err)
	}
}

func TestTheRequestSaysWhatItCarries(t *testing.T) {
	var got *http.Request
	sink := newSink(t, func(_ http.ResponseWriter, r *http.Request) { got = r })
	msg := message()
	msg.Meta.Key, msg.Meta.TenantID, msg.Meta.Replays = "order 7", "münchen", 2
	msg.Meta.Headers = map[string]string{"x-a": "b", "ce-id": "1"}

	if err := sink.Dispatch(t.Context(), msg); err != nil {
		t.Fatal(err)
	}

	if got.Method != http.MethodPost || got.URL.Path != "/hooks" || got.ContentLength != int64(len(msg.Payload)) {
		t.Errorf("%s %s, %d bytes", got.Method, got.URL.Path, got.ContentLength)
	}
	id := msg.Meta.EventID.String()
	for name, want := range map[string]string{
		"webhook-id": id + "-r2", "outbox-event-id": id,
		"content-type": "application/json", "accept-encoding": "identity", "user-agent": "outbox",
		"outbox-topic": "shop.order.placed.v1", "outbox-sequence": "7", "outbox-attempt": "1",
		"outbox-key": "order%207", "outbox-tenant": "m%C3%BCnchen", "x-a": "b", "ce-id": "1",
	} {
		if v := got.Header.Get(name); v != want {
			t.Errorf("%s is %q, want %q", name, v, want)
		}
	}
	for _, absent := range []string{"outbox-type", "outbox-version", "traceparent", "tracestate", "transfer-encoding"} {
		if v := got.Header.Values(absent); len(v) > 0 {
			t.Errorf("%s is %q", absent, v)
		}
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	var followed atomic.Bool
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Store(true) }))
	defer elsewhere.Close()
	sink := newSink(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	})

	err := sink.Dispatch(t.Context(), message())

	if err == nil || !strings.Contains(err.Error(), "redirect refused") || outbox.IsPermanent(err) || followed.Load() {
		t.Errorf("got %v, followed: %v", err, followed.Load())
	}
}

func TestAnEndlessAnswerIsCutOff(t *testing.T) {
	for _, tt := range []struct {
		status int
		want   outbox.Verdict
	}{{200, outbox.VerdictDelivered}, {400, outbox.VerdictPermanent}, {500, outbox.VerdictRetry}} {
		t.Run(http.StatusText(tt.status), func(t *testing.T) {
			sink := newSink(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				for chunk := []byte(strings.Repeat("x", 4096)); ; {
					if _, err := w.Write(chunk); err != nil {
						return
					}
				}
			})

			err := sink.Dispatch(t.Context(), message())

			if got, _ := outbox.Classify(err); got != tt.want {
				t.Errorf("verdict %s of %v, want %s", got, err, tt.want)
			}
			if err != nil && len(err.Error()) > 1200 {
				t.Errorf("the error keeps %d bytes", len(err.Error()))
			}
		})
	}
}

func TestAnswersThatTrickleInEndWithTheTimeout(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	short := func(cfg *webhooksink.Config) { cfg.Timeout = 200 * time.Millisecond }
	t.Run("no status", func(t *testing.T) {
		sink := newSink(t, func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-stop:
			}
		}, short)
		msg := message()
		msg.Payload = nil // so that the server sees the client leave

		err := sink.Dispatch(t.Context(), msg)

		if err == nil || !strings.Contains(err.Error(), "no answer within 200ms") || outbox.IsPermanent(err) || outbox.IsUnavailable(err) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("no end of the body", func(t *testing.T) {
		sink := newSink(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
			case <-stop:
			}
		}, short)
		msg := message()
		msg.Payload = nil

		if err := sink.Dispatch(t.Context(), msg); err != nil {
			t.Errorf("the status was the acknowledgement: %v", err)
		}
	})
}

func TestErrorsNameTheHostAndNotTheURL(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"refused": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) },
		"cut off": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		err := newSink(t, handler).Dispatch(t.Context(), message())
		if err == nil || strings.Contains(err.Error(), "canary") || !strings.HasPrefix(err.Error(), "webhook 127.0.0.1:") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestACertificateOfNobodyKnownIsAnOutage(t *testing.T) {
	e := newEndpoint(t, true)
	address := netip.MustParseAddrPort(e.address)
	sink, err := webhooksink.New(webhooksink.Config{
		URL: "https://" + e.address, Secrets: []webhook.Secret{e.secret},
		Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, Ports: []uint16{address.Port()},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()

	if err := sink.Dispatch(t.Context(), message()); !outbox.IsUnavailable(err) {
		t.Errorf("got %v", err)
	}
}

func TestAMessageWithoutAnEventIDIsRefused(t *testing.T) {
	sink := newSink(t, func(http.ResponseWriter, *http.Request) { t.Error("it was sent") })
	msg := message()
	msg.Meta.EventID = [16]byte{}

	if err := sink.Dispatch(t.Context(), msg); !outbox.IsPermanent(err) || !errors.Is(err, outbox.ErrInvalidMessage) {
		t.Errorf("got %v", err)
	}
}

func TestMoreHeadersThanEnqueueAllowsAreRefused(t *testing.T) {
	sink := newSink(t, func(http.ResponseWriter, *http.Request) { t.Error("it was sent") })
	msg := message()
	msg.Meta.Headers = map[string]string{"x-a": strings.Repeat("a", 5<<10), "x-b": strings.Repeat("b", 5<<10)}

	if err := sink.Dispatch(t.Context(), msg); !outbox.IsPermanent(err) || !errors.Is(err, outbox.ErrInvalidHeader) {
		t.Errorf("got %v", err)
	}
}

func TestAnAnswerBeforeTheBodyWasReadLeavesThePayloadAlone(t *testing.T) {
	sink := newSink(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusRequestEntityTooLarge) })
	for range 20 {
		msg := message()
		msg.Payload = []byte(strings.Repeat("x", 8<<20))
		_ = sink.Dispatch(t.Context(), msg)
		clear(msg.Payload) // the race detector knows whether somebody still reads it
	}
}

func TestAClosedSinkSendsNothing(t *testing.T) {
	sink := newSink(t, func(http.ResponseWriter, *http.Request) {})
	if err := sink.Dispatch(t.Context(), message()); err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}

	if err := sink.Dispatch(t.Context(), message()); err == nil {
		t.Error("no error")
	}
}

// An endpoint that takes 20 ms, with as many requests at once as a relay makes.
func BenchmarkDispatchToASlowEndpoint(b *testing.B) {
	sink := newSink(b, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-time.After(20 * time.Millisecond)
		w.WriteHeader(http.StatusNoContent)
	})
	b.SetParallelism(256 / runtime.GOMAXPROCS(0))
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if err := sink.Dispatch(b.Context(), message()); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}

func BenchmarkDispatch(b *testing.B) {
	sink := newSink(b, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNoContent)
	})
	b.ReportAllocs()
	b.SetParallelism(16)
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if err := sink.Dispatch(b.Context(), message()); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func ExampleNew() {
	secret := webhook.NewSecret() // share it with the receiver: secret.Reveal()
	verifier, err := webhook.NewVerifier(webhook.Config{Secrets: []webhook.Secret{secret}})
	if err != nil {
		panic(err)
	}
	receiver := httptest.NewServer(verifier.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		event, _ := io.ReadAll(r.Body)
		fmt.Printf("%s: %s\n", r.Header.Get("outbox-topic"), event)
	})))
	defer receiver.Close()

	// Loopback is neither public nor on port 443, so this example must allow both.
	address := netip.MustParseAddrPort(receiver.Listener.Addr().String())
	sink, err := webhooksink.New(webhooksink.Config{
		URL: receiver.URL, Secrets: []webhook.Secret{secret},
		Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Ports: []uint16{address.Port()},
	})
	if err != nil {
		panic(err)
	}
	defer sink.Close()

	fmt.Println(sink.Dispatch(context.Background(), message())) // a relay does this
	// Output:
	// shop.order.placed.v1: {"order": 7}
	// <nil>
}
