package relay

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/store/memstore"
)

// R-A17: failures and deaths are logged with the words of the runbook, and without
// the payload.
func TestFailuresAreLoggedWithTheirFieldsAndWithoutPayload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, memstore.Config{})
		sink := &recorder{answer: func(m outbox.DispatchedMessage) error {
			return errors.New("refused: " + string(m.Payload) + " password=hunter2")
		}}
		lines := logOf(t, store, sink, func() { enqueue(t, store, "k", map[string]string{"card": "4111 1111 1111 1111"}) })

		failed, dead := 0, 0
		for _, line := range lines {
			switch line["msg"] {
			case "delivery failed; will retry":
				failed++
			case "message is dead":
				dead++
			default:
				continue
			}
			for _, key := range []string{"table", "topic", "event_id", "tenant_id", "sequence", "attempts", "err"} {
				if _, ok := line[key]; !ok {
					t.Errorf("%q lacks %s: %v", line["msg"], key, line)
				}
			}
			if text, _ := line["err"].(string); strings.Contains(text, "4111") || strings.Contains(text, "hunter2") {
				t.Errorf("the log says %q", text)
			}
		}
		if failed != 1 || dead != 1 {
			t.Errorf("%d failures and %d deaths in the log, want one each", failed, dead)
		}
	})
}

// However much fails, the log stays readable.
func TestAStormOfFailuresIsAFewLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, memstore.Config{})
		sink := &recorder{answer: func(outbox.DispatchedMessage) error { return outbox.Permanent(errors.New("no")) }}
		lines := logOf(t, store, sink, func() {
			for i := range 5000 {
				enqueue(t, store, "", i)
			}
		})
		if len(lines) > 5*linesPerSecond {
			t.Errorf("%d lines for 5000 deaths at once", len(lines))
		}
	})
}

// An outage of ten minutes is a few lines, however it looks and however many messages
// wait.
func TestALongOutageIsAFewLines(t *testing.T) {
	down := errors.New("connection refused")
	for _, outage := range []struct {
		name     string
		err      error
		messages int
	}{
		{"unavailable", outbox.Unavailable(down), 100_000},
		{"every dispatch fails", down, 10_000},
		{"every dispatch asks to wait", outbox.RetryAfter(down, time.Second), 10_000},
	} {
		t.Run(outage.name, func(t *testing.T) {
			if testing.Short() {
				outage.messages = 5000
			}
			synctest.Test(t, func(t *testing.T) {
				store, sink := newStore(t, memstore.Config{}), &recorder{}
				sink.answers(func(outbox.DispatchedMessage) error { return outage.err })
				lines := logOf(t, store, sink, func() {
					for i := range outage.messages {
						enqueue(t, store, "key-"+strconv.Itoa(i%1000), i)
					}
					pass(10 * time.Minute)
					sink.answers(nil)
				})
				counts := map[string]int{}
				for _, line := range lines {
					counts[line["msg"].(string)]++
				}
				if len(lines) > 200 {
					t.Errorf("%d lines: %v", len(lines), counts)
				}
				if opened := counts["destination unavailable; its messages wait"]; opened == 0 || opened > 10 {
					t.Errorf("the log says %d times that the destination is down", opened)
				}
			})
		})
	}
}

// A destination and a database that flap every few milliseconds do so in the log ten
// times a second at most, and failures have lines of their own.
func TestFlappingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var buf bytes.Buffer
		l := &logger{slog: slog.New(slog.NewTextHandler(&buf, nil))}
		for range 10_000 { // ten seconds
			l.circuit(t.Context(), turn{route: "kafka", open: true})
			l.circuit(t.Context(), turn{route: "kafka"})
			l.databaseDown(t.Context(), "read", errors.New("reset"))
			l.databaseUp(t.Context())
			<-time.After(time.Millisecond)
		}
		if n := strings.Count(buf.String(), "\n"); n > 11*linesPerSecond {
			t.Errorf("%d lines in ten seconds", n)
		}
		if !strings.Contains(buf.String(), "suppressed=") {
			t.Error("nobody is told of what is left out")
		}
		buf.Reset()
		l.settled(t.Context(), &outbox.Meta{}, outbox.Outcome{Kind: outbox.Dead})
		if !strings.Contains(buf.String(), "message is dead") {
			t.Error("a death is crowded out")
		}
	})
}

