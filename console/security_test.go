package console_test

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/console"
)

var reason = url.Values{"reason": {"because"}}

func TestNobodyComesInWithoutCredentials(t *testing.T) {
	s := newShop(t)
	id := s.add(outbox.Message{Topic: "shop.order.placed.v1"})
	for _, path := range pages(id, uuid.New()) {
		r := s.get("", path).want(t, http.StatusSeeOther)
		if to := r.Header.Get("Location"); !strings.HasPrefix(to, "/login?next=") {
			t.Errorf("%s sends to %s", path, to)
		}
	}
	s.get("", "/api/messages").want(t, http.StatusUnauthorized)
	s.get("", "/api/messages", "Authorization", "Bearer wrong").want(t, http.StatusUnauthorized)
	s.post("", "/messages/"+id.String()+"/replay", reason).want(t, http.StatusUnauthorized)
	s.postJSON("", "/api/actions", `{"verb":"trigger","reason":"x"}`).want(t, http.StatusUnauthorized)
	s.get("", "/events").want(t, http.StatusNoContent)
	s.untouched()
}

func TestNewRefusesAConsoleThatLetsNobodyOrAnybodyIn(t *testing.T) {
	for name, cfg := range map[string]console.Config{
		"nothing":              {},
		"no auth":              {Stores: []console.Source{{Name: "a"}}},
		"a plain password":     {Auth: console.Auth{Users: []console.User{{Name: "a", Role: "admin", Secret: "hunter2"}}}},
		"an unknown role":      {Auth: console.Auth{Open: "god"}},
		"a proxy from nowhere": {Auth: console.Auth{Proxy: &console.Proxy{Header: "X-User"}}},
		"a relative path":      {Path: "ops", Auth: console.Auth{Open: console.RoleViewer}},
	} {
		if _, err := console.New(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestAViewerChangesNothing(t *testing.T) {
	s := newShop(t)
	id := s.add(outbox.Message{Topic: "shop.order.placed.v1", Key: "k"})
	s.kill("permanent", "no")
	for path, form := range map[string]url.Values{
		"/messages/" + id.String() + "/replay":     reason,
		"/messages/" + id.String() + "/discard":    reason,
		"/messages/" + id.String() + "/reschedule": {"reason": {"x"}, "at": {"1h"}},
		"/messages/" + id.String() + "/payload":    {},
		"/replay":                                  {"topic": {"**"}, "expect": {"1"}, "count": {"1"}, "reason": {"x"}},
		"/keys":                                    {"verb": {"retry_head"}, "key": {"k"}, "reason": {"x"}},
		"/routes":                                  {"verb": {"pause"}, "reason": {"x"}},
		"/relays":                                  {"shard": {"0"}, "reason": {"x"}},
		"/trigger":                                 {},
		"/jobs/" + uuid.NewString() + "/cancel":    {},
	} {
		s.post("victor", path, form).want(t, http.StatusForbidden)
	}
	for _, path := range []string{"/api/actions", "/api/jobs", "/api/jobs/preview", "/api/outbox/trigger/process", "/api/jobs/" + uuid.NewString() + "/state"} {
		s.postJSON("victor", path, `{}`).want(t, http.StatusForbidden)
	}
	s.get("victor", "/api/messages/"+id.String()+"?payload=1").want(t, http.StatusForbidden)
	s.untouched()
	if got := s.console.Refused()["role"]; got == 0 {
		t.Error("refusals are not counted")
	}
	if !strings.Contains(s.log.String(), `msg="request refused"`) || !strings.Contains(s.log.String(), "actor=victor") {
		t.Error("refusals are not logged")
	}
}

func TestReadOnlyIsReadOnlyForEverybody(t *testing.T) {
	s := newShop(t, func(c *console.Config) { c.ReadOnly = true })
	id := s.add(outbox.Message{Topic: "shop.order.placed.v1"})
	s.post("ada", "/messages/"+id.String()+"/replay", reason).want(t, http.StatusForbidden)
	if r := s.get("ada", "/messages/"+id.String()).want(t, http.StatusOK); strings.Contains(r.body, id.String()+"/replay") {
		t.Error("the page offers a change")
	}
	s.untouched()
}

func TestATableWithoutAnOperatorIsReadOnly(t *testing.T) {
	s := newShop(t, func(c *console.Config) { c.Stores[0].Operator = nil })
	id := s.add(outbox.Message{Topic: "shop.order.placed.v1"})
	s.post("ada", "/messages/"+id.String()+"/replay", reason).want(t, http.StatusForbidden)
	s.get("ada", "/replay?topic=**").want(t, http.StatusOK)
}

func TestRequestsOfOtherSitesAreRefused(t *testing.T) {
	s := newShop(t)
	id := s.add(outbox.Message{Topic: "shop.order.placed.v1"})
	for _, headers := range [][]string{
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}, {"Origin", "null"},
	} {
		s.post("ada", "/messages/"+id.String()+"/replay", reason, headers...).want(t, http.StatusForbidden)
		s.postJSON("ada", "/api/outbox/trigger/process", `{}`, headers...).want(t, http.StatusForbidden)
		s.post("", "/login", url.Values{"secret": {s.tokens["ada"]}}, headers...).want(t, http.StatusForbidden)
	}
	s.untouched()
	s.post("ada", "/messages/"+id.String()+"/replay", reason, "Sec-Fetch-Site", "same-origin").want(t, http.StatusSeeOther)
}

func TestChangesOfTheAPIAreJSONOnly(t *testing.T) {
	s := newShop(t)
	form := url.Values{"verb": {"trigger"}, "reason": {"x"}}
	s.post("ada", "/api/actions", form).want(t, http.StatusUnsupportedMediaType)
	s.do("ada", http.MethodPost, "/api/actions", strings.NewReader(`{"verb":"trigger","reason":"x"}`), "Content-Type", "text/plain").
		want(t, http.StatusUnsupportedMediaType)
	s.do("ada", http.MethodPost, "/trigger", strings.NewReader(`{}`), "Content-Type", "application/json").want(t, http.StatusUnsupportedMediaType)
	s.postJSON("ada", "/api/actions", `{"verb":"trigger","reason":"x","unknown":1}`).want(t, http.StatusBadRequest)
	s.postJSON("ada", "/api/actions", `{"verb":"trigger"} {}`).want(t, http.StatusBadRequest)
	s.untouched()
}

func TestOnlyKnownHostsAreAnswered(t *testing.T) {
	s := newShop(t)
	for _, host := range []string{"evil.example", "127.0.0.1", "console.test.evil.example", "", "[::1]:80", "console.test@evil"} {
		s.get("ada", "/", "Host", host).want(t, http.StatusMisdirectedRequest)
	}
	for _, host := range []string{"console.test", "console.test:8025", "CONSOLE.test"} {
		s.get("ada", "/", "Host", host).want(t, http.StatusOK)
	}
	loopback := newShop(t, func(c *console.Config) { c.Hosts = nil })
	loopback.get("ada", "/", "Host", "localhost:8025").want(t, http.StatusOK)
	loopback.get("ada", "/", "Host", "[::1]:8025").want(t, http.StatusOK)
	loopback.get("ada", "/", "Host", "console.test").want(t, http.StatusMisdirectedRequest)
}

func TestPathTricksFindNothing(t *testing.T) {
	s := newShop(t)
	for _, path := range []string{
		"/../../etc/passwd", "/static/../templates/login.html", "/static/%2e%2e/console.go", "/static/..%2f..%2fetc%2fpasswd",
		"/static/console.css%00.png", "/static/", "/static/nothing.js", "//messages", "/messages/../audit", "/.git/config",
		"/debug/pprof/", "/debug/vars", "/messages/not-an-id", "/messages/%00", "/static/\\..\\x", "/templates/layout.html",
		"/messages/" + strings.Repeat("a", 5000),
	} {
		r := httptest.NewRequest(http.MethodGet, "http://console.test/", nil)
		u, err := url.Parse(path)
		if err != nil {
			t.Fatal(err)
		}
		r.URL.Path, r.URL.RawPath, r.Host = u.Path, u.RawPath, "console.test"
		r.Header.Set("Authorization", "Bearer "+s.tokens["ada"])
		if got := s.serve(r); got.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", path, got.StatusCode)
		}
	}
}

func TestEveryAnswerIsHardened(t *testing.T) {
	s := newShop(t)
	for _, path := range []string{"/", "/login", "/nothing", "/api/tables", "/static/console.css"} {
		h := s.get("ada", path).Header
		csp := h.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} {
			if !strings.Contains(csp, part) {
				t.Errorf("%s: the policy lacks %s", path, part)
			}
		}
		if strings.Contains(csp, "unsafe") {
			t.Errorf("%s: %s", path, csp)
		}
		for name, want := range map[string]string{
			"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin", "Access-Control-Allow-Origin": "",
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %s is %q", path, name, got)
			}
		}
	}
	if s.get("ada", "/").Header.Get("Cache-Control") != "no-store" {
		t.Error("pages may be cached")
	}
}

