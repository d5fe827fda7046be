package webhook_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/go-outbox/outbox/webhook"
)

func TestTheHandlerAnswersForWhatDoesNotPass(t *testing.T) {
	secret := webhook.NewSecret()
	right := func() http.Header { return signed(t, "msg_1", now, secret) }
	tests := []struct {
		name   string
		header http.Header
		body   io.Reader
		fresh  error // what the guard returns
		status int
	}{
		{"right", right(), bytes.NewReader(body), nil, http.StatusNoContent},
		{"unsigned", http.Header{}, bytes.NewReader(body), nil, http.StatusBadRequest},
		{"forged", signed(t, "msg_1", now, webhook.NewSecret()), bytes.NewReader(body), nil, http.StatusUnauthorized},
		{"stale", signed(t, "msg_1", now.Add(-time.Hour), secret), bytes.NewReader(body), nil, http.StatusTooEarly},
		{"future", signed(t, "msg_1", now.Add(time.Hour), secret), bytes.NewReader(body), nil, http.StatusTooEarly},
		{"replayed", right(), bytes.NewReader(body), webhook.ErrReplayed, http.StatusTooEarly},
		{"guard down", right(), bytes.NewReader(body), errors.New("down"), http.StatusServiceUnavailable},
		{"too large", right(), strings.NewReader(strings.Repeat("a", 101)), nil, http.StatusRequestEntityTooLarge},
		{"cut off", right(), iotest.ErrReader(io.ErrUnexpectedEOF), nil, http.StatusRequestTimeout},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var rejected error
			v := verifier(t, webhook.Config{
				Secrets: []webhook.Secret{secret}, MaxBody: 100,
				Fresh:    func(context.Context, string, time.Time) (bool, error) { return tt.fresh == nil, onlyFault(tt.fresh) },
				Rejected: func(_ *http.Request, err error) { rejected = err },
			})
			ran := false
			handler := v.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				ran = true
				if got, err := io.ReadAll(r.Body); err != nil || !bytes.Equal(got, body) {
					t.Errorf("the handler reads %q, %v", got, err)
				}
				w.WriteHeader(http.StatusNoContent)
			}))
			request := httptest.NewRequest(http.MethodPost, "/hooks", tt.body)
			request.Header = tt.header
			answer := httptest.NewRecorder()

			handler.ServeHTTP(answer, request)

			passed := tt.status == http.StatusNoContent
			if answer.Code != tt.status || ran != passed || (rejected == nil) != passed {
				t.Errorf("status %d, want %d; handler ran: %v; rejected for %v", answer.Code, tt.status, ran, rejected)
			}
		})
	}
}

// onlyFault is err when the guard failed, as against having seen the request.
func onlyFault(err error) error {
	if errors.Is(err, webhook.ErrReplayed) {
		return nil
	}
	return err
}

func ExampleVerifier_Handler() {
	// Both sides have it; the receiver reads it from its configuration.
	secret := webhook.NewSecret()

	verifier, err := webhook.NewVerifier(webhook.Config{Secrets: []webhook.Secret{secret}})
	if err != nil {
		panic(err)
	}
	server := httptest.NewServer(verifier.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		event, _ := io.ReadAll(r.Body)
		fmt.Printf("%s: %s\n", r.Header.Get(webhook.HeaderID), event) // deduplicate on the id
		w.WriteHeader(http.StatusNoContent)
	})))
	defer server.Close()

	send := func(body string) {
		now := time.Now()
		signature, err := webhook.Sign("event-7", now, []byte(`{"order": 7}`), secret)
		if err != nil {
			panic(err)
		}
		request, _ := http.NewRequest(http.MethodPost, server.URL, strings.NewReader(body))
		request.Header.Set(webhook.HeaderID, "event-7")
		request.Header.Set(webhook.HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
		request.Header.Set(webhook.HeaderSignature, signature)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			panic(err)
		}
		response.Body.Close()
		fmt.Println(response.StatusCode)
	}
	send(`{"order": 7}`)
	send(`{"order": 8}`)
	// Output:
	// event-7: {"order": 7}
	// 204
	// 401
}
