package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-outbox/outbox/console"
	"github.com/go-outbox/outbox/store/memstore"
)

func TestConsoleListensOnLoopbackUnlessItIsSafeElsewhere(t *testing.T) {
	tls := func(o consoleOptions) consoleOptions { o.cert, o.key = "c.pem", "k.pem"; return o }
	for name, c := range map[string]struct {
		options consoleOptions
		ok      bool
	}{
		"loopback":                    {consoleOptions{listen: "127.0.0.1:8025"}, true},
		"loopback by name":            {consoleOptions{listen: "localhost:8025"}, true},
		"loopback v6":                 {consoleOptions{listen: "[::1]:8025"}, true},
		"loopback without auth":       {consoleOptions{listen: "127.0.0.1:8025", noAuth: true}, true},
		"everywhere":                  {consoleOptions{listen: "0.0.0.0:8025", hosts: []string{"a"}}, false},
		"everywhere, short":           {consoleOptions{listen: ":8025", hosts: []string{"a"}}, false},
		"a name":                      {consoleOptions{listen: "example.com:8025", hosts: []string{"a"}}, false},
		"everywhere with TLS":         {tls(consoleOptions{listen: ":8025", hosts: []string{"a"}}), true},
		"TLS without hosts":           {tls(consoleOptions{listen: ":8025"}), false},
		"TLS without auth":            {tls(consoleOptions{listen: ":8025", hosts: []string{"a"}, noAuth: true}), false},
		"behind a proxy":              {consoleOptions{listen: ":8025", hosts: []string{"a"}, behindProxy: true}, true},
		"behind a proxy without auth": {consoleOptions{listen: "127.0.0.1:8025", hosts: []string{"a"}, behindProxy: true, noAuth: true}, false},
		"a header from anywhere":      {consoleOptions{listen: "127.0.0.1:8025", proxyHeader: "X-User"}, false},
		"half a certificate":          {consoleOptions{listen: "127.0.0.1:8025", cert: "c.pem"}, false},
		"no port":                     {consoleOptions{listen: "127.0.0.1"}, false},
	} {
		err := c.options.check()
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
		if _, usage := errors.AsType[*usageError](err); err != nil && !usage {
			t.Errorf("%s: %v is no usage error", name, err)
		}
	}
}

func TestConsoleTokenIsShownOnceAndStoredHashed(t *testing.T) {
	var out bytes.Buffer
	a := &app{out: &bytes.Buffer{}, err: &out}
	s, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	users := filepath.Join(t.TempDir(), "users")
	o := consoleOptions{listen: "127.0.0.1:0", users: users, payloadRole: "admin"}
	start := func() string {
		out.Reset()
		w, err := a.newWebConsole(o, []console.Source{{Name: "outbox", Inspector: s, Operator: s}}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.listen(t.Context(), slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		defer w.close(context.WithoutCancel(t.Context()))
		address, token, _ := strings.Cut(strings.Fields(out.String())[1], "/login#token=")
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSuffix(address, "/")+"/api/tables", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if want := map[bool]int{true: http.StatusOK, false: http.StatusUnauthorized}[token != ""]; answer.StatusCode != want {
			t.Errorf("token %q: status %d", token, answer.StatusCode)
		}
		return token
	}
	token := start()
	stored, err := os.ReadFile(users)
	if err != nil || token == "" || strings.Contains(string(stored), token) || !strings.Contains(string(stored), "sha256:") {
		t.Errorf("stored %q, %v", stored, err)
	}
	if info, err := os.Stat(users); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if again := start(); again != "" {
		t.Error("the token is shown twice")
	}
}

func TestConsoleHasItsOwnSmallPool(t *testing.T) {
	for dsn, want := range map[string]string{
		"postgres://app@db/shop":                  "postgres://app@db/shop?application_name=outbox-console&pool_max_conns=4&statement_timeout=8000",
		"postgres://app@db/shop?pool_max_conns=2": "postgres://app@db/shop?application_name=outbox-console&pool_max_conns=2&statement_timeout=8000",
		"sqlite:shop.db":                          "sqlite:shop.db",
	} {
		if got := consoleDSN(dsn, true); got != want {
			t.Errorf("%s: %s", dsn, got)
		}
	}
}