func TestPagesHaveNoInlineScriptOrStyle(t *testing.T) {
	s := newShop(t)
	id := s.add(outbox.Message{Topic: "shop.order.placed.v1", Key: "k"})
	s.kill("permanent", "no")
	for _, path := range append(pages(id, uuid.New()), "/login", "/nothing") {
		body := s.get("ada", path).body
		for _, bad := range []string{"<style", " style=", " onclick", " onload", "javascript:", "<script>"} {
			if strings.Contains(body, bad) {
				t.Errorf("%s has %s", path, bad)
			}
		}
	}
}

func TestLimitsAreLimits(t *testing.T) {
	s := newShop(t)
	s.add(outbox.Message{Topic: "shop.order.placed.v1"})
	for _, query := range []string{
		"limit=1000000000", "limit=-1", "limit=x", "limit=201", "before=-5", "before=99999999999999999999", "status=unknown",
		"since=1990-01-01", "since=2400-01-01", "since=yesterday", "since=1h&until=2h", "topic=" + strings.Repeat("a", 600), "table=other",
	} {
		for _, path := range []string{"/messages?", "/api/messages?"} {
			r := s.get("ada", path+query)
			want := http.StatusBadRequest
			if query == "table=other" {
				want = http.StatusNotFound
			}
			if r.StatusCode != want {
				t.Errorf("%s%s: %d", path, query, r.StatusCode)
			}
		}
	}
	s.get("ada", "/api/keys?limit=1000000000").want(t, http.StatusBadRequest)
	s.get("ada", "/api/audit?limit=1000000000").want(t, http.StatusBadRequest)
	s.get("ada", "/api/jobs?limit=1000000000").want(t, http.StatusBadRequest)
	s.get("ada", "/messages?limit=200").want(t, http.StatusOK)
	s.postJSON("ada", "/api/actions", `{"reason":"`+strings.Repeat("x", 2<<20)+`"}`).want(t, http.StatusRequestEntityTooLarge)
	s.post("ada", "/trigger", url.Values{"reason": {strings.Repeat("x", 2<<20)}}).want(t, http.StatusRequestEntityTooLarge)
	s.untouched()
}

