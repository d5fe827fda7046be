package writersink_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/sink/sinktest"
	"github.com/go-outbox/outbox/sink/writersink"
)

func TestContract(t *testing.T) {
	sinktest.Run(t, func(*testing.T) sinktest.Harness {
		w := &flakyWriter{}
		return sinktest.Harness{
			Sink:     writersink.New(w),
			Received: func(t *testing.T) []sinktest.Received { return readLines(t, w.bytes()) },
			Break:    w.fail,
			Features: sinktest.Features{AnyText: true, Guesses: true},
		}
	})
}

// A flakyWriter is a buffer that can be made to fail.
type flakyWriter struct {
	mu     sync.Mutex
	buf    bytes.Buffer
	broken bool
}

func (w *flakyWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken {
		n, _ := w.buf.Write(p[:len(p)/2])
		return n, errors.New("no space left on device")
	}
	return w.buf.Write(p)
}

func (w *flakyWriter) fail(*testing.T) (restore func()) {
	set := func(broken bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.broken = broken
	}
	set(true)
	return func() { set(false) }
}

func (w *flakyWriter) bytes() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Clone(w.buf.Bytes())
}

// readLines reads messages as a script would. Torn lines are passed over.
func readLines(t *testing.T, text []byte) (found []sinktest.Received) {
	t.Helper()
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var l struct {
			TenantID string            `json:"tenant_id"`
			Topic    string            `json:"topic"`
			Key      string            `json:"key"`
			EventID  uuid.UUID         `json:"event_id"`
			Type     string            `json:"event_type"`
			Version  int               `json:"event_version"`
			Parent   string            `json:"traceparent"`
			State    string            `json:"tracestate"`
			Sequence int64             `json:"sequence"`
			Attempts int               `json:"attempts"`
			Headers  map[string]string `json:"headers"`
			Payload  json.RawMessage   `json:"payload"`
			Base64   []byte            `json:"payload_base64"`
		}
		if json.Unmarshal(lines.Bytes(), &l) != nil {
			continue
		}
		if l.Base64 != nil {
			l.Payload = l.Base64
		}
		found = append(found, sinktest.Received{Message: outbox.DispatchedMessage{
			Meta: outbox.Meta{
				TenantID: l.TenantID, Topic: l.Topic, Key: l.Key, EventID: l.EventID, EventType: l.Type, EventVersion: l.Version, TraceParent: l.Parent, TraceState: l.State,
				Sequence: l.Sequence, Attempts: l.Attempts, Headers: l.Headers,
			},
			Payload: l.Payload,
		}})
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return found
}
