package notify_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/notify"
	"github.com/go-outbox/outbox/relay"
	"github.com/go-outbox/outbox/sink/webhooksink"
	"github.com/go-outbox/outbox/store/memstore"
	"github.com/go-outbox/outbox/webhook"
)

// A desk is where notifications arrive.
type desk struct {
	mu       sync.Mutex
	answer   func(ctx context.Context) error
	arrived  []notify.Summary
	attempts int
}

func (d *desk) Dispatch(ctx context.Context, msg outbox.DispatchedMessage) error {
	d.mu.Lock()
	answer := d.answer
	d.attempts++
	d.mu.Unlock()
	if answer != nil {
		if err := answer(ctx); err != nil {
			return err
		}
	}
	var s notify.Summary
	if err := json.Unmarshal(msg.Payload, &s); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if msg.Meta.Topic != notify.Topic || msg.Meta.EventID != s.ID {
		return fmt.Errorf("topic %s, event %s", msg.Meta.Topic, msg.Meta.EventID)
	}
	d.arrived = append(d.arrived, s)
	return nil
}

func (d *desk) answers(f func(ctx context.Context) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answer = f
}

func (d *desk) count() (notifications, deaths int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.arrived {
		deaths += s.Count
	}
	return len(d.arrived), deaths
}

func start(t *testing.T, cfg notify.Config) (n *notify.Notifier, stop func()) {
	t.Helper()
	n, err := notify.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return n, stop
}

// die reports a death through the hooks.
func die(n *notify.Notifier, topic string) {
	meta := &outbox.Meta{
		Table: "shop_outbox", Topic: topic, EventID: uuid.New(), Sequence: 42,
		TenantID: "tenant-canary", Key: "key-canary", Headers: map[string]string{"x": "header-canary"},
	}
	n.Hooks().Settled(meta, outbox.Outcome{Kind: outbox.Dead, Reason: outbox.DeadPermanent, Attempts: 2, Spent: 1, Error: "400 password=hunter2"})
}

// pass lets virtual time go by.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestAThousandDeathsAreOneNotification(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d desk
		n, _ := start(t, notify.Config{To: &d})
		for i := range 1000 {
			die(n, "topic-"+strconv.Itoa(i%2))
			if i%4 == 0 {
				die(n, "topic-2")
			}
		}
		n.Hooks().Settled(&outbox.Meta{Topic: "topic-0"}, outbox.Outcome{Kind: outbox.Published})
		n.Hooks().Settled(&outbox.Meta{Topic: "topic-0"}, outbox.Outcome{Kind: outbox.Retry})
		pass(time.Minute)

		if len(d.arrived) != 1 {
			t.Fatalf("%d notifications", len(d.arrived))
		}
		s := d.arrived[0]
		if s.Count != 1250 || len(s.Groups) != 3 || s.Others != 0 {
			t.Errorf("%d deaths in %d groups and %d others", s.Count, len(s.Groups), s.Others)
		}
		if g := s.Groups[0]; g.Count != 500 || len(g.Messages) != 3 || g.Table != "shop_outbox" || g.Reason != outbox.DeadPermanent {
			t.Errorf("the largest group is %+v", g)
		}
		if m := s.Groups[0].Messages[0]; m.Sequence != 42 || m.Attempts != 3 || m.EventID == uuid.Nil {
			t.Errorf("a message is %+v", m)
		}
		text := fmt.Sprintf("%+v", s)
		for _, secret := range []string{"canary", "hunter2"} {
			if strings.Contains(text, secret) {
				t.Errorf("the notification shows %s: %s", secret, text)
			}
		}
		die(n, "topic-0")
		pass(time.Minute)
		if len(d.arrived) != 2 || d.arrived[1].ID == s.ID || d.arrived[1].Count != 1 {
			t.Errorf("the next death is told of as %+v", d.arrived[1:])
		}
	})
}

func TestADestinationThatHangsDelaysNoDeliveryAndLosesNoCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := desk{answer: func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }}
		n, _ := start(t, notify.Config{To: &d})
		store, err := memstore.New(memstore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		published := 0
		hooks := n.Hooks()
		settled := hooks.Settled
		hooks.Settled = func(meta *outbox.Meta, o outbox.Outcome) {
			settled(meta, o)
			if o.Kind == outbox.Published {
				published++
			}
		}
		r, err := relay.New(store, outbox.DispatcherFunc(func(_ context.Context, msg outbox.DispatchedMessage) error {
			if msg.Meta.Topic == "shop.order.refused.v1" {
				return outbox.Permanent(errors.New("no"))
			}
			return nil
		}), relay.Config{Hooks: hooks})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		for range 10 {
			for i := range 100 {
				topic := "shop.order.placed.v1"
				if i%20 == 0 {
					topic = "shop.order.refused.v1"
				}
				if _, err := store.EnqueueAutocommit(t.Context(), outbox.Message{Topic: topic, Payload: []byte(`{}`)}); err != nil {
					t.Fatal(err)
				}
			}
			pass(time.Minute)
		}
		if published != 950 {
			t.Errorf("%d messages were published while nobody could be notified", published)
		}
		if d.attempts < 5 || d.attempts > 20 {
			t.Errorf("%d attempts in ten minutes", d.attempts)
		}
		d.answers(nil)
		pass(3 * time.Minute)
		if notifications, deaths := d.count(); notifications != 2 || deaths != 50 {
			t.Errorf("%d deaths in %d notifications, want 50 in 2", deaths, notifications)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestTheSameNotificationIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		first := true
		n, _ := start(t, notify.Config{To: outbox.DispatcherFunc(func(_ context.Context, msg outbox.DispatchedMessage) error {
			seen = append(seen, msg.Meta.EventID.String()+string(msg.Payload))
			if first {
				first = false
				return errors.New("the answer was lost")
			}
			return nil
		})})
		die(n, "a")
		pass(10500 * time.Millisecond)
		die(n, "b")
		pass(time.Minute)
		if len(seen) != 3 || seen[0] != seen[1] || seen[2] == seen[0] {
			t.Errorf("sent %q", seen)
		}
	})
}

func TestARefusedNotificationIsNotSentForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		d := desk{answer: func(context.Context) error { return outbox.Permanent(errors.New("404 token=hunter2")) }}
		n, stop := start(t, notify.Config{To: &d, Log: slog.New(slog.NewTextHandler(&log, nil))})
		die(n, "a")
		pass(time.Hour)
		stop()
		if d.attempts != 1 || !strings.Contains(log.String(), "refused") {
			t.Errorf("%d attempts; the log says %s", d.attempts, log.String())
		}
		if strings.Contains(log.String(), "hunter2") {
			t.Errorf("the log says %s", log.String())
		}
	})
}

func TestAStopTellsOfWhatWasGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d desk
		n, stop := start(t, notify.Config{To: &d, Gather: time.Hour})
		die(n, "a")
		began := time.Now()
		stop()
		if _, deaths := d.count(); deaths != 1 || time.Since(began) > time.Second {
			t.Errorf("%d deaths told of after %s", deaths, time.Since(began))
		}
	})
}

func TestAStopWaitsNoLongerThanTheFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		d := desk{answer: func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }}
		n, stop := start(t, notify.Config{To: &d, Flush: 3 * time.Second, Log: slog.New(slog.NewTextHandler(&log, nil))})
		die(n, "a")
		pass(12 * time.Second) // the first is under way
		die(n, "b")
		began := time.Now()
		stop()
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("it took %s", took)
		}
		if strings.Count(log.String(), "is lost") != 2 {
			t.Errorf("the log says %s", log.String())
		}
	})
}

func TestAStormTakesBoundedMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d desk
		n, _ := start(t, notify.Config{To: &d})
		for i := range 100_000 {
			die(n, strings.Repeat("x", 300)+strconv.Itoa(i))
		}
		pass(time.Minute)
		s := d.arrived[0]
		body, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if s.Count != 100_000 || len(s.Groups) != 50 || s.Others != 99_950 || len(body) > 64<<10 {
			t.Errorf("%d deaths, %d groups, %d others in %d bytes", s.Count, len(s.Groups), s.Others, len(body))
		}
	})
}

func TestTheLogHasOneLineForEachNotification(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		n, stop := start(t, notify.Config{Log: slog.New(slog.NewJSONHandler(&log, nil))})
		for i := range 1000 {
			die(n, "topic-"+strconv.Itoa(i%100)+"\nlevel=ERROR")
		}
		pass(time.Minute)
		stop()
		if strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), `"count":1000`) {
			t.Errorf("the log says %s", log.String())
		}
		for _, secret := range []string{"canary", "hunter2"} {
			if strings.Contains(log.String(), secret) {
				t.Errorf("the log shows %s", secret)
			}
		}
	})
}

func TestAnOutageOfTheDestinationIsTwoLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		d := desk{answer: func(context.Context) error { return errors.New("down") }}
		n, stop := start(t, notify.Config{To: &d, Log: slog.New(slog.NewTextHandler(&log, nil))})
		die(n, "a")
		pass(time.Hour)
		d.answers(nil)
		pass(time.Hour)
		stop()
		if lines := strings.Count(log.String(), "\n"); lines != 3 { // and the notification
			t.Errorf("%d lines:\n%s", lines, log.String())
		}
	})
}

func TestANotifierNeedsSomebodyToTell(t *testing.T) {
	if _, err := notify.New(notify.Config{}); !errors.Is(err, outbox.ErrInvalidConfig) {
		t.Errorf("got %v", err)
	}
}

func TestASignedWebhookArrives(t *testing.T) {
	secret := webhook.NewSecret()
	verifier, err := webhook.NewVerifier(webhook.Config{Secrets: []webhook.Secret{secret}})
	if err != nil {
		t.Fatal(err)
	}
	arrived := make(chan notify.Summary, 1)
	server := httptest.NewServer(verifier.Receive(func(_ context.Context, msg outbox.DispatchedMessage) error {
		var s notify.Summary
		err := json.Unmarshal(msg.Payload, &s)
		arrived <- s
		return err
	}))
	defer server.Close()
	sink, err := webhooksink.New(webhooksink.Config{
		URL: server.URL + "/dead", Secrets: []webhook.Secret{secret},
		Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Ports: []uint16{portOf(t, server.URL)},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	n, stop := start(t, notify.Config{To: sink, Gather: time.Millisecond})
	die(n, "shop.order.placed.v1")

	select {
	case s := <-arrived:
		if s.Count != 1 || s.Groups[0].Topic != "shop.order.placed.v1" {
			t.Errorf("got %+v", s)
		}
	case <-time.After(10 * time.Second):
		t.Error("nothing arrived")
	}
	stop()
}

func portOf(t *testing.T, raw string) uint16 {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	return uint16(port)
}