func TestTheSixthFailedLoginInAMinuteIsRefusedUnseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		wrong, right := url.Values{"secret": {"wrong"}}, url.Values{"secret": {s.tokens["ada"]}}
		for range 5 {
			s.post("", "/login", wrong).want(t, http.StatusUnauthorized)
		}
		r := s.post("", "/login", right).want(t, http.StatusTooManyRequests)
		if r.Header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		s.get("ada", "/api/tables").want(t, http.StatusTooManyRequests)
		if got := s.console.Refused()["login_limit"]; got < 2 {
			t.Errorf("counted %d", got)
		}
		pass(61 * time.Second)
		s.post("", "/login", right).want(t, http.StatusSeeOther)
	})
}

func TestAuthorizationHeadersAreLimitedAsWell(t *testing.T) {
	s := newShop(t)
	for range 5 {
		s.get("", "/api/tables", "Authorization", "Bearer guess").want(t, http.StatusUnauthorized)
	}
	s.get("", "/api/tables", "Authorization", "Bearer guess").want(t, http.StatusTooManyRequests)
}

// login returns the cookies of a session.
func (s *shop) login(as string) []*http.Cookie {
	s.t.Helper()
	return s.post("", "/login", url.Values{"secret": {s.tokens[as]}}).want(s.t, http.StatusSeeOther).Cookies()
}

