package natssink_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/sink/natssink"
)

func TestADuplicateIsDeliveredAndReported(t *testing.T) {
	var told []outbox.Meta
	s, sink := sharedSink(t, jetstream.StreamConfig{}, natssink.Config{
		Duplicate: func(meta outbox.Meta) { told = append(told, meta) },
	})
	msg := message(s.topic)

	if err := sink.Dispatch(t.Context(), msg); err != nil {
		t.Fatal(err)
	}
	if len(told) != 0 || sink.Duplicates() != 0 {
		t.Fatalf("the first of its kind was called a duplicate: %v", told)
	}
	msg.Meta.Attempts = 2
	if err := sink.Dispatch(t.Context(), msg); err != nil {
		t.Fatal(err)
	}

	if len(told) != 1 || told[0].EventID != msg.Meta.EventID || told[0].Attempts != 2 || sink.Duplicates() != 1 {
		t.Errorf("told %v, counted %d, want the second attempt", told, sink.Duplicates())
	}
	if got := s.received(t); len(got) != 1 {
		t.Errorf("it is stored %d times, want once", len(got))
	}
}

func TestAReplayIsNoDuplicate(t *testing.T) {
	s, sink := sharedSink(t, jetstream.StreamConfig{}, natssink.Config{})
	msg := message(s.topic)
	for replays := range 3 {
		msg.Meta.Replays = replays
		if err := sink.Dispatch(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
	}

	if got := s.received(t); len(got) != 3 || sink.Duplicates() != 0 {
		t.Errorf("stored %d times with %d duplicates, want 3 and 0", len(got), sink.Duplicates())
	}
}

func TestAMissingStreamIsOneTopicsTroubleOnly(t *testing.T) {
	s, sink := sharedSink(t, jetstream.StreamConfig{}, natssink.Config{})
	msgs := []outbox.DispatchedMessage{message(s.topic), message("nobody.takes.this.v1"), message(s.topic), message("nobody.takes.this.v1")}

	errs := sink.DispatchBatch(t.Context(), msgs)

	for i, err := range errs {
		verdict, _ := outbox.Classify(err)
		want := outbox.VerdictDelivered
		if i%2 == 1 {
			want = outbox.VerdictRetry
			if err == nil || !strings.Contains(err.Error(), "no stream takes subject nobody.takes.this.v1") {
				t.Errorf("message %d: %v", i, err)
			}
		}
		if verdict != want {
			t.Errorf("message %d: %s, want %s: %v", i, verdict, want, err)
		}
	}
	if got := s.received(t); len(got) != 2 {
		t.Errorf("%d messages arrived, want 2", len(got))
	}
}

func TestAMessageThatTheServerCannotTakeIsPermanent(t *testing.T) {
	s, sink := sharedSink(t, jetstream.StreamConfig{}, natssink.Config{})
	large, next := message(s.topic), message(s.topic)
	large.Payload = []byte(`"` + strings.Repeat("x", 1<<20) + `"`)

	errs := sink.DispatchBatch(t.Context(), []outbox.DispatchedMessage{large, next})

	if !outbox.IsPermanent(errs[0]) || !errors.Is(errs[0], nats.ErrMaxPayload) {
		t.Errorf("got %v, want a permanent error", errs[0])
	}
	if errs[1] != nil {
		t.Errorf("its neighbour failed: %v", errs[1])
	}
}

func TestSubjectsThatAreNoPlainOnesAreRefusedBeforeTheSocket(t *testing.T) {
	url := testenv.NATS(t)
	s, sink := sharedSink(t, jetstream.StreamConfig{}, natssink.Config{})
	spy := connect(t, url)
	seen, err := spy.SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	if err := spy.Flush(); err != nil {
		t.Fatal(err)
	}

	for _, topic := range []string{
		"*", ">", "a.*", "a.>", "a.*.b", "a>b", "a*b",
		".", ".a", "a.", "a..b", "",
		"a b", "a\tb", "a\r\nPUB x 0", "a\x00b", "é",
		"$JS.API.STREAM.PURGE." + s.name, "$SYS.REQ.SERVER.PING", "$KV.b.k", "_INBOX.x",
	} {
		err := sink.Dispatch(t.Context(), message(topic))
		if !outbox.IsPermanent(err) || !errors.Is(err, outbox.ErrInvalidTopic) {
			t.Errorf("%q: got %v, want a permanent ErrInvalidTopic", topic, err)
		}
	}

	// In order on the sink's connection: had one got through, it came before this.
	last := message(s.topic)
	if err := sink.Dispatch(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	for {
		msg, err := seen.NextMsg(5 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		id := msg.Header.Get("outbox-event-id")
		if id == last.Meta.EventID.String() {
			return
		}
		if id != "" && !strings.HasPrefix(msg.Subject, "t") { // other tests' streams start with it
			t.Errorf("%q was published", msg.Subject)
		}
	}
}

func TestAFullStreamIsAnOutageAndAFullSubjectIsNot(t *testing.T) {
	tests := []struct {
		name string
		cfg  jetstream.StreamConfig
		want outbox.Verdict
	}{
		{"stream", jetstream.StreamConfig{MaxMsgs: 1, Discard: jetstream.DiscardNew}, outbox.VerdictUnavailable},
		{"bytes", jetstream.StreamConfig{MaxBytes: 1000, Discard: jetstream.DiscardNew}, outbox.VerdictUnavailable},
		{"subject", jetstream.StreamConfig{MaxMsgsPerSubject: 1, DiscardNewPerSubject: true, Discard: jetstream.DiscardNew}, outbox.VerdictRetry},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, sink := sharedSink(t, tt.cfg, natssink.Config{})
			var err error
			for range 5 {
				if err = sink.Dispatch(t.Context(), message(s.topic)); err != nil {
					break
				}
			}

			if got, _ := outbox.Classify(err); got != tt.want {
				t.Errorf("%s, want %s: %v", got, tt.want, err)
			}
		})
	}
}

func TestAForbiddenSubjectIsNamed(t *testing.T) {
	server := testenv.PrivateNATS(t, `authorization { users: [{ user: u, password: canary,
		permissions: { publish: ["$JS.API.>", "allowed.>"], subscribe: ">" } }] }`)
	sink := open(t, strings.Replace(server.URL(), "nats://", "nats://u:canary@", 1)+"?timeout=500ms")
	awaitPing(t, sink, true)

	err := sink.Dispatch(t.Context(), message("forbidden.order.placed.v1"))

	if err == nil || outbox.IsPermanent(err) || outbox.IsUnavailable(err) {
		t.Errorf("got %v, want a retry", err)
	}
	if text := err.Error(); !strings.Contains(strings.ToLower(text), "permissions violation") || strings.Contains(text, "canary") {
		t.Errorf("text %q", text)
	}
}

func TestAServerWithoutJetStreamIsUnavailable(t *testing.T) {
	server := testenv.PrivateNATS(t, "jetstream: disabled")
	sink := open(t, server.URL())
	var err error
	eventually(t, func(ctx context.Context) error {
		if err = sink.Ping(ctx); err != nil && strings.Contains(err.Error(), "connection is") {
			return err
		}
		return nil
	})
	if !outbox.IsUnavailable(err) {
		t.Errorf("ping: %v", err)
	}

	if err := sink.Dispatch(t.Context(), message("a.b.c.v1")); !outbox.IsUnavailable(err) {
		t.Errorf("got %v, want unavailable", err)
	}
}

// More than the kernel takes for a server that does not read.
func TestABatchThatDoesNotFitTheSocketKeepsItsDeadline(t *testing.T) {
	server := testenv.PrivateNATS(t)
	s := newStream(t, server.URL(), jetstream.StreamConfig{})
	sink := open(t, server.URL())
	awaitPing(t, sink, true)
	msgs := messages(s.topic, 300)
	for i := range msgs {
		msgs[i].Payload = []byte(`"` + strings.Repeat("x", 200<<10) + `"`)
	}
	server.Pause()
	defer server.Resume()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	start := time.Now()

	errs := sink.DispatchBatch(ctx, msgs)

	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	for i, err := range errs {
		if err == nil || outbox.IsPermanent(err) {
			t.Fatalf("message %d: %v", i, err)
		}
	}
}

func TestAClosedSinkSendsNothing(t *testing.T) {
	s, sink := sharedSink(t, jetstream.StreamConfig{}, natssink.Config{})
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}

	if err := sink.Dispatch(t.Context(), message(s.topic)); err == nil || outbox.IsPermanent(err) {
		t.Errorf("got %v", err)
	}
	if got := s.received(t); len(got) != 0 {
		t.Errorf("%d messages arrived", len(got))
	}
}

