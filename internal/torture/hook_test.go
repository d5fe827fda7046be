package torture

import (
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/sink/webhooksink"
	"github.com/go-outbox/outbox/webhook"
)

// hooked returns a hook and the sink of the shipped program in front of it.
func hooked(t *testing.T, behaviour Sink) (*Hook, *webhooksink.Sink) {
	t.Helper()
	r := &Run{t: t, dir: t.TempDir(), Seed: fixedSeed}
	h := r.newHook(behaviour)
	text, err := os.ReadFile(h.secret)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := webhook.ParseSecret(string(text))
	if err != nil {
		t.Fatal(err)
	}
	address := netip.MustParseAddrPort(h.address)
	sink, err := webhooksink.New(webhooksink.Config{
		URL: "http://" + h.address + "/relay-1.1", Secrets: []webhook.Secret{secret}, Timeout: 2 * time.Second,
		Allow: []netip.Prefix{netip.PrefixFrom(address.Addr(), 32)}, Ports: []uint16{address.Port()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sink.Close() })
	return h, sink
}

// deliver hands n messages to the sink and returns the errors, with what the hook wrote
// down by then.
func deliver(t *testing.T, h *Hook, sink *webhooksink.Sink, n int) (errs []error, written []Delivery) {
	t.Helper()
	for i := range n {
		b := body{Event: uuid.New(), Key: "k", N: i}
		_, msg, err := b.message()
		if err != nil {
			t.Fatal(err)
		}
		errs = append(errs, sink.Dispatch(t.Context(), outbox.DispatchedMessage{
			Payload: msg.Payload, Meta: outbox.Meta{EventID: b.Event, Topic: msg.Topic, Key: msg.Key, Sequence: int64(i + 1), Attempts: 1},
		}))
	}
	lines, err := readJournal[Delivery](journalPath(h.dir, "relay-1.1"))
	if err != nil {
		t.Fatal(err)
	}
	return errs, deliveries(lines)
}

func TestAHookWritesDownWhatItAccepts(t *testing.T) {
	h, sink := hooked(t, Sink{})
	errs, written := deliver(t, h, sink, 3)
	for i, d := range written {
		if errs[i] != nil || !d.Accepted || d.Damage != "" || d.N != i || d.Key != "k" || d.Sequence != int64(i+1) || d.Attempt != 1 {
			t.Errorf("delivery %d: %v, written down as %+v", i, errs[i], d)
		}
	}
	if len(written) != len(errs) {
		t.Errorf("%d of %d are written down", len(written), len(errs))
	}
}

// However an answer is lost, the relay sees an error and the witness has the message.
func TestAHookLosesAnswersInEveryWay(t *testing.T) {
	h, sink := hooked(t, Sink{Ambiguous: 1})
	errs, written := deliver(t, h, sink, 30)
	ways := make(map[string]int)
	for i, d := range written {
		if errs[i] == nil || d.Accepted || !d.Kept {
			t.Errorf("delivery %d: %v, written down as %+v", i, errs[i], d)
			continue
		}
		for _, way := range []string{"500", "reset", "no answer within"} {
			if strings.Contains(errs[i].Error(), way) {
				ways[way]++
			}
		}
	}
	if len(written) != len(errs) || len(ways) != 3 {
		t.Errorf("%d of %d are written down; lost by %v, want three ways: %v", len(written), len(errs), ways, errs)
	}
}

func TestAHookThatLeavesRefusesConnectionsAndComesBack(t *testing.T) {
	h, sink := hooked(t, Sink{})
	_, before := deliver(t, h, sink, 1)
	if err := h.leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	errs, during := deliver(t, h, sink, 2) // the first may find a connection that is just being closed
	if v, _ := outbox.Classify(errs[1]); errs[0] == nil || v != outbox.VerdictUnavailable || len(during) != len(before) {
		t.Errorf("while it is gone: %v, %d written down", errs, len(during))
	}
	if err := h.listen(); err != nil {
		t.Fatal(err)
	}
	errs, after := deliver(t, h, sink, 1)
	if errs[0] != nil || len(after) != len(before)+1 {
		t.Errorf("when it is back: %v, %d written down", errs[0], len(after))
	}
}

// The shipped program's wall clock is set by changing the one line of package time that
// reads it: a Go that reads it elsewhere wants another overlay.
func TestTheClockOfThisGoCanBeSet(t *testing.T) {
	if _, err := clockOverlay(t.TempDir()); err != nil {
		t.Error(err)
	}
}
