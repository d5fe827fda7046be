package webhook_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/webhook"
)

// post sends body to a receiver and returns the answer.
func post(t *testing.T, header http.Header, handle func(context.Context, outbox.DispatchedMessage) error, secret webhook.Secret) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequest(http.MethodPost, "/hooks", strings.NewReader(string(body)))
	request.Header = header
	answer := httptest.NewRecorder()
	verifier(t, webhook.Config{Secrets: []webhook.Secret{secret}}).Receive(handle).ServeHTTP(answer, request)
	return answer
}

func TestAReceiverGetsTheMessageThatWasSent(t *testing.T) {
	secret, event := webhook.NewSecret(), uuid.New()
	header := signed(t, event.String()+"-r2", now, secret)
	for name, value := range map[string]string{
		"Outbox-Event-Id": uuid.NewString(), "Outbox-Replay": "7", // not signed, so not believed
		"Outbox-Topic": "shop.order.placed.v2", "Outbox-Version": "2", "Outbox-Key": "order%207", "Outbox-Tenant": "acme",
		"Outbox-Sequence": "12", "Outbox-Attempt": "3", "Content-Type": "text/plain", "Traceparent": "00-a-b-01",
		"X-Currency": "EUR", "User-Agent": "outbox", "X-Forwarded-For": "10.0.0.1", "Accept-Encoding": "identity",
	} {
		header.Set(name, value)
	}
	var got outbox.DispatchedMessage
	answer := post(t, header, func(_ context.Context, msg outbox.DispatchedMessage) error { got = msg; return nil }, secret)

	m := got.Meta
	if answer.Code != http.StatusNoContent || string(got.Payload) != string(body) {
		t.Fatalf("status %d, payload %q", answer.Code, got.Payload)
	}
	if m.EventID != event || m.Replays != 2 || m.Topic != "shop.order.placed.v2" || m.EventVersion != 2 || m.Key != "order 7" ||
		m.TenantID != "acme" || m.Sequence != 12 || m.Attempts != 3 || m.ContentType != "text/plain" || m.TraceParent != "00-a-b-01" {
		t.Errorf("got %+v", m)
	}
	if len(m.Headers) != 1 || m.Headers["x-currency"] != "EUR" {
		t.Errorf("its own headers are %v", m.Headers)
	}
}

func TestTheAnswerIsTheVerdictOfTheHandler(t *testing.T) {
	broken := errors.New("secret detail")
	for _, tt := range []struct {
		name  string
		err   error
		want  int
		after string
	}{
		{"nil", nil, 204, ""},
		{"an error", broken, 500, ""},
		{"permanent", outbox.Permanent(broken), 422, ""},
		{"retry after", outbox.RetryAfter(broken, 1500*time.Millisecond), 429, "2"},
		{"unavailable", outbox.Unavailable(broken), 503, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			secret := webhook.NewSecret()
			answer := post(t, signed(t, uuid.NewString(), now, secret),
				func(context.Context, outbox.DispatchedMessage) error { return tt.err }, secret)
			if answer.Code != tt.want || answer.Header().Get("Retry-After") != tt.after || strings.Contains(answer.Body.String(), "secret") {
				t.Errorf("answered %d, Retry-After %q, %q", answer.Code, answer.Header().Get("Retry-After"), answer.Body)
			}
		})
	}
}

func TestAReceiverRefusesWhatNoOutboxSent(t *testing.T) {
	secret := webhook.NewSecret()
	never := func(context.Context, outbox.DispatchedMessage) error { t.Error("it was handled"); return nil }
	for _, id := range []string{"msg_1", uuid.Nil.String(), uuid.NewString() + "-rx", uuid.NewString() + "-r-1", strings.ReplaceAll(uuid.NewString(), "-", "")} {
		if answer := post(t, signed(t, id, now, secret), never, secret); answer.Code != http.StatusBadRequest {
			t.Errorf("%s: %d", id, answer.Code)
		}
	}
	header := signed(t, uuid.NewString(), now, secret)
	header.Set("outbox-version", "two")
	if answer := post(t, header, never, secret); answer.Code != http.StatusBadRequest {
		t.Errorf("a version that is no number: %d", answer.Code)
	}
	if answer := post(t, signed(t, uuid.NewString(), now, webhook.NewSecret()), never, secret); answer.Code != http.StatusUnauthorized {
		t.Errorf("forged: %d", answer.Code)
	}
}

func TestTheMemoryRefusesReplaysAndForgetsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fresh := webhook.RememberInMemory(2)
		ask := func(n int, want bool) {
			t.Helper()
			got, err := fresh(t.Context(), strconv.Itoa(n), time.Now().Add(time.Minute))
			if err != nil || got != want {
				t.Errorf("request %d: %v, %v", n, got, err)
			}
		}
		ask(1, true)
		ask(1, false)
		ask(2, true)
		ask(3, false) // full
		<-time.After(2 * time.Minute)
		ask(3, true)
		ask(1, true)
	})
}
