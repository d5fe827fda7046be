package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/notify"
	"github.com/go-outbox/outbox/webhook"
)

// The daemon shows its metrics and its health while it relays.
func TestTheAdminListenerServesMetricsAndHealth(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	dsn := "sqlite:" + filepath.Join(t.TempDir(), "shop.db")
	logs, log := io.Pipe()
	exited := make(chan int, 1)
	go func() {
		defer log.Close()
		exited <- run(ctx, []string{
			"relay", "--dsn", dsn, "--table", "shop_outbox", "--sink", "stdout:",
			"--admin", "127.0.0.1:0", "--metrics", "--metrics-path", "/debug/prometheus",
		}, io.Discard, log, func(string) (string, bool) { return "", false })
	}()
	base := "http://" + adminAddr(t, logs)

	for path, want := range map[string]string{
		"/metrics": `outbox_pending{table="shop_outbox"} 0`, "/debug/prometheus": "outbox_relay_leader", "/healthz": `"ok"`,
	} {
		if code, body := fetch(t, base+path); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s answered %d without %s:\n%.400s", path, code, want, body)
		}
	}
	awaitReady(t, base)
	if code, _ := fetch(t, base+"/debug/pprof/"); code != http.StatusNotFound {
		t.Errorf("/debug/pprof/ answered %d", code)
	}
	cancel()
	if code := <-exited; code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

// relay --notify tells of the messages that died, signed, before it ends.
func TestTheRelayTellsOfDeadMessages(t *testing.T) {
	dir := t.TempDir()
	secret := webhook.NewSecret()
	secretFile := filepath.Join(dir, "secret")
	if err := os.WriteFile(secretFile, []byte(secret.Reveal()), 0o600); err != nil {
		t.Fatal(err)
	}
	verifier, err := webhook.NewVerifier(webhook.Config{Secrets: []webhook.Secret{secret}})
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan notify.Summary, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) })
	mux.Handle("POST /pager", verifier.Receive(func(_ context.Context, msg outbox.DispatchedMessage) error {
		var s notify.Summary
		err := json.Unmarshal(msg.Payload, &s)
		told <- s
		return err
	}))
	server := httptest.NewServer(mux)
	defer server.Close()
	path := filepath.Join(dir, "shop.db")
	enqueueOne(t, path)

	code, errs := runArgs(t, []string{
		"relay", "--once", "--dsn", "sqlite:" + path, "--table", "shop_outbox", "--sink", server.URL + "/orders",
		"--notify", server.URL + "/pager", "--webhook-secret-file", secretFile, "--webhook-allow", "127.0.0.0/8",
	})
	if code != exitOK || len(told) != 1 {
		t.Fatalf("exit %d, %d notifications: %s", code, len(told), errs)
	}
	if s := <-told; s.Count != 1 || s.Groups[0].Topic != "shop.order.placed.v1" || s.Groups[0].Reason != outbox.DeadPermanent {
		t.Errorf("told of %+v", s)
	}
}

// adminAddr reads the address from the log and drains the rest of it.
func adminAddr(t *testing.T, logs io.Reader) string {
	t.Helper()
	found := regexp.MustCompile(`msg="admin listener" addr=(\S+)`)
	lines := bufio.NewScanner(logs)
	for lines.Scan() {
		if m := found.FindStringSubmatch(lines.Text()); m != nil {
			go func() { _, _ = io.Copy(io.Discard, logs) }()
			return m[1]
		}
	}
	t.Fatal("the log names no admin listener")
	return ""
}

func awaitReady(t *testing.T, base string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		code, body := fetch(t, base+"/readyz")
		if code == http.StatusOK {
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("never ready: %d %s", code, body)
		}
	}
}

func fetch(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

func TestAnAdminAddressThatCannotBeHadEndsTheStart(t *testing.T) {
	var errs strings.Builder
	dsn := "sqlite:" + filepath.Join(t.TempDir(), "shop.db")
	code := run(t.Context(), []string{
		"relay", "--dsn", dsn, "--table", "shop_outbox", "--sink", "stdout:", "--admin", "127.0.0.1:99999",
	}, io.Discard, &errs, func(string) (string, bool) { return "", false })
	if code != exitFailure || !strings.Contains(errs.String(), "--admin") {
		t.Errorf("exit %d, %s", code, errs.String())
	}
}
