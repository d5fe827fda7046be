package outbox_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

var eventID = uuid.MustParse("0190a5c4-7b1e-7cc0-8000-000000000001")

func TestDedupIDIsTheEventIDUntilAPersonReplaysIt(t *testing.T) {
	for _, tt := range []struct {
		name string
		meta outbox.Meta
		want string
	}{
		{"the first attempt", outbox.Meta{EventID: eventID, Attempts: 1}, eventID.String()},
		{"a retry is the same event", outbox.Meta{EventID: eventID, Attempts: 9}, eventID.String()},
		{"a replay is not", outbox.Meta{EventID: eventID, Replays: 1}, eventID.String() + "-r1"},
		{"nor the next one", outbox.Meta{EventID: eventID, Replays: 12}, eventID.String() + "-r12"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.meta.DedupID(); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestOrderingKeyIsNeverEmpty(t *testing.T) {
	keyed := outbox.Meta{Key: "order-1", EventID: eventID, Replays: 3}
	if got := keyed.OrderingKey(); got != "order-1" {
		t.Errorf("with a key it is %q", got)
	}
	free := outbox.Meta{EventID: eventID, Replays: 3}
	if got := free.OrderingKey(); got != eventID.String() {
		t.Errorf("without a key it is %q, want the event id", got)
	}
}

func TestStatusIsDerived(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	past, future := now.Add(-time.Hour), now.Add(time.Nanosecond)
	for _, tt := range []struct {
		name string
		rec  outbox.Record
		want outbox.Status
	}{
		{"a new message", outbox.Record{AvailableAt: past}, outbox.StatusPending},
		{"due this instant", outbox.Record{AvailableAt: now}, outbox.StatusPending},
		{"put back untried", outbox.Record{AvailableAt: past, Crashes: 1, Replays: 1}, outbox.StatusPending},
		{"not due yet", outbox.Record{AvailableAt: future}, outbox.StatusScheduled},
		{"on its first dispatch", outbox.Record{AvailableAt: past, InFlight: true}, outbox.StatusInFlight},
		{"on a later dispatch", outbox.Record{AvailableAt: past, InFlight: true, Attempts: 3}, outbox.StatusInFlight},
		{"failed and waiting", outbox.Record{AvailableAt: future, Attempts: 1}, outbox.StatusRetrying},
		{"failed and due", outbox.Record{AvailableAt: past, Attempts: 24}, outbox.StatusRetrying},
		{"acknowledged", outbox.Record{PublishedAt: past, Attempts: 1}, outbox.StatusPublished},
		{"acknowledged, batch not done", outbox.Record{PublishedAt: past, Attempts: 1, InFlight: true}, outbox.StatusPublished},
		{"given up", outbox.Record{DeadAt: past, DeadReason: outbox.DeadAttempts, Attempts: 25}, outbox.StatusDead},
		{"given up, batch not done", outbox.Record{DeadAt: past, DeadReason: outbox.DeadCrash, InFlight: true}, outbox.StatusDead},
		{"dead without a reason", outbox.Record{DeadAt: past}, outbox.StatusDead},
		{"discarded by a person", outbox.Record{DeadAt: past, DeadReason: outbox.DeadDiscarded}, outbox.StatusDiscarded},
		{"a reason alone kills nobody", outbox.Record{DeadReason: outbox.DeadDiscarded}, outbox.StatusPending},
		{"delivered in the end", outbox.Record{PublishedAt: now, DeadAt: past, DeadReason: outbox.DeadAttempts}, outbox.StatusPublished},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.rec.Status(now); got != tt.want {
				t.Errorf("status is %s, want %s", got, tt.want)
			}
		})
	}
}

func TestStatusesListsEachOnce(t *testing.T) {
	want := []outbox.Status{"pending", "scheduled", "in_flight", "retrying", "published", "dead", "discarded"}
	if !reflect.DeepEqual(outbox.Statuses, want) {
		t.Errorf("statuses are %q, want %q", outbox.Statuses, want)
	}
}

func TestMetaOfARecordDescribesItsNextDispatch(t *testing.T) {
	rec := outbox.Record{
		Sequence: 7, EventID: eventID, TenantID: "t", Topic: topic, Key: "k", Attempts: 2, Replays: 1, Crashes: 5,
		AggregateType: "Order", AggregateID: "1", EventType: "Placed", EventVersion: 3, ContentType: "text/plain",
		Headers: map[string]string{"x": "y"}, TraceParent: "p", TraceState: "s", CreatedAt: time.Unix(1, 2),
		AvailableAt: time.Unix(3, 4), LastError: "boom",
	}

	want := outbox.Meta{
		Table: "shop.outbox", TenantID: "t", Topic: topic, Key: "k", EventID: eventID, Sequence: 7, Attempts: 3, Replays: 1,
		AggregateType: "Order", AggregateID: "1", EventType: "Placed", EventVersion: 3, ContentType: "text/plain",
		Headers: map[string]string{"x": "y"}, TraceParent: "p", TraceState: "s", CreatedAt: time.Unix(1, 2),
	}
	if got := rec.Meta("shop.outbox"); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}

	// A field added to Meta must be filled by Record.Meta too; Routes is the relay's.
	for v, i := reflect.ValueOf(want), 0; i < v.NumField(); i++ {
		if v.Field(i).IsZero() && v.Type().Field(i).Name != "Routes" {
			t.Errorf("this test does not cover Meta.%s", v.Type().Field(i).Name)
		}
	}
}

