package torture

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

// The checker is itself checked: one that finds nothing proves nothing.
func TestCheckFindsNothingInARunThatKeptItsPromises(t *testing.T) {
	if found := Check(story()); len(found) != 0 {
		t.Error(found)
	}
}

func TestCheckFindsEveryKindOfViolation(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(*History)
		want  Rule
	}{
		{"a committed event that was never delivered", func(h *History) { h.drop(1) }, Loss},
		{"a committed event that was delivered and refused", func(h *History) { h.delivery(1).Accepted = false }, Loss},
		{"a dead event without a reason", func(h *History) { h.bury(1, "") }, Loss},
		{"an unknown transaction that committed and was not delivered", func(h *History) {
			h.Transactions[0].Outcome = Unknown
			h.drop(1)
		}, Loss},

		{"a delivered event that was rolled back", func(h *History) { h.deliver(9, 900) }, Phantom},
		{"a delivered event of an unknown transaction that is not there", func(h *History) {
			h.Transactions[3].Outcome = Unknown
			h.deliver(9, 900)
		}, Phantom},
		{"a delivered event that nobody enqueued", func(h *History) { h.deliver(77, 900) }, Phantom},

		{"an ok transaction without its business row", func(h *History) { delete(h.Final.Business, "t1") }, Atomicity},
		{"an ok transaction without one of its events", func(h *History) {
			h.drop(2)
			h.Final.Rows = slices.Delete(h.Final.Rows, 1, 2)
		}, Atomicity},
		{"an unknown transaction with its events alone", func(h *History) {
			h.Transactions[0].Outcome = Unknown
			delete(h.Final.Business, "t1")
		}, Atomicity},
		{"an unknown transaction with its business row alone", func(h *History) {
			h.Transactions[3].Outcome = Unknown
			h.Final.Business["t4"] = true
		}, Atomicity},
		{"a failed transaction with its business row", func(h *History) { h.Final.Business["t4"] = true }, Atomicity},
		{"a row that nobody enqueued", func(h *History) {
			h.Final.Rows = append(h.Final.Rows, Row{Sequence: 99, Event: id(77), Published: true})
		}, Atomicity},

		{"a delivered event whose savepoint was rolled back", func(h *History) { h.Transactions[0].Events[0].Undone = true }, Phantom},
		{"a row whose savepoint was rolled back", func(h *History) {
			h.Transactions[0].Events[0].Undone = true
			h.drop(1)
		}, Atomicity},

		{"a second delivery for no reason", func(h *History) { h.deliver(1, 900) }, Duplicate},
		{"a second delivery of what arrived long after a lease was lost", func(h *History) {
			h.deliver(1, 9e9)
			h.delivery(1).At = 2e9
			h.LogLines = []LogLine{{Relay: "relay-1.1", At: h.BeganAt.Add(600 * time.Millisecond), Text: `{"msg":"lease lost"}`}}
			for n := 2; n <= 4; n++ {
				h.delivery(n).At += 9e9
			}
		}, Duplicate},
		{"a second delivery long after a fault", func(h *History) {
			h.deliver(1, 900)
			h.strike(KillRelay, 100, 200, "relay-1.1")
		}, Duplicate},
		{"a second delivery after a fault of somebody else", func(h *History) {
			h.deliver(1, 900)
			h.strike(KillRelay, 350, 800, "relay-7.1")
		}, Duplicate},
		{"a second delivery after an orderly stop", func(h *History) {
			h.deliver(1, 900)
			h.strike(StopRelay, 350, 800, "relay-1.1")
		}, Duplicate},
		{"a second delivery after a replay of another", func(h *History) {
			h.deliver(1, 900)
			h.Replays = []Replay{{Event: id(2), At: 350, Done: 360}}
		}, Duplicate},

		{"other bytes", func(h *History) { h.delivery(1).Sum = "other" }, Integrity},
		{"a broken sum", func(h *History) { h.delivery(1).Damage = "broken" }, Integrity},
		{"another key", func(h *History) { h.delivery(1).Key = "other" }, Integrity},
		{"another sequence", func(h *History) { h.delivery(1).Sequence = 70 }, Integrity},

		{"a later transaction first", func(h *History) { h.delivery(4).At = 450 }, Order},
		{"a later transaction while the earlier one waits to be tried again", func(h *History) {
			h.delivery(3).Accepted = false
			h.deliver(3, 800)
		}, Order},
		{"a later transaction far behind, with others in between", func(h *History) { h.delivery(1).At = 650 }, Order},
		{"a later unknown transaction first", func(h *History) {
			h.Transactions[2].Outcome = Unknown
			h.delivery(4).At = 450
		}, Order},
		{"the second event of a transaction first", func(h *History) { h.delivery(3).At = 390 }, Order},

		{"an event again after a later one was settled", func(h *History) {
			h.strike(KillRelay, 350, 20e9, "relay-1.1")
			h.Handovers = []Handover{{Instance: "relay-1.1", Held: true, Epoch: 1, At: h.BeganAt}}
			h.Transitions[3].At = h.BeganAt.Add(500)
			h.deliver(1, 10e9)
		}, Order},

		{"an attempt too many", func(h *History) { h.delivery(1).Attempt = 26 }, Attempts},
		{"a row with an attempt too many", func(h *History) { h.Final.Rows[0].Attempts = 26 }, Attempts},
		{"a dead event with a reason that nobody knows", func(h *History) { h.bury(1, "tired") }, Burial},
		{"a dead event with an error that nobody should read", func(h *History) {
			h.bury(1, "attempts")
			h.Final.Rows[0].Error = "\x1b[31mno"
		}, Burial},
		{"a dead event without an error", func(h *History) {
			h.bury(1, "attempts")
			h.Final.Rows[0].Error = ""
		}, Burial},

		{"a published event that the witness did not see", func(h *History) { h.Transitions = h.Transitions[1:] }, Finality},
		{"a published row that changes", func(h *History) { h.change(Transition{WasPublished: true, IsPublished: true}) }, Finality},
		{"a published row that is no longer", func(h *History) { h.change(Transition{WasPublished: true}) }, Finality},
		{"a published row that dies", func(h *History) { h.change(Transition{WasPublished: true, IsPublished: true, IsDead: true}) }, Finality},
		{"a dead row that is published", func(h *History) { h.change(Transition{WasDead: true, IsPublished: true}) }, Finality},
		{"a dead row that lives again", func(h *History) { h.change(Transition{WasDead: true}) }, Finality},
		{"a row that is published and dead", func(h *History) { h.change(Transition{IsPublished: true, IsDead: true}) }, Finality},
		{"a replay into another state", func(h *History) {
			h.change(Transition{WasDead: true, IsReplays: 1, IsAttempts: 3})
			h.Transitions[4].Writer = coordinator
		}, Finality},
		{"an operator who does something else", func(h *History) {
			h.change(Transition{})
			h.Transitions[4].Writer, h.Transitions[4].Holder = coordinator, coordinator
		}, Finality},

		{"a deleted row where nobody cleans up", func(h *History) { h.change(Transition{Deleted: true, WasPublished: true}) }, Cleaner},
		{"a deleted row that was not published", func(h *History) {
			h.Limits.Retention = time.Second
			h.change(Transition{Deleted: true, Age: time.Hour})
		}, Cleaner},
		{"a deleted row that is too young", func(h *History) {
			h.Limits.Retention = time.Second
			h.change(Transition{Deleted: true, WasPublished: true, Age: 900 * time.Millisecond})
		}, Cleaner},
		{"attempts that go back", func(h *History) { h.change(Transition{WasAttempts: 2, IsAttempts: 1}) }, Finality},
		{"attempts that jump", func(h *History) { h.change(Transition{IsAttempts: 2}) }, Finality},
		{"a replay that nobody asked for", func(h *History) { h.change(Transition{IsReplays: 1}) }, Finality},

		{"a write by somebody else", func(h *History) { h.Transitions[2].Writer = "relay-2.1" }, Fencing},
		{"a write in an older epoch", func(h *History) { h.Transitions[2].Epoch = 1 }, Fencing},

		{"an epoch that is given out twice", func(h *History) {
			h.Handovers = []Handover{{Instance: "a", Held: true, Epoch: 2}, {Instance: "b", Held: true, Epoch: 2}}
		}, Fencing},

		{"a backlog that stays too long", func(h *History) { h.Drain = Drain{Backlog: 100, Took: time.Hour} }, Liveness},
		{"goroutines that stay", func(h *History) { h.Resources = []Resource{{Before: 5, After: 50}} }, Resources},
		{"too much memory", func(h *History) { h.Resources = []Resource{{MaxRSS: 2 << 30}} }, Resources},
		{"too many connections", func(h *History) { h.Resources = []Resource{{Connections: 11}} }, Resources},

		{"an advisory lock", func(h *History) { h.Final.Leftovers = []string{"advisory lock"} }, Limbo},
		{"a pending row", func(h *History) { h.Final.Rows[0].Published = false }, Limbo},
		{"a lease that is still held", func(h *History) { h.Final.Held = []Held{{By: "relay-2.1"}} }, Limbo},
		{"a lease that is still held, after one that expired", func(h *History) {
			h.Final.Held = []Held{{By: "relay-2.1"}}
			h.LogLines = []LogLine{
				{Relay: "relay-2.1", Text: `{"msg":"lease lost","shard":0,"epoch":2,"err":"lease lost: it could not be renewed in time"}`},
				{Relay: "relay-2.1", Text: `{"msg":"lease acquired","shard":0,"epoch":3}`},
			}
		}, Limbo},
		{"a batch that is still recorded", func(h *History) { h.Final.Batches = 1 }, Limbo},

		{"a line for every failed poll", func(h *History) { h.say(4, 5) }, Noise},
		{"a panic", func(h *History) { h.LogLines = []LogLine{{Text: "panic: oops", Alien: true}} }, Alarm},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := story()
			tt.spoil(h)
			found := Check(h)
			if !slices.ContainsFunc(found, func(v Violation) bool { return v.Rule == tt.want }) {
				t.Errorf("want %s, found %v", tt.want, found)
			}
		})
	}
}

