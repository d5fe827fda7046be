package sinktest_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/sink/sinktest"
)

// The suite is itself tested: a contract that cannot be broken promises nothing. Each
// fault is a sink with one lie, and must fail the claims that it breaks.
var faults = map[string][]string{
	"":             nil,
	"lies":         {"Message/is_there_when_it_is_reported_as_delivered", "Message/arrives_from_many"},
	"mangles":      {"Message/arrives_byte_for_byte", "Message/may_be_binary"},
	"trims":        {"Message/arrives_with_any_text_as_its_key"},
	"headerless":   {"Message/arrives_with_its_headers"},
	"traceless":    {"Message/arrives_with_its_type_and_trace"},
	"keeps":        {"Message/belongs_to_the_caller_again"},
	"deduplicates": {"Message/that_is_replayed"},
	"reorders":     {"Order/is_kept_within_a_key", "Order/is_kept_from_batch_to_batch"},
	"miscounts":    {"Batch/has_a_result_for_each_message"},
	"all-or-none":  {"Refusal/of_one_message_does_not_fail_its_neighbours"},
	"retries":      {"Refusal/of_the_destination_is_permanent"},
	"trusts":       {"Refusal/meets_hostile_topics", "Refusal/meets_hostile_headers"},
	"late":         {"Deadline/that_has_passed_sends_nothing", "Batch/that_comes_too_late"},
	"guesses":      {"Outage/is_told_from_a_fault"},
	"optimist":     {"Outage/fails_every_message_of_a_batch", "Outage/is_told_from_a_fault"},
	"leaks":        {"Close/leaves_no_goroutine_behind"},
	"assumes":      {"Network/that_resets_costs_no_message", "Network/that_resets_in_the_middle"},
	"kills":        {"Network/that_resets_costs_no_message", "Network/that_swallows_everything_fails"},
	"lingers":      {"Network/that_swallows_everything_does_not_outlast_the_deadline"},
	"hurries":      {"Network/that_is_slow_delivers"},
}

const faultVariable = "SINKTEST_FAULT"

func TestEveryFaultBreaksItsClaims(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	for fault, claims := range faults {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run="+pattern(claims), "-test.v")
			cmd.Env = append(os.Environ(), faultVariable+"="+fault+".")
			out, err := cmd.CombinedOutput()
			if (err == nil) != (len(claims) == 0) {
				t.Errorf("the suite ended with %v:\n%s", err, out)
			}
			for _, claim := range claims {
				if !strings.Contains(string(out), "--- FAIL: TestFaulty/"+claim) {
					t.Errorf("%s did not fail", claim)
				}
			}
		})
	}
}

// pattern selects the claims that a fault breaks, or all for none.
func pattern(claims []string) string {
	if len(claims) == 0 {
		return "^TestFaulty$"
	}
	return "^TestFaulty$/" + strings.Join(claims, "|^TestFaulty$/")
}

// TestFaulty is the suite over a sink with one fault, in a process of its own.
func TestFaulty(t *testing.T) {
	fault, ok := strings.CutSuffix(os.Getenv(faultVariable), ".")
	if !ok {
		t.Skip("part of TestEveryFaultBreaksItsClaims")
	}
	sinktest.Run(t, func(*testing.T) sinktest.Harness {
		f := &faulty{fault: fault, seen: map[[16]byte]bool{}}
		return sinktest.Harness{
			Sink: f, Received: f.received, Break: f.shut, Fault: f.cut,
			Refuse: func(msg *outbox.DispatchedMessage) { msg.Payload = []byte("refused") },
		}
	})
}

// A faulty is a sink in memory that keeps the contract, but for its fault.
type faulty struct {
	fault string

	mu     sync.Mutex
	got    []sinktest.Received
	seen   map[[16]byte]bool
	broken bool
	fails  sinktest.Fault // how the network fails, or ""
}