func (s *shop) with(cookies []*http.Cookie, method, path string) response {
	r := httptest.NewRequest(method, "http://console.test"+path, strings.NewReader(""))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for _, c := range cookies {
		r.AddCookie(c)
	}
	return s.serve(r)
}

func TestASessionEndsWhenItIsIdleOrOldOrLoggedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		cookies := s.login("olga")
		c := cookies[0]
		if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" {
			t.Errorf("cookie %+v", c)
		}
		s.with(cookies, http.MethodGet, "/").want(t, http.StatusOK)
		pass(31 * time.Minute)
		s.with(cookies, http.MethodGet, "/").want(t, http.StatusSeeOther)

		cookies = s.login("olga")
		for range 50 { // 12.5 hours, never idle
			pass(15 * time.Minute)
			if r := s.with(cookies, http.MethodGet, "/"); len(r.Cookies()) > 0 {
				cookies = r.Cookies()
			}
		}
		s.with(cookies, http.MethodGet, "/").want(t, http.StatusSeeOther)

		cookies = s.login("olga")
		for range 4 { // a page refreshes itself, and nobody is there
			pass(10 * time.Minute)
			r := httptest.NewRequest(http.MethodGet, "http://console.test/", nil)
			r.Header.Set("X-Outbox-Refresh", "1")
			r.AddCookie(cookies[0])
			if got := s.serve(r).Cookies(); len(got) > 0 {
				cookies = got
			}
		}
		s.with(cookies, http.MethodGet, "/").want(t, http.StatusSeeOther)

		cookies = s.login("olga")
		s.with(cookies, http.MethodPost, "/logout").want(t, http.StatusSeeOther)
		s.with(cookies, http.MethodGet, "/").want(t, http.StatusSeeOther)
	})
}

func TestSessionIDsAreRotated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		old := s.login("olga")
		if again := s.login("olga"); again[0].Value == old[0].Value {
			t.Error("two logins share an id")
		}
		pass(16 * time.Minute)
		renewed := s.with(old, http.MethodGet, "/").want(t, http.StatusOK).Cookies()
		if len(renewed) != 1 || renewed[0].Value == old[0].Value {
			t.Fatalf("no new id: %v", renewed)
		}
		s.with(old, http.MethodGet, "/").want(t, http.StatusOK) // requests under way
		pass(time.Minute)
		s.with(old, http.MethodGet, "/").want(t, http.StatusSeeOther)
		s.with(renewed, http.MethodGet, "/").want(t, http.StatusOK)
	})
}

func TestCookiesAreSecureBehindTLS(t *testing.T) {
	s := newShop(t, func(c *console.Config) { c.Secure = true })
	r := s.post("", "/login", url.Values{"secret": {s.tokens["olga"]}}).want(t, http.StatusSeeOther)
	c := r.Cookies()[0]
	if !c.Secure || !strings.HasPrefix(c.Name, "__Host-") {
		t.Errorf("cookie %+v", c)
	}
	if r.Header.Get("Strict-Transport-Security") == "" {
		t.Error("no HSTS")
	}
}

func TestALoginGoesOnlyToPagesOfTheConsole(t *testing.T) {
	s := newShop(t)
	for _, next := range []string{"https://evil.example/", "//evil.example", `/\evil.example`, "javascript:alert(1)", "/\r\nSet-Cookie: x"} {
		r := s.post("", "/login", url.Values{"secret": {s.tokens["ada"]}, "next": {next}}).want(t, http.StatusSeeOther)
		if to := r.Header.Get("Location"); to != "/" {
			t.Errorf("%q goes to %q", next, to)
		}
	}
	r := s.post("", "/login", url.Values{"secret": {s.tokens["ada"]}, "next": {"/messages?status=dead"}})
	if to := r.Header.Get("Location"); to != "/messages?status=dead" {
		t.Errorf("goes to %q", to)
	}
}