// A circuit is of a shard: it ends when the shard is no longer worked here.
func TestACircuitEndsWithItsShift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, memstore.Config{})
		sink := &recorder{answer: func(outbox.DispatchedMessage) error { return outbox.Unavailable(errors.New("down")) }}
		open := 0
		_, stop := start(t, store, sink, Config{Hooks: Hooks{Circuit: func(_, _ string, opened bool) {
			if open--; opened {
				open += 2
			}
		}}})
		enqueue(t, store, "", 1)
		pass(10 * time.Second)
		if open != 1 {
			t.Errorf("%d circuits are open", open)
		}
		stop()
		if open != 0 {
			t.Errorf("%d circuits are open in a relay that has stopped", open)
		}
	})
}

// A route that the relay pauses by itself is one line, and a circuit's reason echoes no
// payload.
func TestAPausedRouteIsLoggedAndEchoesNoPayload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, memstore.Config{})
		sink := &recorder{answer: func(m outbox.DispatchedMessage) error {
			return outbox.Unavailable(outbox.ErrGone.Wrap(errors.New("gone: " + string(m.Payload))))
		}}
		lines := logOf(t, store, sink, func() { enqueue(t, store, "", map[string]string{"card": "4111 1111 1111 1111"}) })
		paused := 0
		for _, line := range lines {
			if line["msg"] == "route paused; its messages wait until it is resumed" {
				paused++
			}
			if text, _ := line["err"].(string); strings.Contains(text, "4111") {
				t.Errorf("the log says %q", text)
			}
		}
		if paused != 1 {
			t.Errorf("%d lines say that the route is paused", paused)
		}
	})
}

// S-28: a row can be written with any topic and tenant.
func TestALineCannotBeForged(t *testing.T) {
	var buf bytes.Buffer
	l := &logger{slog: slog.New(slog.NewTextHandler(&buf, nil))}
	forged := "a\nlevel=ERROR msg=\"all is lost\"\x1b[2J"
	l.settled(t.Context(), &outbox.Meta{Topic: forged, TenantID: forged}, outbox.Outcome{Kind: outbox.Dead})
	if n := strings.Count(buf.String(), "\n"); n != 1 || strings.Contains(buf.String(), "\x1b") {
		t.Errorf("%d lines: %q", n, buf.String())
	}
}

func TestTenantsCanBeMasked(t *testing.T) {
	var buf bytes.Buffer
	l := &logger{slog: slog.New(slog.NewTextHandler(&buf, &slog.HandlerOptions{ReplaceAttr: MaskTenant}))}
	l.settled(t.Context(), &outbox.Meta{TenantID: "acme", Topic: "a.b.c.v1"}, outbox.Outcome{Kind: outbox.Dead})
	if s := buf.String(); strings.Contains(s, "acme") || !strings.Contains(s, "tenant_id=[masked]") || !strings.Contains(s, "topic=a.b.c.v1") {
		t.Errorf("the log says %s", s)
	}
}

// logOf returns what a relay logs while it delivers what enqueue wrote.
func logOf(t *testing.T, store *memstore.Store, sink *recorder, enqueue func()) []map[string]any {
	t.Helper()
	var mu sync.Mutex
	var buf bytes.Buffer
	_, stop := start(t, store, sink, Config{
		Log:     slog.New(slog.NewJSONHandler(lockedWriter{&mu, &buf}, nil)),
		Retries: outbox.Retries{Default: outbox.RetryPolicy{MaxAttempts: 2}},
	})
	enqueue()
	pass(10 * time.Second)
	stop()
	var lines []map[string]any
	for text := range strings.Lines(buf.String()) {
		if n := strings.Count(text, `"table":`); n != 1 {
			t.Errorf("the table is named %d times in %s", n, text)
		}
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	return lines
}
