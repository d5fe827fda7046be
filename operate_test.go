package outbox_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

func TestAnActionSaysWhatItLacks(t *testing.T) {
	complete := outbox.Action{
		Actor: "ada", Reason: "why", EventID: uuid.New(), At: time.Now(), Route: "main", Key: "k", Shard: 1,
	}
	for _, verb := range []outbox.Verb{
		outbox.VerbReplay, outbox.VerbDiscard, outbox.VerbReschedule, outbox.VerbPause, outbox.VerbResume, outbox.VerbRetryHead,
		outbox.VerbSkipHead, outbox.VerbReleaseKey, outbox.VerbTrigger, outbox.VerbReleaseLease,
	} {
		a := complete
		a.Verb = verb
		if err := a.Validate(); err != nil {
			t.Errorf("%s: %v", verb, err)
		}
	}
	for _, c := range []struct {
		name   string
		verb   outbox.Verb
		change func(*outbox.Action)
		want   error
	}{
		{"no actor", outbox.VerbTrigger, func(a *outbox.Action) { a.Actor = "" }, outbox.ErrInvalidConfig},
		{"no reason", outbox.VerbTrigger, func(a *outbox.Action) { a.Reason = " " }, outbox.ErrInvalidConfig},
		{"no event", outbox.VerbReplay, func(a *outbox.Action) { a.EventID = uuid.Nil }, outbox.ErrInvalidConfig},
		{"no time", outbox.VerbReschedule, func(a *outbox.Action) { a.At = time.Time{} }, outbox.ErrInvalidConfig},
		{"no key", outbox.VerbSkipHead, func(a *outbox.Action) { a.Key = "" }, outbox.ErrInvalidConfig},
		{"no such shard", outbox.VerbReleaseLease, func(a *outbox.Action) { a.Shard = 256 }, outbox.ErrInvalidConfig},
		{"a verb for jobs", outbox.VerbPurge, func(*outbox.Action) {}, outbox.ErrNotApplicable},
		{"a verb of the trail", outbox.VerbStartJob, func(*outbox.Action) {}, outbox.ErrNotApplicable},
	} {
		a := complete
		a.Verb = c.verb
		c.change(&a)
		if err := a.Validate(); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
}

func TestAFilterMatches(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	rec := outbox.Record{
		Topic: "shop.order.placed.v1", Key: "k", TenantID: "t", CreatedAt: now.Add(-2 * time.Hour), AvailableAt: now.Add(-2 * time.Hour),
		DeadAt: now.Add(-time.Hour), DeadReason: outbox.DeadAttempts, LastError: "status 503 after 12ms", Attempts: 3,
	}
	for _, c := range []struct {
		name   string
		filter outbox.Filter
		want   bool
	}{
		{"everything", outbox.Filter{}, true},
		{"status", outbox.Filter{Status: outbox.StatusDead}, true},
		{"another status", outbox.Filter{Status: outbox.StatusDiscarded}, false},
		{"topic", outbox.Filter{Topic: "shop.**"}, true},
		{"another topic", outbox.Filter{Topic: "billing.**"}, false},
		{"another key", outbox.Filter{Key: "K"}, false},
		{"another tenant", outbox.Filter{TenantID: "u"}, false},
		{"another reason", outbox.Filter{Reason: outbox.DeadCrash}, false},
		{"error", outbox.Filter{Error: "status # after #"}, true},
		{"the text of the error", outbox.Filter{Error: "status 503 after 12ms"}, false},
		{"route", outbox.Filter{Route: "main"}, true},
		{"another route", outbox.Filter{Route: "other"}, false},
		{"died since", outbox.Filter{Status: outbox.StatusDead, Since: now.Add(-time.Hour)}, true},
		{"died before", outbox.Filter{Status: outbox.StatusDead, Until: now.Add(-time.Hour)}, false},
		{"created before", outbox.Filter{Until: now.Add(-time.Hour)}, true},
	} {
		if got := c.filter.Matches(&rec, "main", now); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestAnEmptyFilterIsAnEmptyObject(t *testing.T) {
	text, err := json.Marshal(outbox.Filter{Status: outbox.StatusDead})
	if err != nil || string(text) != `{"status":"dead"}` {
		t.Errorf("got %s (%v)", text, err)
	}
}

func TestFingerprintsForgetWhatDiffersFromErrorToError(t *testing.T) {
	for _, c := range []struct{ a, b, want string }{
		{"status 503 after 12ms", "status 500 after 7s", "status # after #"},
		{"dial tcp 10.0.0.7:9092: connection refused", "dial tcp 10.0.0.8:9093: connection refused", "dial tcp #:#: connection refused"},
		{"id=4711 is unknown", "id=42 is unknown", "id=# is unknown"},
		{"order 7f9c24e8-3b12-4fef-91e0-0a1b2c3d4e5f (v2) refused", "order 11111111-2222-3333-4444-555555555555 (v3) refused", "order # (#) refused"},
	} {
		if got := outbox.Fingerprint(c.a); got != c.want || outbox.Fingerprint(c.b) != c.want {
			t.Errorf("%q: got %q and %q, want %q", c.a, got, outbox.Fingerprint(c.b), c.want)
		}
	}
	if got := outbox.Fingerprint(strings.Repeat("word ", 100)); len(got) > 120 {
		t.Errorf("it has %d bytes", len(got))
	}
}
