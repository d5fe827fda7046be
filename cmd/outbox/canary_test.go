package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/config"
	"github.com/go-outbox/outbox/metrics"
	"github.com/go-outbox/outbox/notify"
	"github.com/go-outbox/outbox/otelhooks"
	"github.com/go-outbox/outbox/relay"
	"github.com/go-outbox/outbox/store/memstore"
	"github.com/go-outbox/outbox/webhook"
)

// canary is what nobody may ever see. It looks like nothing: no pattern finds it.
const canary = "c4n4ryq7x2"

// outlets is everything that was said, by who said it.
type outlets map[string]string

func (o outlets) check(t *testing.T) {
	t.Helper()
	for name, text := range o {
		if i := strings.Index(text, canary); i >= 0 {
			t.Errorf("%s shows the secret: …%s…", name, text[max(0, i-120):min(len(text), i+60)])
		}
	}
}

// S-13: a secret in a sink's URL, in its secret file, in a header and in the payload is in
// no log, metric, health report, error text or command output, also while the sink fails.
func TestNoSecretOfASinkIsShown(t *testing.T) {
	dir := t.TempDir()
	secrets := filepath.Join(dir, "secrets")
	secret := webhook.NewSecret().Reveal()
	if err := os.WriteFile(secrets, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, sink := range []string{
		"kafka://relay:" + canary + "@127.0.0.1:1?sasl=plain&tls=true",
		"kafka://relay:" + canary + "@127.0.0.1:1?sasl=scram-sha-512",
		"nats://relay:" + canary + "@127.0.0.1:1",
		"nats://" + canary + "@127.0.0.1:1",
		"amqp://relay:" + canary + "@127.0.0.1:1/?exchange=shop",
		"redis://relay:" + canary + "@127.0.0.1:1",
		"http://127.0.0.1:1/hooks/" + canary + "?token=" + canary,
	} {
		t.Run(sink[:5]+fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(dir, fmt.Sprintf("%d.db", i))
			id := enqueueCanary(t, path)
			env := map[string]string{
				"OUTBOX_DSN": "sqlite:" + path, "OUTBOX_RELAY_TABLES": "shop_outbox", "OUTBOX_SINK": sink,
				"OUTBOX_WEBHOOK_SECRET_FILE": secrets, "OUTBOX_WEBHOOK_ALLOW": "127.0.0.0/8",
				"OUTBOX_RELAY_DISPATCH_TIMEOUT": "2s", "OUTBOX_RELAY_DRAIN_TIMEOUT": "1s", "OUTBOX_LOG_LEVEL": "debug",
			}
			said := daemon(t, env)
			for _, args := range [][]string{{"status"}, {"list"}, {"config", "print"}, {"doctor", "--sinks"}, {"explain", id.String()}} {
				said[strings.Join(args, " ")] = output(t, env, args...)
			}
			said["the table"] = stored(t, path, id)
			said.check(t)
			for name, text := range said {
				if strings.Contains(text, secret) {
					t.Errorf("%s shows the webhook secret", name)
				}
			}
		})
	}
}

// daemon runs a relay whose sink fails and returns what it says.
func daemon(t *testing.T, env map[string]string) outlets {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all bytes.Buffer
	logs, log := io.Pipe()
	exited := make(chan int, 1)
	go func() {
		defer log.Close()
		exited <- run(ctx, []string{"relay", "--admin", "127.0.0.1:0"}, io.Discard, io.MultiWriter(log, &all), lookup(env))
	}()
	base := "http://" + adminAddr(t, logs)
	failed := regexp.MustCompile(`outbox_dispatch_total\{result="failure",[^}]*\} [1-9]`)
	said := outlets{}
	for range 600 {
		_, said["/metrics"] = fetch(t, base+"/metrics")
		if failed.MatchString(said["/metrics"]) {
			break
		}
		<-time.After(20 * time.Millisecond)
	}
	if !failed.MatchString(said["/metrics"]) {
		t.Error("nothing has failed")
	}
	_, said["/readyz"] = fetch(t, base+"/readyz")
	_, said["/healthz"] = fetch(t, base+"/healthz")
	cancel()
	<-exited
	said["the log"] = all.String()
	return said
}

func lookup(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	}
}

// output is what a command prints, on either stream.
func output(t *testing.T, env map[string]string, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	run(t.Context(), args, &out, &out, lookup(env))
	return out.String()
}