func TestPasswordsComeInByFormAndByBasic(t *testing.T) {
	secret, err := console.HashPassword("correct horse battery")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := console.HashPassword("short"); err == nil {
		t.Error("a short password is accepted")
	}
	s := newShop(t, func(c *console.Config) {
		c.Auth.Users = append(c.Auth.Users, console.User{Name: "pat", Role: console.RoleViewer, Secret: secret})
	})
	basic := func(name, password string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(name+":"+password))
	}
	s.get("", "/api/tables", "Authorization", basic("pat", "correct horse battery")).want(t, http.StatusOK)
	s.get("", "/api/tables", "Authorization", basic("pat", "correct horse battery")).want(t, http.StatusOK)
	s.get("", "/api/tables", "Authorization", basic("pat", "wrong horse battery")).want(t, http.StatusUnauthorized)
	s.get("", "/api/tables", "Authorization", basic("nobody", "correct horse battery")).want(t, http.StatusUnauthorized)
	s.post("", "/login", url.Values{"name": {"pat"}, "secret": {"correct horse battery"}}).want(t, http.StatusSeeOther)
}

func TestAProxyIsTrustedOnlyFromItsAddress(t *testing.T) {
	s := newShop(t, func(c *console.Config) {
		c.Auth = console.Auth{Proxy: &console.Proxy{
			Header: "X-Forwarded-User", From: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
			Users: []console.User{{Name: "root", Role: console.RoleAdmin}}, Role: console.RoleViewer,
		}}
	})
	ask := func(from string, users ...string) int {
		r := httptest.NewRequest(http.MethodGet, "http://console.test/api/tables", nil)
		r.RemoteAddr = from
		for _, u := range users {
			r.Header.Add("X-Forwarded-User", u)
		}
		return s.serve(r).StatusCode
	}
	for want, got := range map[int][]int{
		http.StatusOK:           {ask("10.1.2.3:99", "kim"), ask("10.1.2.3:99", "root")},
		http.StatusUnauthorized: {ask("192.0.2.1:99", "kim"), ask("10.1.2.3:99"), ask("10.1.2.3:99", "kim", "root"), ask("10.1.2.3:99", "")},
	} {
		for i, code := range got {
			if code != want {
				t.Errorf("case %d: %d, want %d", i, code, want)
			}
		}
	}
}

// hostile is a table that somebody else has written to.
type hostile struct{ outbox.Inspector }

