package console_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/console"
	"github.com/go-outbox/outbox/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A shop is a console over a table in memory, with one user of each kind.
type shop struct {
	t       *testing.T
	store   *memstore.Store
	console *console.Console
	log     *syncBuffer
	tokens  map[string]string
}

type syncBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// newShop makes a console; change adapts its configuration.
func newShop(t *testing.T, change ...func(*console.Config)) *shop {
	t.Helper()
	store, err := memstore.New(memstore.Config{Table: "shop_outbox", Gate: outbox.Gate{}})
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{t: t, store: store, log: &syncBuffer{}, tokens: map[string]string{}}
	cfg := console.Config{
		Stores: []console.Source{{Name: "shop_outbox", Inspector: store, Operator: store}},
		Hosts:  []string{"console.test"},
		Log:    slog.New(slog.NewTextHandler(s.log, nil)),
	}
	for _, u := range []console.User{
		{Name: "victor", Role: console.RoleViewer},
		{Name: "olga", Role: console.RoleOperator},
		{Name: "ada", Role: console.RoleAdmin},
		{Name: "tess", Role: console.RoleOperator, Tenants: []string{"acme"}},
	} {
		s.tokens[u.Name], u.Secret = console.NewToken()
		cfg.Auth.Users = append(cfg.Auth.Users, u)
	}
	for _, f := range change {
		f(&cfg)
	}
	if s.console, err = console.New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s.console != nil {
			s.console.Close()
		}
	})
	return s
}

func (s *shop) add(m outbox.Message) uuid.UUID {
	s.t.Helper()
	if m.EventID == uuid.Nil {
		m.EventID = uuid.New()
	}
	if m.Payload == nil {
		m.Payload = []byte(`{"secret":"4711"}`)
	}
	if _, err := s.store.EnqueueAutocommit(s.t.Context(), m); err != nil {
		s.t.Fatal(err)
	}
	return m.EventID
}

// kill makes everything that waits dead, with the given error.
func (s *shop) kill(reason, text string) {
	s.t.Helper()
	ctx := s.t.Context()
	lease, err := s.store.Acquire(ctx, outbox.LeaseRequest{Instance: "relay-1", TTL: time.Minute})
	if err != nil {
		s.t.Fatal(err)
	}
	page, err := lease.Read(ctx, outbox.ReadRequest{Limit: 1000})
	if err != nil {
		s.t.Fatal(err)
	}
	var step outbox.Step
	for _, r := range page.Fresh {
		step.Outcomes = append(step.Outcomes, outbox.Outcome{
			Sequence: r.Sequence, Replays: r.Replays, Attempts: r.Attempts, Kind: outbox.Dead, Spent: 1, Error: text, Reason: reason, Route: "billing",
		})
	}
	if err := lease.Step(ctx, step); err != nil {
		s.t.Fatal(err)
	}
	if err := lease.Release(ctx, 0); err != nil {
		s.t.Fatal(err)
	}
}

// A response is what a request got.
type response struct {
	*http.Response
	body string
}

// do sends a request as somebody; nobody is "".
func (s *shop) do(as, method, path string, body io.Reader, headers ...string) response {
	s.t.Helper()
	r := httptest.NewRequest(method, "http://console.test"+path, body)
	r.Host = "console.test"
	if as != "" {
		r.Header.Set("Authorization", "Bearer "+s.tokens[as])
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	return s.serve(r)
}

func (s *shop) serve(r *http.Request) response {
	w := httptest.NewRecorder()
	s.console.ServeHTTP(w, r)
	return response{w.Result(), w.Body.String()}
}

func (s *shop) get(as, path string, headers ...string) response {
	s.t.Helper()
	return s.do(as, http.MethodGet, path, nil, headers...)
}

func (s *shop) post(as, path string, form url.Values, headers ...string) response {
	s.t.Helper()
	return s.do(as, http.MethodPost, path, strings.NewReader(form.Encode()), append([]string{"Content-Type", "application/x-www-form-urlencoded"}, headers...)...)
}

func (s *shop) postJSON(as, path, body string, headers ...string) response {
	s.t.Helper()
	return s.do(as, http.MethodPost, path, strings.NewReader(body), append([]string{"Content-Type", "application/json"}, headers...)...)
}

func (r response) want(t *testing.T, status int) response {
	t.Helper()
	if r.StatusCode != status {
		t.Fatalf("status %d, want %d: %s", r.StatusCode, status, text(r.body))
	}
	return r
}

func (r response) says(t *testing.T, parts ...string) response {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(r.body, p) {
			t.Errorf("the page does not say %q:\n%s", p, text(r.body))
		}
	}
	return r
}

func text(s string) string {
	if len(s) > 3000 {
		return s[:3000] + "…"
	}
	return s
}

// untouched fails the test when anything but reads has happened to the store.
func (s *shop) untouched() {
	s.t.Helper()
	entries, err := s.store.Audit(context.Background(), outbox.AuditFilter{})
	if err != nil {
		s.t.Fatal(err)
	}
	if len(entries) > 0 {
		s.t.Errorf("something was changed: %+v", entries)
	}
}

// pass lets time pass, in a test whose time is virtual.
func pass(d time.Duration) { <-time.After(d) }

// pages are all screens, for a message and a job.
func pages(event, job uuid.UUID) []string {
	return []string{
		"/", "/messages", "/messages?status=dead", fmt.Sprintf("/messages/%s", event), "/dead", "/replay", "/replay?topic=**",
		fmt.Sprintf("/jobs/%s", job), "/keys", "/routes", "/relays", "/audit", "/settings",
	}
}