// enqueueCanary writes a message that has the secret in every part that may hold one.
func enqueueCanary(t *testing.T, path string) uuid.UUID {
	t.Helper()
	id := uuid.New()
	withSQLite(t, path, func(s outboxStore) {
		if _, err := s.EnqueueAutocommit(t.Context(), outbox.Message{
			EventID: id, Topic: "shop.order.placed.v1", Payload: []byte(`{"card":"` + canary + `"}`),
			Headers: map[string]string{"x-session": canary},
		}); err != nil {
			t.Fatal(err)
		}
	})
	return id
}

// outboxStore is a store that messages can be put into.
type outboxStore interface {
	store
	EnqueueAutocommit(ctx context.Context, msg outbox.Message) (int64, error)
}

func withSQLite(t *testing.T, path string, use func(outboxStore)) {
	t.Helper()
	db, err := openSQLite(path, true)
	if err != nil {
		t.Fatal(err)
	}
	defer db.close()
	s, err := db.table("shop_outbox")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	use(s.(outboxStore))
}

// stored is what the table keeps about failures.
func stored(t *testing.T, path string, id uuid.UUID) string {
	t.Helper()
	var text strings.Builder
	withSQLite(t, path, func(s outboxStore) { text.WriteString(failuresOf(t, s, id)) })
	return text.String()
}

func failuresOf(t *testing.T, s outbox.Inspector, id uuid.UUID) string {
	t.Helper()
	rec, err := s.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	attempts, err := s.Attempts(t.Context(), rec.Sequence)
	if err != nil {
		t.Fatal(err)
	}
	audit, err := s.Audit(t.Context(), outbox.AuditFilter{})
	if err != nil {
		t.Fatal(err)
	}
	stats, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s %+v %+v %+v", rec.LastError, attempts, audit, stats)
}

// Databases and sinks that cannot be reached, or whose addresses cannot be read, are
// complained about without their passwords.
func TestNoSecretOfAnAddressIsShown(t *testing.T) {
	addresses := []string{
		"postgres://relay:" + canary + "@127.0.0.1:1/shop?connect_timeout=1",
		"postgres://relay:" + canary + "@127.0.0.1:port/shop",
		"postgres://relay:" + canary + "%zz@127.0.0.1/shop",
		"mysql://relay:" + canary + "@127.0.0.1:1/shop",
		"mysql://relay:" + canary + "%zz@127.0.0.1/shop",
		"mssql://relay:" + canary + "@127.0.0.1/shop",
		"relay:" + canary + "@tcp(127.0.0.1:1)/shop",
		"kafka://relay:" + canary + "@127.0.0.1:port", "nats://relay:" + canary + "%zz@h", "amqp://relay:" + canary + "@h:port",
		"redis://relay:" + canary + "@h:port", "https://relay:" + canary + "@hooks.example/", "https://hooks.example:port/" + canary,
	}
	for _, address := range addresses {
		for _, as := range []string{"OUTBOX_DSN", "OUTBOX_SINK"} {
			env := map[string]string{
				"OUTBOX_DSN": "sqlite:" + filepath.Join(t.TempDir(), "shop.db"), "OUTBOX_RELAY_TABLES": "shop_outbox", "OUTBOX_SINK": "stdout:",
			}
			env[as] = address
			said := outlets{}
			for _, args := range [][]string{{"relay", "--once"}, {"status"}, {"doctor", "--sinks"}, {"config", "print"}, {"migrate", "status"}} {
				if as == "OUTBOX_SINK" && (args[0] == "relay" && strings.HasSuffix(address, "127.0.0.1:1")) {
					continue
				}
				said[as+" in "+strings.Join(args, " ")] = output(t, env, args...)
			}
			said.check(t)
		}
	}
}

// Every setting that holds text is printed without its secret.
func TestPrintedSettingsHideTheirSecrets(t *testing.T) {
	for _, s := range config.Settings {
		if !s.Secret {
			continue
		}
		env := map[string]string{s.Env[0]: "postgres://relay:" + canary + "@db/shop"}
		outlets{s.Key: output(t, env, "config", "print"), s.Key + " as JSON": output(t, env, "config", "print", "--json")}.check(t)
	}
}