const attack = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>javascript:alert(3)\x00\x1b[31m\u202e\n"

func (hostile) record(r *outbox.Record) *outbox.Record {
	r.Topic, r.Key, r.TenantID, r.LastError, r.DeadReason = attack, attack, attack, attack, attack
	r.AggregateType, r.AggregateID, r.EventType, r.ContentType, r.Corrupt = attack, attack, attack, attack, attack
	r.TraceParent, r.TraceState = attack, attack
	r.Headers = map[string]string{attack: attack}
	return r
}

func (h hostile) Get(ctx context.Context, id uuid.UUID) (*outbox.Record, error) {
	r, err := h.Inspector.Get(ctx, id)
	if err == nil {
		r = h.record(r)
	}
	return r, err
}

func (h hostile) List(ctx context.Context, f outbox.Filter) (outbox.List, error) {
	l, err := h.Inspector.List(ctx, outbox.Filter{Limit: f.Limit})
	for _, r := range l.Records {
		h.record(r)
	}
	return l, err
}

func (h hostile) Attempts(context.Context, int64) ([]outbox.Attempt, error) {
	return []outbox.Attempt{{At: time.Now(), Attempt: 1, Route: attack, Outcome: attack, Error: attack, Took: 1}}, nil
}

func (h hostile) Keys(ctx context.Context, after int64, limit int) ([]outbox.HeldKey, error) {
	l, err := h.List(ctx, outbox.Filter{Limit: limit})
	return []outbox.HeldKey{{Key: attack, Head: l.Records[0], Waiting: 2}}, err
}

func (h hostile) Groups(context.Context, outbox.Filter) (outbox.Groups, error) {
	g := outbox.Group{Topic: attack, Route: attack, Reason: attack, Error: attack, Count: 1, First: time.Now(), Last: time.Now()}
	return outbox.Groups{Groups: []outbox.Group{g}, Now: time.Now()}, nil
}

func (h hostile) Audit(context.Context, outbox.AuditFilter) ([]outbox.AuditEntry, error) {
	return []outbox.AuditEntry{{ID: 1, At: time.Now(), Table: attack, Actor: attack, Verb: attack, Reason: attack, Route: attack, Key: attack, Filter: attack}}, nil
}

func (h hostile) Jobs(context.Context, int) ([]outbox.Job, error) {
	return []outbox.Job{hostileJob(uuid.New())}, nil
}

func (h hostile) Job(_ context.Context, id uuid.UUID) (outbox.Job, error) {
	return hostileJob(id), nil
}

func hostileJob(id uuid.UUID) outbox.Job {
	return outbox.Job{ID: id, State: outbox.JobRunning, Driver: attack, JobRequest: outbox.JobRequest{
		Verb: attack, Actor: attack, Reason: attack,
		Filter: outbox.Filter{Topic: attack, Key: attack, TenantID: attack, Error: attack, Reason: attack, Route: attack},
	}}
}

func (h hostile) Stats(ctx context.Context) (outbox.Stats, error) {
	s, err := h.Inspector.Stats(ctx)
	s.Dead = 3
	s.Paused = []outbox.PausedRoute{{Route: attack, By: attack, Reason: attack}, {By: attack, Reason: attack}}
	s.Relays = []outbox.RelayState{{Instance: attack, Version: attack, Live: true, Note: outbox.RelayNote{
		OnDead: attack, Circuits: []outbox.CircuitNote{{Route: attack, Error: attack}},
	}}}
	for i := range s.Leases {
		s.Leases[i].Instance = attack
	}
	return s, err
}

type hostileOperator struct{ outbox.Operator }

func (hostileOperator) PreviewJob(context.Context, outbox.JobRequest) (outbox.JobPreview, error) {
	return outbox.JobPreview{Count: 2, Topics: []outbox.TopicCount{{Topic: attack, Count: 2}}}, nil
}

func TestHostileTextIsTextOnEveryPage(t *testing.T) {
	s := newShop(t, func(c *console.Config) {
		c.Stores[0].Inspector, c.Stores[0].Operator = hostile{c.Stores[0].Inspector}, hostileOperator{c.Stores[0].Operator}
	})
	id := s.add(outbox.Message{Topic: "shop.order.placed.v1", Payload: []byte(`"<script>alert(9)</script>"`)})
	everywhere := append(pages(id, uuid.New()), "/messages?topic="+url.QueryEscape(attack)+"&key="+url.QueryEscape(attack)+"&since=x",
		"/replay?topic="+url.QueryEscape(attack), "/audit?actor="+url.QueryEscape(attack), "/login?next="+url.QueryEscape(attack))
	for _, path := range everywhere {
		for _, lang := range []string{"en", "zh"} {
			r := s.get("ada", path, "Accept-Language", lang)
			if r.StatusCode >= 500 {
				t.Errorf("%s: %d", path, r.StatusCode)
			}
			checkInert(t, path, r.body)
		}
	}
	shown := s.post("ada", "/messages/"+id.String()+"/payload", nil)
	checkInert(t, "payload", shown.body)
	shown.says(t, "&lt;script&gt;alert(9)")
	for _, path := range []string{"/api/tables", "/api/messages", "/api/messages/" + id.String(), "/api/groups", "/api/keys", "/api/audit", "/api/jobs"} {
		r := s.get("ada", path).want(t, http.StatusOK)
		if strings.Contains(r.body, "<") || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %s", path, r.body)
		}
	}
}

