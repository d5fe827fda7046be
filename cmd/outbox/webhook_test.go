package main

import (
	"context"
	"database/sql"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/store/sqlitestore"
	"github.com/go-outbox/outbox/webhook"
)

// relay --sink https://… posts signed messages that a receiver can verify.
func TestRelayPostsSignedWebhooks(t *testing.T) {
	dir := t.TempDir()
	secret := webhook.NewSecret()
	secretFile := filepath.Join(dir, "secret")
	if err := os.WriteFile(secretFile, []byte(secret.Reveal()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	verifier, err := webhook.NewVerifier(webhook.Config{Secrets: []webhook.Secret{secret}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	receiver := httptest.NewServer(verifier.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, r.Header.Get("outbox-topic")+" "+string(body))
		w.WriteHeader(http.StatusNoContent)
	})))
	defer receiver.Close()
	path := filepath.Join(dir, "shop.db")
	enqueueOne(t, path)

	args := []string{
		"relay", "--once", "--dsn", "sqlite:" + path, "--table", "shop_outbox",
		"--sink", receiver.URL + "/hook", "--webhook-secret-file", secretFile,
	}
	if code, errs := runArgs(t, append(args, "--webhook-allow", "127.0.0.0/8")); code != exitOK {
		t.Fatalf("exit %d: %s", code, errs)
	}
	if len(got) != 1 || got[0] != `shop.order.placed.v1 {"order":7}` {
		t.Errorf("the receiver got %q", got)
	}
	if code, errs := runArgs(t, args); code != exitUsage || !strings.Contains(errs, "webhook") && !strings.Contains(errs, "http") {
		t.Errorf("plain http without an allow-list: exit %d, %s", code, errs)
	}
}

func TestASecretOfAWebhookMayBeInTheEnvironment(t *testing.T) {
	old, current := webhook.NewSecret(), webhook.NewSecret()
	verifier, err := webhook.NewVerifier(webhook.Config{Secrets: []webhook.Secret{current}})
	if err != nil {
		t.Fatal(err)
	}
	got := 0
	receiver := httptest.NewServer(verifier.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got++ })))
	defer receiver.Close()
	dir := t.TempDir()
	enqueueOne(t, filepath.Join(dir, "shop.db"))
	file := filepath.Join(dir, "outbox.yaml")
	text := "sinks:\n  hooks: {url: '" + receiver.URL + "', secret_env: HOOKS, allow: [127.0.0.0/8]}\nroutes:\n  - {sink: hooks, topics: ['**']}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	once := func(secrets string) (int, string) {
		var errs strings.Builder
		args := []string{"relay", "--once", "--dsn", "sqlite:" + filepath.Join(dir, "shop.db"), "--table", "shop_outbox", "--config", file}
		env := map[string]string{"HOOKS": secrets}
		code := run(t.Context(), args, io.Discard, &errs, func(name string) (string, bool) { return env[name], env[name] != "" })
		return code, errs.String()
	}

	if code, errs := once("whsec_hunter2"); code != exitUsage || !strings.Contains(errs, "secret_env: HOOKS: secret 1") || strings.Contains(errs, "hunter2") {
		t.Errorf("a bad secret: exit %d, %s", code, errs)
	}
	if code, errs := once(old.Reveal() + " " + current.Reveal()); code != exitOK || got != 1 {
		t.Errorf("exit %d, %d requests: %s", code, got, errs)
	}
}

func TestAWebhookWithoutASecretIsRefused(t *testing.T) {
	code, errs := runArgs(t, []string{
		"relay", "--dsn", "sqlite:" + filepath.Join(t.TempDir(), "shop.db"), "--table", "shop_outbox", "--sink", "https://hooks.example/x",
	})
	if code != exitUsage || !strings.Contains(errs, "--webhook-secret-file") {
		t.Errorf("exit %d, %s", code, errs)
	}
}

func runArgs(t *testing.T, args []string) (int, string) {
	t.Helper()
	var errs strings.Builder
	code := run(t.Context(), args, io.Discard, &errs, func(string) (string, bool) { return "", false })
	return code, errs.String()
}

func enqueueOne(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", sqliteDSN(path, true))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	store, err := sqlitestore.New(db, sqlitestore.Config{Table: "shop_outbox"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	msg := outbox.Message{Topic: "shop.order.placed.v1", Payload: []byte(`{"order":7}`)}
	if _, err := store.EnqueueAutocommit(context.WithoutCancel(t.Context()), msg); err != nil {
		t.Fatal(err)
	}
}