func TestCheckAllowsWhatTheGuaranteesAllow(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(*History)
	}{
		{"a dead event with a reason", func(h *History) { h.bury(4, "crash") }},
		{"an unknown transaction that committed", func(h *History) { h.Transactions[0].Outcome = Unknown }},
		{"an unknown transaction that did not commit", func(h *History) { h.Transactions[3].Outcome = Unknown }},
		{"a second delivery after a kill", func(h *History) {
			h.deliver(1, 900)
			h.strike(KillRelay, 350, 800, "relay-1.1")
		}},
		{"a second delivery after something that struck everybody", func(h *History) {
			h.deliver(1, 900)
			h.strike(ImmediateStop, 350, 800)
		}},
		{"a second delivery after an ambiguous answer", func(h *History) {
			h.delivery(4).Accepted, h.delivery(4).Kept = false, true
			h.deliver(4, 900)
		}},
		{"a second delivery after a replay", func(h *History) {
			h.deliver(1, 900)
			h.Deliveries[len(h.Deliveries)-1].Replay = 1
		}},
		{"a second delivery after a lost lease", func(h *History) {
			h.deliver(1, 900)
			h.LogLines = []LogLine{{Relay: "relay-1.1", At: h.BeganAt.Add(600), Text: `{"msg":"lease lost"}`}}
		}},
		{"a second delivery of what arrived when the lease had just been lost", func(h *History) {
			h.deliver(1, 2e9)
			h.delivery(1).At = 1e9
			h.LogLines = []LogLine{{Relay: "relay-1.1", At: h.BeganAt.Add(600 * time.Millisecond), Text: `{"msg":"lease lost"}`}}
			for n := 2; n <= 4; n++ {
				h.delivery(n).At += 2e9
			}
		}},
		{"an event again by one that woke up and then took its lease back", func(h *History) {
			h.strike(PauseRelay, 350, 20e9, "relay-1.1")
			h.Handovers = []Handover{
				{Instance: "relay-1.1", Held: true, Epoch: 1, At: h.BeganAt},
				{Instance: "relay-2.1", Held: true, Epoch: 2, At: h.BeganAt.Add(400)},
				{Instance: "relay-1.1", Held: true, Epoch: 3, At: h.BeganAt.Add(10*time.Second + time.Millisecond)},
			}
			h.Transitions[3].At = h.BeganAt.Add(500)
			h.deliver(1, 10e9)
		}},
		{"a replay", func(h *History) {
			h.operate(Transition{WasPublished: true, WasAttempts: 3, IsReplays: 1}, Intervention{})
			h.Replays = []Replay{{Event: id(1), At: 100, Done: 500}}
		}},
		{"a row that was deleted in time", func(h *History) {
			h.Limits.Retention = time.Second
			h.Transitions = append(h.Transitions, Transition{Deleted: true, Event: id(1), Sequence: 1, WasPublished: true, Age: 2 * time.Second, Writer: "x"})
			h.Final.Rows = h.Final.Rows[1:]
		}},
		{"a dead row that an operator purged", func(h *History) {
			h.bury(4, "crash")
			h.Transitions[3].IsPublished, h.Transitions[3].IsDead = false, true
			h.Final.Rows = h.Final.Rows[:3]
			h.Transitions = append(h.Transitions, Transition{
				No: 5, Deleted: true, Event: id(4), Sequence: 4, WasDead: true, WasAttempts: 1, Writer: coordinator, At: h.BeganAt.Add(time.Minute),
			})
			h.Interventions = []Intervention{{Verb: outbox.VerbPurge, Status: outbox.StatusDead, At: 0, Done: int64(time.Hour)}}
		}},
		{"a refused delivery before the accepted one", func(h *History) {
			h.deliver(1, 250)
			h.Deliveries[len(h.Deliveries)-1].Accepted = false
		}},
		{"concurrent transactions in any order", func(h *History) {
			h.Transactions[2].Begun = 35 // t2 returned at 40
			h.delivery(4).At = 350
		}},
		{"an earlier transaction late whose commit nobody was told of", func(h *History) {
			h.Transactions[1].Outcome = Unknown
			h.delivery(4).At = 350
		}},
		{"messages without a key in any order", func(h *History) {
			for i := range h.Transactions {
				for j := range h.Transactions[i].Events {
					h.Transactions[i].Events[j].Key = ""
				}
			}
			for i := range h.Deliveries {
				h.Deliveries[i].Key = ""
			}
			h.delivery(1).At = 950
		}},
		{"a line per second of an outage", func(h *History) { h.say(4, 4) }},
		{"a few lines in a short outage", func(h *History) { h.say(1, 3) }},
		{"a lease whose release failed", func(h *History) {
			h.Final.Held = []Held{{By: "relay-2.1"}}
			h.LogLines = []LogLine{{Relay: "relay-2.1", Text: `{"msg":"lease lost","shard":0,"epoch":2,"err":"release: release: context deadline exceeded"}`}}
		}},
		{"a lease that expired before the stop", func(h *History) {
			h.Final.Held = []Held{{By: "relay-2.1", Shard: 1}}
			h.LogLines = []LogLine{
				{Relay: "relay-2.1", Text: `{"msg":"lease acquired","shard":1,"epoch":2}`},
				{Relay: "relay-2.1", Text: `{"msg":"lease lost","shard":1,"epoch":2,"err":"lease lost: it could not be renewed in time"}`},
				{Relay: "relay-2.1", Text: `{"msg":"lease handed over","shard":0,"epoch":2}`},
			}
		}},
		{"epochs of two shards", func(h *History) { h.Transitions[3].Shard, h.Transitions[3].Epoch = 1, 1 }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := story()
			tt.spoil(h)
			if found := Check(h); len(found) != 0 {
				t.Error(found)
			}
		})
	}
}