func checkInert(t *testing.T, path, body string) {
	t.Helper()
	for _, bad := range []string{"<script>alert", "<img src=x", "\x00", "\x1b", "\u202e", "href=\"javascript:", "'><img"} {
		if strings.Contains(body, bad) {
			i := strings.Index(body, bad)
			t.Errorf("%s holds %q: …%s…", path, bad, body[max(0, i-80):min(len(body), i+80)])
		}
	}
}

func TestPayloadsAreHiddenAndLooksAreRecorded(t *testing.T) {
	s := newShop(t)
	id := s.add(outbox.Message{Topic: "shop.order.placed.v1"})
	for _, who := range []string{"victor", "olga", "ada"} {
		if r := s.get(who, "/messages/"+id.String()).want(t, http.StatusOK); strings.Contains(r.body, "4711") {
			t.Errorf("%s sees the payload unasked", who)
		}
	}
	s.post("olga", "/messages/"+id.String()+"/payload", nil).want(t, http.StatusForbidden)
	s.untouched()

	s.post("ada", "/messages/"+id.String()+"/payload", nil).want(t, http.StatusOK).says(t, "4711")
	file := s.post("ada", "/messages/"+id.String()+"/payload", url.Values{"download": {"1"}}).want(t, http.StatusOK)
	if !strings.HasPrefix(file.Header.Get("Content-Disposition"), "attachment") || !strings.Contains(file.Header.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("the file could open as a page: %v", file.Header)
	}
	entries, err := s.store.Audit(t.Context(), outbox.AuditFilter{EventID: id})
	if err != nil || len(entries) != 2 || entries[0].Actor != "ada" {
		t.Errorf("audit %+v, %v", entries, err)
	}
	if strings.Contains(s.log.String(), "4711") {
		t.Error("the payload is in the log")
	}
}

func TestAMaskIsPutOnPayloads(t *testing.T) {
	s := newShop(t, func(c *console.Config) {
		c.PayloadRole = console.RoleViewer
		c.Mask = func(string, []byte) []byte { return []byte(`{"secret":"***"}`) }
	})
	id := s.add(outbox.Message{Topic: "shop.order.placed.v1"})
	shown := s.post("victor", "/messages/"+id.String()+"/payload", nil).want(t, http.StatusOK).says(t, "***")
	api := s.get("victor", "/api/messages/"+id.String()+"?payload=1").want(t, http.StatusOK)
	if strings.Contains(shown.body+api.body, "4711") {
		t.Error("the mask is not used")
	}
}