func TestPageSize(t *testing.T) {
	for limit, want := range map[int]int{-1: 50, 0: 50, 1: 1, 199: 199, 200: 200, 201: 200, 1 << 40: 200} {
		if got := (outbox.Filter{Limit: limit}).PageSize(); got != want {
			t.Errorf("limit %d gives pages of %d, want %d", limit, got, want)
		}
	}
}

func TestAnActionNeedsAVerbATargetAPersonAndAReason(t *testing.T) {
	good := outbox.Action{Verb: outbox.VerbReplay, EventID: eventID, Actor: "ann", Reason: "fixed the consumer"}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}

	for _, tt := range []struct {
		name   string
		action outbox.Action
		want   *outbox.Error
		field  string
	}{
		{"no verb", outbox.Action{EventID: eventID, Actor: "ann", Reason: "r"}, outbox.ErrNotApplicable, "verb"},
		{"an unknown verb", outbox.Action{Verb: "explode", EventID: eventID, Actor: "ann", Reason: "r"}, outbox.ErrNotApplicable, "verb"},
		{"no target", outbox.Action{Verb: outbox.VerbReplay, Actor: "ann", Reason: "r"}, outbox.ErrInvalidConfig, "event_id"},
		{"nobody", outbox.Action{Verb: outbox.VerbReplay, EventID: eventID, Reason: "r"}, outbox.ErrInvalidConfig, "actor"},
		{"no reason", outbox.Action{Verb: outbox.VerbReplay, EventID: eventID, Actor: "ann"}, outbox.ErrInvalidConfig, "reason"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wantRefusal(t, tt.action.Validate(), tt.want, tt.field)
		})
	}
}

func TestAStepIsEmptyWhenItWouldWriteNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		step outbox.Step
		want bool
	}{
		"zero":            {outbox.Step{}, true},
		"only the switch": {outbox.Step{Delete: true}, true},
		"outcomes":        {outbox.Step{Outcomes: make([]outbox.Outcome, 1)}, false},
		"done":            {outbox.Step{Done: []int64{1}}, false},
		"record":          {outbox.Step{Record: make([]outbox.Batch, 1)}, false},
		"start":           {outbox.Step{Start: []int64{1}}, false},
		"beat":            {outbox.Step{Beat: []int64{1}}, false},
	} {
		if got := tt.step.Empty(); got != tt.want {
			t.Errorf("%s: Empty is %t, want %t", name, got, tt.want)
		}
	}
}

func TestOutcomesHaveNames(t *testing.T) {
	for kind, want := range map[outbox.OutcomeKind]string{
		outbox.Published: "published", outbox.Retry: "retry", outbox.Dead: "dead", outbox.Deferred: "deferred",
	} {
		if got := kind.String(); got != want {
			t.Errorf("outcome %d is %q, want %q", int(kind), got, want)
		}
	}
}
