package torture

import (
	"slices"
	"testing"
	"time"

	"github.com/go-outbox/outbox"
)

// operate adds a transition of event 1 by the operator, and what was asked for.
func (h *History) operate(t Transition, asked Intervention) {
	t.No, t.Sequence, t.Event, t.Writer, t.Epoch, t.At = 99, 1, id(1), coordinator, 9, h.BeganAt.Add(300)
	h.Transitions = append(h.Transitions, t)
	if asked.Verb != "" {
		asked.At, asked.Done = 200, 400
		h.Interventions = append(h.Interventions, asked)
	}
}

// discard gives event 1 up before it was delivered.
func (h *History) discard(asked Intervention) {
	h.operate(Transition{IsDead: true, IsReplays: 1}, asked)
	h.bury(1, outbox.DeadDiscarded)
	h.Final.Rows[0].Error = ""
}

// purgeDead deletes event 1, which had died.
func (h *History) purgeDead(asked Intervention) {
	h.drop(1)
	h.Final.Rows = h.Final.Rows[1:]
	h.operate(Transition{Deleted: true, WasDead: true}, asked)
}

func TestCheckAllowsWhatAnOperatorAskedFor(t *testing.T) {
	tests := []struct {
		name   string
		happen func(*History)
	}{
		{"a discarded message", func(h *History) { h.discard(Intervention{Verb: outbox.VerbDiscard, Event: id(1)}) }},
		{"a head that was skipped", func(h *History) { h.discard(Intervention{Verb: outbox.VerbSkipHead, Key: "k"}) }},
		{"a dead message of a key that was released", func(h *History) {
			h.discard(Intervention{Verb: outbox.VerbReleaseKey, Key: "k"})
			h.Transitions[4].WasDead = true
		}},
		{"a message that was rescheduled", func(h *History) {
			h.operate(Transition{}, Intervention{Verb: outbox.VerbReschedule, Event: id(1)})
		}},
		{"a trigger", func(h *History) {
			h.operate(Transition{WasAttempts: 2, IsAttempts: 2}, Intervention{Verb: outbox.VerbTrigger})
		}},
		{"dead messages that were replayed together", func(h *History) {
			h.operate(Transition{WasDead: true, IsReplays: 1}, Intervention{Verb: outbox.VerbReplay, Status: outbox.StatusDead})
		}},
		{"published messages that were purged", func(h *History) {
			h.Final.Rows = h.Final.Rows[1:]
			h.operate(Transition{Deleted: true, WasPublished: true}, Intervention{Verb: outbox.VerbPurge, Status: outbox.StatusPublished})
		}},
		{"dead messages that were purged", func(h *History) {
			h.purgeDead(Intervention{Verb: outbox.VerbPurge, Status: outbox.StatusDead})
		}},
		{"a message that the sink refused for good", func(h *History) {
			h.deliver(4, 950)
			h.bury(4, outbox.DeadPermanent)
			h.deliver(4, 950)
			h.delivery(4).Accepted, h.delivery(4).Final = false, true
		}},
		{"a discarded message that was in flight, after its successors", func(h *History) {
			h.operate(Transition{IsDead: true, IsReplays: 1}, Intervention{Verb: outbox.VerbDiscard, Event: id(1)})
			h.delivery(1).At = 950
		}},
		{"a delivery just after a pause", func(h *History) {
			h.Interventions = []Intervention{{Verb: outbox.VerbPause, Done: 250}, {Verb: outbox.VerbResume, At: 10e9}}
		}},
		{"a delivery after the end of a pause", func(h *History) {
			h.Interventions = []Intervention{{Verb: outbox.VerbPause, Done: -5e9}, {Verb: outbox.VerbResume, At: 200}}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := story()
			tt.happen(h)
			if found := Check(h); len(found) != 0 {
				t.Error(found)
			}
		})
	}
}

func TestCheckFindsWhatNoOperatorAskedFor(t *testing.T) {
	discard, purge := outbox.VerbDiscard, outbox.VerbPurge
	tests := []struct {
		name   string
		happen func(*History)
		want   Rule
	}{
		{"a discarded message", func(h *History) { h.discard(Intervention{}) }, Finality},
		{"another message that was discarded", func(h *History) { h.discard(Intervention{Verb: discard, Event: id(2)}) }, Finality},
		{"a head of another key", func(h *History) { h.discard(Intervention{Verb: outbox.VerbSkipHead, Key: "other"}) }, Finality},
		{"a living message of a key that was released", func(h *History) {
			h.discard(Intervention{Verb: outbox.VerbReleaseKey, Key: "k"})
		}, Finality},
		{"a discarded message long after it was asked for", func(h *History) {
			h.discard(Intervention{Verb: discard, Event: id(1)})
			h.Transitions[4].At = h.BeganAt.Add(time.Hour)
		}, Finality},
		{"a published message that was discarded", func(h *History) {
			h.operate(Transition{WasPublished: true, IsDead: true, IsReplays: 1}, Intervention{Verb: discard, Event: id(1)})
		}, Finality},
		{"a message that is discarded and nobody saw it", func(h *History) { h.bury(1, outbox.DeadDiscarded) }, Burial},
		{"a message that the sink never refused", func(h *History) { h.bury(1, outbox.DeadPermanent) }, Burial},
		{"a replay", func(h *History) { h.operate(Transition{WasDead: true, IsReplays: 1}, Intervention{}) }, Finality},
		{"a replay of a living message by a job for dead ones", func(h *History) {
			h.operate(Transition{IsReplays: 1}, Intervention{Verb: outbox.VerbReplay, Status: outbox.StatusDead})
		}, Finality},
		{"a message that was rescheduled", func(h *History) { h.operate(Transition{}, Intervention{}) }, Finality},
		{"a dead message that was rescheduled", func(h *History) {
			h.operate(Transition{WasDead: true, IsDead: true}, Intervention{Verb: outbox.VerbReschedule, Event: id(1)})
		}, Finality},
		{"a pending message that was purged", func(h *History) {
			h.operate(Transition{Deleted: true}, Intervention{Verb: purge, Status: outbox.StatusDead})
		}, Cleaner},
		{"a dead message in a purge of published ones", func(h *History) {
			h.purgeDead(Intervention{Verb: purge, Status: outbox.StatusPublished})
		}, Cleaner},
		{"a pending message that is gone", func(h *History) {
			h.drop(1)
			h.Final.Rows = h.Final.Rows[1:]
			h.operate(Transition{Deleted: true}, Intervention{Verb: purge, Status: outbox.StatusPublished})
		}, Loss},
		{"a delivery in the middle of a pause", func(h *History) {
			h.Interventions = []Intervention{{Verb: outbox.VerbPause, Done: -5e9}, {Verb: outbox.VerbResume, At: 10e9}}
		}, Paused},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := story()
			tt.happen(h)
			found := Check(h)
			if !slices.ContainsFunc(found, func(v Violation) bool { return v.Rule == tt.want }) {
				t.Errorf("want %s, found %v", tt.want, found)
			}
		})
	}
}