func TestConsumersParseWhatASinkPublished(t *testing.T) {
	s, sink := sharedSink(t, jetstream.StreamConfig{}, natssink.Config{})
	sent := message(s.topic)
	sent.Meta.Headers = map[string]string{"ce_id": "7", "x-source": "checkout"}
	sent.Meta.CreatedAt = time.Date(2026, 11, 15, 12, 0, 0, 123456000, time.UTC)
	sent.Meta.Key = "ключ 7"
	if err := sink.Dispatch(t.Context(), sent); err != nil {
		t.Fatal(err)
	}
	conn := connect(t, s.url)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := js.CreateConsumer(t.Context(), s.name, jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		t.Fatal(err)
	}
	delivery, err := consumer.Next(jetstream.FetchMaxWait(5 * time.Second))
	if err != nil {
		t.Fatal(err)
	}

	got, err := natssink.Parse(delivery)
	if err != nil {
		t.Fatal(err)
	}
	if got.Meta.EventID != sent.Meta.EventID || got.Meta.Key != sent.Meta.Key || !got.Meta.CreatedAt.Equal(sent.Meta.CreatedAt) ||
		string(got.Payload) != string(sent.Payload) || got.Meta.Topic != sent.Meta.Topic {
		t.Errorf("got %+v, want %+v", got, sent)
	}
	if len(got.Meta.Headers) != 2 || got.Meta.Headers["ce_id"] != "7" {
		t.Errorf("headers %v, want the message's own", got.Meta.Headers)
	}
}

type foreign struct{}

func (foreign) Headers() nats.Header { return nats.Header{"x": {"y"}} }
func (foreign) Data() []byte         { return []byte("z") }

func TestADeliveryOfSomebodyElseIsAnError(t *testing.T) {
	if _, err := natssink.Parse(foreign{}); !errors.Is(err, outbox.ErrInvalidMessage) {
		t.Errorf("got %v", err)
	}
}

func TestNewReportsEveryMistakeAtOnce(t *testing.T) {
	_, err := natssink.New(nil, natssink.Config{Timeout: -1, Domain: "a.*"})
	for _, want := range []string{"connection", "timeout", "domain"} {
		if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, outbox.ErrInvalidConfig) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

// sharedSink is a sink with a stream of its own on the shared server.
func sharedSink(t *testing.T, streamCfg jetstream.StreamConfig, cfg natssink.Config) (*stream, *natssink.Sink) {
	t.Helper()
	url := testenv.NATS(t)
	s := newStream(t, url, streamCfg)
	t.Cleanup(func() {
		_ = withJetStream(url, func(js jetstream.JetStream) error {
			return js.DeleteStream(context.WithoutCancel(t.Context()), s.name)
		})
	})
	sink, err := natssink.New(connect(t, url), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sink.Close() })
	return s, sink
}
