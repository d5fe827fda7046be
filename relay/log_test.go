package relay

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
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
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	return lines
}