func TestATenantIsAWall(t *testing.T) {
	s := newShop(t)
	own := s.add(outbox.Message{Topic: "shop.order.placed.v1", TenantID: "acme", Key: "own"})
	foreign := s.add(outbox.Message{Topic: "shop.refund.paid.v1", TenantID: "globex", Key: "foreign"})
	s.add(outbox.Message{Topic: "shop.order.placed.v1", TenantID: "acme", Key: "shared"})
	s.add(outbox.Message{Topic: "shop.order.placed.v1", TenantID: "globex", Key: "shared"})
	s.kill("permanent", "globex says no")

	s.get("tess", "/messages/"+own.String()).want(t, http.StatusOK)
	for _, path := range []string{"/messages", "/dead", "/keys", "/replay", "/api/messages", "/api/groups", "/api/keys", "/"} {
		r := s.get("tess", path).want(t, http.StatusOK)
		if strings.Contains(r.body, "refund") || strings.Contains(r.body, foreign.String()) || strings.Contains(r.body, ">foreign<") {
			t.Errorf("%s shows another tenant", path)
		}
	}
	// An id that does not exist looks like one that is not theirs.
	for _, id := range []string{foreign.String(), uuid.NewString()} {
		for _, path := range []string{"/messages/" + id, "/api/messages/" + id, "/api/messages/" + id + "/attempts", "/api/messages/" + id + "/explain"} {
			s.get("tess", path).want(t, http.StatusForbidden)
		}
		for _, verb := range []string{"replay", "discard"} {
			s.post("tess", "/messages/"+id+"/"+verb, reason).want(t, http.StatusForbidden)
		}
		s.postJSON("tess", "/api/actions", `{"verb":"replay","reason":"x","event_id":"`+id+`"}`).want(t, http.StatusForbidden)
		s.postJSON("tess", "/api/actions", `{"verb":"replay","reason":"x","preview":true,"event_id":"`+id+`"}`).want(t, http.StatusForbidden)
	}
	s.get("tess", "/messages?tenant=globex").want(t, http.StatusForbidden)
	s.get("tess", "/audit").want(t, http.StatusForbidden)
	s.get("tess", "/api/audit").want(t, http.StatusForbidden)
	for _, key := range []string{"foreign", "shared"} {
		s.post("tess", "/keys", url.Values{"verb": {"release_key"}, "key": {key}, "reason": {"x"}}).want(t, http.StatusForbidden)
	}
	s.post("tess", "/routes", url.Values{"verb": {"pause"}, "reason": {"x"}}).want(t, http.StatusForbidden)
	s.post("tess", "/trigger", nil).want(t, http.StatusForbidden)
	s.postJSON("tess", "/api/jobs", `{"verb":"replay","reason":"x","expect":2,"filter":{"tenant_id":"globex"}}`).want(t, http.StatusForbidden)
	s.untouched()

	job, err := s.store.StartJob(t.Context(), outbox.JobRequest{
		Verb: outbox.VerbReplay, Expect: 2, Actor: "olga", Reason: "x", Filter: outbox.Filter{Status: outbox.StatusDead, TenantID: "globex"},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.get("tess", "/jobs/"+job.ID.String()).want(t, http.StatusForbidden)
	s.post("tess", "/jobs/"+job.ID.String()+"/cancel", nil).want(t, http.StatusForbidden)

	// A bulk change without a tenant is one of their own tenant.
	r := s.postJSON("tess", "/api/jobs/preview", `{"verb":"replay","filter":{"topic":"**"}}`).want(t, http.StatusOK)
	r.says(t, `"count":2`)
	s.post("tess", "/keys", url.Values{"verb": {"retry_head"}, "key": {"own"}, "reason": {"x"}}).want(t, http.StatusSeeOther)
}

func TestAPanicIsAPageWithoutAStack(t *testing.T) {
	s := newShop(t, func(c *console.Config) {
		c.Auth.Request = func(r *http.Request) *console.Principal {
			if r.URL.Path == "/keys" {
				panic("the secret is 4711")
			}
			return nil
		}
	})
	r := s.get("ada", "/keys").want(t, http.StatusInternalServerError)
	if strings.Contains(r.body, "4711") || strings.Contains(r.body, "goroutine") || strings.Contains(r.body, ".go:") {
		t.Errorf("the page says too much: %s", r.body)
	}
	if !strings.Contains(s.log.String(), "panic in the console") {
		t.Error("the panic is not logged")
	}
}

type broken struct{ outbox.Inspector }

func (broken) Stats(context.Context) (outbox.Stats, error) {
	return outbox.Stats{}, context.DeadlineExceeded
}

func (broken) List(context.Context, outbox.Filter) (outbox.List, error) {
	return outbox.List{}, errPassword
}

var errPassword = &url.Error{Op: "dial", URL: "postgres://app:hunter2@db.internal:5432/shop", Err: context.DeadlineExceeded}

func TestErrorsOfTheDatabaseStayInTheLog(t *testing.T) {
	s := newShop(t, func(c *console.Config) { c.Stores[0].Inspector = broken{c.Stores[0].Inspector} })
	s.get("ada", "/").want(t, http.StatusOK).says(t, "cannot be read")
	for _, path := range []string{"/messages", "/api/messages"} {
		r := s.get("ada", path).want(t, http.StatusServiceUnavailable)
		if strings.Contains(r.body, "hunter2") || strings.Contains(r.body, "db.internal") {
			t.Errorf("%s says too much", path)
		}
	}
	if strings.Contains(s.log.String(), "hunter2") {
		t.Error("the password is in the log")
	}
}