// S-14: whatever a sink or a database says in its errors, no outlet of a relay repeats the
// secrets and the payload in it.
func TestNoSecretOfAnErrorIsShown(t *testing.T) {
	payload := `{"card":"` + canary + `","name":"Ada Lovelace"}`
	for _, err := range []error{
		&url.Error{Op: "Post", URL: "https://hooks.example/services/" + canary, Err: errors.New("connection refused")},
		fmt.Errorf("dispatch: %w", &url.Error{Op: "Post", URL: "https://h/?key=" + canary, Err: errors.New("eof")}),
		errors.New(`Post "https://hooks.example/services/` + canary + `": eof`),
		errors.New("dial postgres://relay:" + canary + "@db/shop: refused"),
		errors.New("relay:" + canary + "@tcp(db:3306)/shop: access denied"),
		errors.New("SASL PLAIN: password=" + canary + " rejected"),
		errors.New("sasl_password: " + canary),
		errors.New("401: Authorization: Bearer " + canary),
		errors.New(`{"error":"bad key","api_key":"` + canary + `"}`),
		errors.New("refused: " + payload),
		fmt.Errorf("cannot parse %q", payload),
		errors.New("token=" + canary + "\x1b[2J\nlevel=ERROR"),
	} {
		for _, failure := range []error{err, outbox.Permanent(err), outbox.Unavailable(err)} {
			synctest.Test(t, func(t *testing.T) { relayFailing(t, failure, payload).check(t) })
		}
	}
}

// relayFailing relays one message that fails, and returns what everybody says.
func relayFailing(t *testing.T, failure error, payload string) outlets {
	t.Helper()
	var mu sync.Mutex
	var log, told bytes.Buffer
	logger := slog.New(slog.NewJSONHandler(locked{&mu, &log}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	m := metrics.New(metrics.Config{Aliases: true, Sample: time.Nanosecond})
	n, err := notify.New(notify.Config{Log: logger, Gather: time.Second, To: outbox.DispatcherFunc(
		func(_ context.Context, msg outbox.DispatchedMessage) error {
			told.Write(msg.Payload)
			return &url.Error{Op: "Post", URL: "https://pager.example/" + canary, Err: errors.New("connection refused")}
		})})
	if err != nil {
		t.Fatal(err)
	}
	store, err := memstore.New(memstore.Config{Table: "shop_outbox"})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Watch(store, failingTable{failure}); err != nil {
		t.Fatal(err)
	}
	id := uuid.New()
	if _, err := store.EnqueueAutocommit(t.Context(), outbox.Message{
		EventID: id, Topic: "shop.order.placed.v1", TenantID: "acme", Key: "k", Payload: []byte(payload),
		Headers: map[string]string{"x-session": canary},
	}); err != nil {
		t.Fatal(err)
	}
	sink := otelhooks.Wrap(outbox.DispatcherFunc(func(context.Context, outbox.DispatchedMessage) error { return failure }),
		otelhooks.Config{TracerProvider: provider})
	r, err := relay.New(store, sink, relay.Config{
		Log: logger, Hooks: metrics.Chain(m.Hooks(), n.Hooks()), Retries: outbox.Retries{Default: outbox.RetryPolicy{MaxAttempts: 2}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = r.Run(ctx) })
	running.Go(func() { _ = n.Run(ctx) })
	<-time.After(time.Minute)
	said := outlets{"the table": failuresOf(t, store, id)}
	admin := m.Admin(metrics.AdminConfig{Health: metrics.HealthConfig{
		Instance: "me", Checks: []metrics.Check{{Name: "scheduler", Check: func(context.Context) error { return failure }}},
	}})
	for _, path := range []string{"/metrics", "/readyz", "/healthz"} {
		w := httptest.NewRecorder()
		admin.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", path, nil))
		said[path] = w.Body.String()
	}
	cancel()
	running.Wait()
	mu.Lock()
	defer mu.Unlock()
	spans, err := json.Marshal(exporter.GetSpans())
	if err != nil {
		t.Fatal(err)
	}
	said["the log"], said["the traces"], said["the notification"] = log.String(), string(spans), told.String()
	if len(exporter.GetSpans()) == 0 || log.Len() == 0 {
		t.Error("nothing was said")
	}
	return said
}

// failingTable cannot be looked at.
type failingTable struct{ err error }

func (f failingTable) Table() string { return "broken_outbox" }

func (f failingTable) Stats(context.Context) (outbox.Stats, error) { return outbox.Stats{}, f.err }

type locked struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