func (f *faulty) Dispatch(ctx context.Context, msg outbox.DispatchedMessage) error {
	if err := ctx.Err(); err != nil && f.fault != "late" {
		return err
	}
	if f.fault != "trusts" && hostile(msg.Meta) {
		return outbox.Permanent(errors.New("hostile"))
	}
	if err := f.travel(ctx); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.fails == sinktest.Reset || f.fails == sinktest.Blackhole:
		return nil // only those get here who assume that all went well
	case f.broken && f.fault == "guesses":
		return errors.New("down")
	case f.broken && f.fault == "optimist":
		return nil
	case f.broken:
		return outbox.Unavailable(errors.New("down"))
	case string(msg.Payload) == "refused" && f.fault == "retries":
		return errors.New("refused")
	case string(msg.Payload) == "refused":
		return outbox.Permanent(errors.New("refused"))
	}
	f.keep(msg)
	return nil
}

// travel takes a message over the network.
func (f *faulty) travel(ctx context.Context) error {
	f.mu.Lock()
	fails := f.fails
	f.mu.Unlock()
	switch {
	case fails == "" || f.fault == "assumes":
		return nil
	case f.fault == "kills" && fails != sinktest.Slow:
		return outbox.Permanent(errors.New("lost"))
	case f.fault == "lingers" && fails == sinktest.Blackhole:
		<-time.After(6 * time.Second)
		return ctx.Err()
	case f.fault == "hurries":
		return errors.New("lost")
	case fails == sinktest.Reset:
		return errors.New("reset")
	case fails == sinktest.Blackhole:
		<-ctx.Done()
		return ctx.Err()
	}
	<-time.After(5 * time.Millisecond)
	return nil
}

func (f *faulty) keep(msg outbox.DispatchedMessage) {
	if f.fault != "keeps" {
		msg.Payload, msg.Meta.Headers = bytes.Clone(msg.Payload), maps.Clone(msg.Meta.Headers)
	}
	switch f.fault {
	case "lies":
		if msg.Meta.Sequence%3 == 1 {
			return
		}
	case "mangles":
		msg.Payload = bytes.ToValidUTF8(bytes.ReplaceAll(msg.Payload, []byte("<"), []byte(`\u003c`)), nil)
	case "trims":
		msg.Meta.Key = strings.TrimSpace(msg.Meta.Key)
	case "headerless":
		msg.Meta.Headers = nil
	case "traceless":
		msg.Meta.TraceParent = ""
	case "deduplicates":
		if f.seen[msg.Meta.EventID] {
			return
		}
		f.seen[msg.Meta.EventID] = true
	case "leaks":
		go func() { select {} }()
	}
	f.got = append(f.got, sinktest.Received{Message: msg, DedupID: msg.Meta.DedupID()})
	if last := len(f.got) - 1; f.fault == "reorders" && last > 0 && last%50 == 49 {
		slices.Reverse(f.got)
	}
}

func (f *faulty) DispatchBatch(ctx context.Context, msgs []outbox.DispatchedMessage) []error {
	errs := make([]error, len(msgs))
	var failed error
	for i := range msgs {
		errs[i] = f.Dispatch(ctx, msgs[i])
		failed = errors.Join(failed, errs[i])
	}
	switch {
	case f.fault == "miscounts" && len(errs) > 1:
		return errs[1:]
	case f.fault == "all-or-none" && failed != nil:
		for i := range errs {
			errs[i] = failed
		}
	}
	return errs
}

func hostile(m outbox.Meta) bool {
	bad := func(s string) bool {
		return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f })
	}
	if m.Topic == "" || len(m.Topic) > 255 || bad(m.Topic) || strings.Contains(m.Topic, " ") {
		return true
	}
	for name, value := range m.Headers {
		if bad(value) || !strings.HasPrefix(name, "x") || strings.ContainsAny(name, " :\r\n") {
			return true
		}
	}
	return false
}

func (f *faulty) received(*testing.T) []sinktest.Received {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.got)
}

func (f *faulty) shut(*testing.T) (restore func()) {
	set := func(broken bool) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.broken = broken
	}
	set(true)
	return func() { set(false) }
}

func (f *faulty) cut(_ *testing.T, fault sinktest.Fault) (heal func()) {
	set := func(fault sinktest.Fault) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.fails = fault
	}
	set(fault)
	return func() { set("") }
}
