package writersink_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/sink/writersink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func message(seq int64, payload string) outbox.DispatchedMessage {
	return outbox.DispatchedMessage{
		Meta: outbox.Meta{
			Table: "shop_outbox", TenantID: "acme", Topic: "shop.order.placed.v1", Key: "order-7",
			EventID: uuid.MustParse("0190d3a5-0000-7000-8000-000000000001"), Sequence: seq, Attempts: 1,
			Headers: map[string]string{"source": "web"},
		},
		Payload: json.RawMessage(payload),
	}
}

func TestAMessageIsOneJSONLine(t *testing.T) {
	var out bytes.Buffer
	sink := writersink.New(&out)

	err := sink.Dispatch(t.Context(), message(3, "{\n  \"total\": \"<9 & 10>\"\n}"))
	if err != nil {
		t.Fatal(err)
	}

	want := `{"table":"shop_outbox","tenant_id":"acme","topic":"shop.order.placed.v1","key":"order-7",` +
		`"event_id":"0190d3a5-0000-7000-8000-000000000001","sequence":3,"attempts":1,` +
		`"headers":{"source":"web"},"payload":{"total":"<9 & 10>"}}` + "\n"
	if out.String() != want {
		t.Errorf("got  %s\nwant %s", out.String(), want)
	}
}

func TestEveryNameIsPresentInAnEmptyMessage(t *testing.T) {
	var out bytes.Buffer
	msg := outbox.DispatchedMessage{Payload: json.RawMessage("null")}
	if err := writersink.New(&out).Dispatch(t.Context(), msg); err != nil {
		t.Fatal(err)
	}

	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"table", "tenant_id", "topic", "key", "event_id", "sequence", "attempts", "headers", "payload"} {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is missing in %s", name, out.String())
		}
	}
}

func TestAPayloadThatIsNotJSONIsBase64(t *testing.T) {
	tests := []struct{ name, contentType, payload string }{
		{"declared binary", "application/octet-stream", "\x00\xff\n"},
		{"declared text that looks like JSON", "text/plain", "17"},
		{"broken JSON", "", "{"},
		{"JSON with invalid UTF-8", "", "\"\xff\""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			msg := message(1, tt.payload)
			msg.Meta.ContentType = tt.contentType

			if err := writersink.New(&out).Dispatch(t.Context(), msg); err != nil {
				t.Fatal(err)
			}

			var got struct {
				Payload       json.RawMessage `json:"payload"`
				PayloadBase64 []byte          `json:"payload_base64"`
			}
			if err := json.Unmarshal(out.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			if got.Payload != nil || string(got.PayloadBase64) != tt.payload {
				t.Errorf("payload %s, payload_base64 %q, want only %q", got.Payload, got.PayloadBase64, tt.payload)
			}
		})
	}
}

// failing takes n bytes of the next write and then fails, once.
type failing struct {
	bytes.Buffer
	after int
	err   error
}

func (f *failing) Write(p []byte) (int, error) {
	if f.err == nil {
		return f.Buffer.Write(p)
	}
	err := f.err
	f.err = nil
	n, _ := f.Buffer.Write(p[:min(f.after, len(p))])
	return n, err
}

func TestAWriteErrorIsARetry(t *testing.T) {
	full := errors.New("disk full")
	sink := writersink.New(&failing{err: full})

	err := sink.Dispatch(t.Context(), message(1, "1"))

	if verdict, _ := outbox.Classify(err); verdict != outbox.VerdictRetry || !errors.Is(err, full) {
		t.Errorf("verdict %s of %v, want a retry because of %v", verdict, err, full)
	}
}

func TestATornLineDoesNotSwallowTheNext(t *testing.T) {
	w := &failing{after: 10, err: errors.New("disk full")}
	sink := writersink.New(w)

	errs := sink.DispatchBatch(t.Context(), []outbox.DispatchedMessage{message(1, "1"), message(2, "2")})

	if errs[0] == nil || errs[1] != nil {
		t.Fatalf("errors %v, want only the first", errs)
	}
	_, second, _ := strings.Cut(w.String(), "\n")
	if !json.Valid([]byte(second)) {
		t.Errorf("the second line is not whole: %q", w.String())
	}
}

func TestACancelledContextWritesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer

	err := writersink.New(&out).Dispatch(ctx, message(1, "1"))

	if !errors.Is(err, context.Canceled) || out.Len() > 0 {
		t.Errorf("error %v, wrote %q", err, out.String())
	}
}

func TestConcurrentLinesDoNotMix(t *testing.T) {
	var out bytes.Buffer
	sink := writersink.New(&out)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 50 {
				if err := sink.Dispatch(t.Context(), message(int64(i*50+j), `"text"`)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()

	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 400 {
		t.Fatalf("%d lines, want 400", len(lines))
	}
	for _, l := range lines {
		if !json.Valid([]byte(l)) {
			t.Fatalf("not a JSON line: %q", l)
		}
	}
}

func TestAFileIsAppendedTo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	for seq := range int64(2) {
		sink, err := writersink.OpenFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if errs := sink.DispatchBatch(t.Context(), []outbox.DispatchedMessage{message(seq, "1")}); errs[0] != nil {
			t.Fatal(errs[0])
		}
		if err := sink.Close(); err != nil {
			t.Fatal(err)
		}
	}

	if got := strings.Count(read(t, path), "\n"); got != 2 {
		t.Errorf("%d lines, want 2", got)
	}
}

func TestConcurrentBatchesShareAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	sink, err := writersink.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	var wg sync.WaitGroup
	for i := range int64(16) {
		wg.Go(func() {
			for j := range int64(10) {
				errs := sink.DispatchBatch(t.Context(), []outbox.DispatchedMessage{message(i, "1"), message(j, "2")})
				if errs[0] != nil || errs[1] != nil {
					t.Error(errs)
				}
			}
		})
	}
	wg.Wait()

	if got := strings.Count(read(t, path), "\n"); got != 320 {
		t.Errorf("%d lines, want 320", got)
	}
}

func TestAFileThatEndsInATornLineIsMended(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	if err := os.WriteFile(path, []byte(`{"table":`), 0o600); err != nil {
		t.Fatal(err)
	}
	sink, err := writersink.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()

	if err := sink.Dispatch(t.Context(), message(1, "1")); err != nil {
		t.Fatal(err)
	}

	_, second, _ := strings.Cut(read(t, path), "\n")
	if !json.Valid([]byte(second)) {
		t.Errorf("the new line is not whole: %q", second)
	}
}

func TestAClosedFileFailsEveryMessage(t *testing.T) {
	sink, err := writersink.OpenFile(filepath.Join(t.TempDir(), "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}

	errs := sink.DispatchBatch(t.Context(), []outbox.DispatchedMessage{message(1, "1"), message(2, "2")})

	for i, err := range errs {
		if err == nil {
			t.Errorf("message %d counts as delivered", i)
		}
	}
}

func TestADeviceIsNotSynced(t *testing.T) {
	sink, err := writersink.OpenFile(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()

	if err := sink.Dispatch(t.Context(), message(1, "1")); err != nil {
		t.Error(err)
	}
}

func TestAFileThatCannotBeOpenedIsAnError(t *testing.T) {
	if _, err := writersink.OpenFile(filepath.Join(t.TempDir(), "missing", "file")); err == nil {
		t.Error("no error")
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func ExampleNew() {
	sink := writersink.New(os.Stdout)
	err := sink.Dispatch(context.Background(), outbox.DispatchedMessage{
		Meta: outbox.Meta{
			Table: "shop_outbox", Topic: "shop.order.placed.v1", Key: "order-7",
			EventID: uuid.MustParse("0190d3a5-0000-7000-8000-000000000001"), Sequence: 1, Attempts: 1,
		},
		Payload: json.RawMessage(`{"order": 7}`),
	})
	fmt.Println(err)
	// Output:
	// {"table":"shop_outbox","tenant_id":"","topic":"shop.order.placed.v1","key":"order-7","event_id":"0190d3a5-0000-7000-8000-000000000001","sequence":1,"attempts":1,"headers":{},"payload":{"order":7}}
	// <nil>
}