func TestSummarizeCounts(t *testing.T) {
	h := story()
	h.deliver(1, 900)
	h.Transactions[0].Outcome = Unknown
	h.strike(KillRelay, 350, 800, "relay-1.1")

	got := Summarize(h)

	want := Summary{OK: 2, Fail: 1, Unknown: 1, Events: 3, Deliveries: 5, Duplicates: 1, Transitions: 4, Takeovers: 1, Faults: 1, Hits: 1}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestTransactionsWithoutAnOutcomeAreUnknown(t *testing.T) {
	got := transactions([]Note{
		{Transaction: "a", Mark: Intent, At: 1},
		{Transaction: "a", Mark: OK, Begun: 2, At: 3},
		{Transaction: "b", Mark: Intent, At: 4},
	})
	want := []Transaction{{ID: "a", Outcome: OK, Begun: 2, Ended: 3}, {ID: "b", Outcome: Unknown, Begun: 4}}
	if !slices.EqualFunc(got, want, func(a, b Transaction) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestADeliveryThatWasCutShortIsAmbiguous(t *testing.T) {
	got := deliveries([]Delivery{{No: 1, Event: id(1), Accepted: true}, {No: 2, Event: id(2), Accepted: true}, {No: 1, Cut: true}})
	want := []Delivery{{No: 1, Event: id(1), Kept: true}, {No: 2, Event: id(2), Accepted: true}}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestAJournalEndsWithItsLastWholeLine(t *testing.T) {
	path := t.TempDir() + "/journal"
	if err := os.WriteFile(path, []byte("{\"No\":1}\n{\"No\":2}\n{\"No"), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := readJournal[Delivery](path)
	if err != nil || len(got) != 2 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestTakeoversAndHandoversAreTimed(t *testing.T) {
	h := story()
	at := func(d time.Duration) time.Time { return h.BeganAt.Add(d) }
	h.Handovers = []Handover{
		{Instance: "a", Held: true, Epoch: 1, At: at(time.Second)},
		{Instance: "b", Held: true, Epoch: 2, At: at(4 * time.Second)},
		{Instance: "b", Epoch: 2, At: at(6 * time.Second)},
		{Instance: "c", Held: true, Epoch: 3, At: at(6*time.Second + 10*time.Millisecond)},
	}
	h.Limits.Lease, h.Limits.Poll = 700*time.Millisecond, 100*time.Millisecond
	h.Ends = []End{
		{Process: "a", At: int64(3 * time.Second)},
		{Process: "b", At: int64(5900 * time.Millisecond), Asked: true},
	}
	h.strike(KillRelay, int64(3*time.Second), int64(3100*time.Millisecond), "a")
	v := Judge(h)
	if got, want := v.Takeovers.Times, []time.Duration{time.Second}; !slices.Equal(got, want) || v.Takeovers.Within != 0 {
		t.Errorf("takeovers %v, want %v; %d within %s", got, want, v.Takeovers.Within, v.Takeovers.Bound)
	}
	if got, want := v.Handovers.Times, []time.Duration{110 * time.Millisecond}; !slices.Equal(got, want) || v.Handovers.Within != 1 {
		t.Errorf("handovers %v, want %v; %d within %s", got, want, v.Handovers.Within, v.Handovers.Bound)
	}
}

func TestAWaitThatSomethingElseCameIntoIsNotTimed(t *testing.T) {
	at := func(d time.Duration) time.Time { return story().BeganAt.Add(d) }
	tests := map[string]func(*History){
		"another fault":      func(h *History) { h.strike(Latency, int64(3500*time.Millisecond), int64(3600*time.Millisecond), "b") },
		"a fault that lasts": func(h *History) { h.strike(Latency, int64(time.Second), int64(3600*time.Millisecond), "b") },
		"another relay's end": func(h *History) {
			h.Ends = append(h.Ends, End{Process: "b", At: int64(3500 * time.Millisecond), Asked: true})
		},
		"nobody took over": func(h *History) { h.Handovers = h.Handovers[:1] },
	}
	for name, disturb := range tests {
		t.Run(name, func(t *testing.T) {
			h := story()
			h.Handovers = []Handover{
				{Instance: "a", Held: true, Epoch: 1, At: at(time.Second)},
				{Instance: "c", Held: true, Epoch: 2, At: at(4 * time.Second)},
			}
			h.Ends = []End{{Process: "a", At: int64(3 * time.Second)}}
			disturb(h)
			if got := h.takeovers(); len(got) != 0 {
				t.Errorf("timed %v", got)
			}
		})
	}
}

// What is saved can be judged again, and the page stands alone.
func TestASavedReportCanBeCheckedAgain(t *testing.T) {
	h, dir := story(), t.TempDir()
	h.drop(1)
	h.strike(KillRelay, 350, 800, "<relay>")
	v := Judge(h)
	if err := Save(dir, h, v, true); err != nil {
		t.Fatal(err)
	}
	loaded, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := Judge(loaded); !reflect.DeepEqual(got.Violations, v.Violations) || v.OK() {
		t.Errorf("saved with %v, loaded with %v", v.Violations, got.Violations)
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<svg", "1 violations", KillRelay} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	for _, link := range []string{"http://", "https://", "src="} {
		if strings.Contains(string(page), link) {
			t.Errorf("the page needs %q", link)
		}
	}
}

func TestAChangedPayloadDoesNotUnseal(t *testing.T) {
	b := body{Transaction: "t", Event: id(1), Key: "k", N: 3, Pad: "é <&>"}
	payload, err := b.seal()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := unseal(payload); err != nil || got != b {
		t.Errorf("got %+v, %v", got, err)
	}
	payload[len(payload)/3] ^= 1
	if _, err := unseal(payload); err == nil {
		t.Error("a changed payload unsealed")
	}
}

// story is a run in which all went well: four transactions of one key one after the
// other, the second with two events, the last rolled back, and a takeover.
func story() *History {
	h := &History{
		BeganAt: time.Unix(2000, 0),
		Limits:  Limits{Lease: time.Second, Shards: 1, MaxAttempts: 25, Connections: 8},
		Transactions: []Transaction{
			{ID: "t1", Outcome: OK, Begun: 10, Ended: 20, Events: []Event{event(1)}},
			{ID: "t2", Outcome: OK, Begun: 30, Ended: 40, Events: []Event{event(2), event(3)}},
			{ID: "t3", Outcome: OK, Begun: 50, Ended: 60, Events: []Event{event(4)}},
			{ID: "t4", Outcome: Fail, Begun: 70, Ended: 80, Events: []Event{event(9)}},
		},
		Final: Final{Business: map[string]bool{"t1": true, "t2": true, "t3": true}},
	}
	for n := 1; n <= 4; n++ {
		h.deliver(n, int64(200+100*n))
		h.Final.Rows = append(h.Final.Rows, Row{Sequence: int64(n), Event: id(n), Key: "k", Published: true})
		h.Transitions = append(h.Transitions, Transition{
			No: int64(n), Sequence: int64(n), Event: id(n), At: h.BeganAt.Add(time.Minute), IsPublished: true, IsAttempts: 1,
			Writer: "relay-1.1", Holder: "relay-1.1", Epoch: int64(1 + n/2),
		})
	}
	h.Transitions[3].Writer, h.Transitions[3].Holder = "relay-2.1", "relay-2.1"
	return h
}

func id(n int) uuid.UUID { return uuid.UUID{15: byte(n)} }
func event(n int) Event  { return Event{ID: id(n), Key: "k", N: n, Sum: fmt.Sprint("sum", n)} }

func (h *History) deliver(n int, at int64) {
	h.Deliveries = append(h.Deliveries, Delivery{
		Event: id(n), Key: "k", N: n, Sequence: int64(n), Attempt: 1, Relay: "relay-1.1", At: at,
		Sum: fmt.Sprint("sum", n), Accepted: true,
	})
}

// delivery returns the first delivery of event n.
func (h *History) delivery(n int) *Delivery {
	return &h.Deliveries[slices.IndexFunc(h.Deliveries, func(d Delivery) bool { return d.Event == id(n) })]
}

func (h *History) drop(n int) {
	h.Deliveries = slices.DeleteFunc(h.Deliveries, func(d Delivery) bool { return d.Event == id(n) })
}

// bury makes event n dead instead of delivered.
func (h *History) bury(n int, reason string) {
	h.drop(n)
	row := &h.Final.Rows[n-1]
	row.Published, row.Dead, row.Reason, row.Error = false, true, reason, "no"
}

func (h *History) strike(kind string, from, to int64, targets ...string) {
	h.Faults = append(h.Faults, Fault{Kind: kind, From: from, To: to, Targets: targets, Hit: true})
}

// change adds a transition by the present holder.
func (h *History) change(t Transition) {
	t.No, t.Sequence, t.Writer, t.Holder, t.Epoch = 99, 1, "relay-2.1", "relay-2.1", 9
	h.Transitions = append(h.Transitions, t)
}

// say makes a relay log lines during an outage of so many seconds.
func (h *History) say(seconds, lines int) {
	from := time.Unix(1000, 0)
	h.Outages = []Outage{{From: from, To: from.Add(time.Duration(seconds) * time.Second)}}
	for i := range lines {
		h.LogLines = append(h.LogLines, LogLine{Relay: "relay-1.1", At: from.Add(time.Duration(i+1) * time.Millisecond)})
	}
}
