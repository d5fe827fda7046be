package outbox_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/go-outbox/outbox"
)

// R-A39: with injected randomness the schedule is exact.
func TestBackoffIsDeterministicWithInjectedRandomness(t *testing.T) {
	const ms = time.Millisecond
	exact := outbox.RetryPolicy{Jitter: -1}
	for _, tt := range []struct {
		name     string
		policy   outbox.RetryPolicy
		attempts int
		random   float64
		want     time.Duration
	}{
		{"the first wait is base", exact, 1, 0, time.Second},
		{"it doubles", exact, 2, 0, 2 * time.Second},
		{"and doubles", exact, 3, 0, 4 * time.Second},
		{"up to just below max", exact, 6, 0, 32 * time.Second},
		{"and is cut at max", exact, 7, 0, time.Minute},
		{"where it stays", exact, 100, 0, time.Minute},
		{"no attempt counts as one", exact, 0, 0, time.Second},
		{"a negative count counts as one", exact, -5, 0, time.Second},
		{"jitter at its least", outbox.RetryPolicy{}, 1, 0, time.Second},
		{"jitter halfway", outbox.RetryPolicy{}, 1, 0.5, time.Second + 100*ms},
		{"jitter is added after the cut", outbox.RetryPolicy{}, 100, 0.5, time.Minute + 100*ms},
		{"jitter of one's own", outbox.RetryPolicy{Jitter: time.Second}, 2, 0.25, 2*time.Second + 250*ms},
		{"negative jitter is none", exact, 1, 0.99, time.Second},
		{"base and max of one's own", outbox.RetryPolicy{Base: 30 * time.Second, Max: 50 * time.Second, Jitter: -1}, 2, 0, 50 * time.Second},
		{"a base above the default max raises it", outbox.RetryPolicy{Base: time.Hour, Jitter: -1}, 5, 0, time.Hour},
		{"a max below the default base lowers it", outbox.RetryPolicy{Max: 100 * ms, Jitter: -1}, 3, 0, 100 * ms},
		{"base equal to max", outbox.RetryPolicy{Base: time.Second, Max: time.Second, Jitter: -1}, 9, 0, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.policy.Delay(tt.attempts, tt.random); got != tt.want {
				t.Errorf("Delay(%d, %g) = %s, want %s", tt.attempts, tt.random, got, tt.want)
			}
		})
	}
}

// R-A39, the other half: the same source of randomness gives the same schedule.
func TestRetriesDrawTheirJitterFromTheInjectedSource(t *testing.T) {
	var next float64
	r := outbox.Retries{Random: func() float64 { next += 0.125; return next }}

	var got []time.Duration
	for attempts := 1; attempts <= 4; attempts++ {
		got = append(got, r.Delay("shop.order.placed.v1", attempts))
	}

	want := "[1.025s 2.05s 4.075s 8.1s]"
	if fmt.Sprint(got) != want {
		t.Errorf("schedule is %s, want %s", got, want)
	}
}

func TestJitterWithoutAnInjectedSourceStaysInItsRange(t *testing.T) {
	var r outbox.Retries
	for range 1000 {
		if d := r.Delay("any", 1); d < time.Second || d >= time.Second+200*time.Millisecond {
			t.Fatalf("waits %s, want 1s to 1.2s", d)
		}
	}
}

// F-48: a shift that overflows turns the wait negative and the relay into a hot loop.
func TestBackoffNeverOverflowsOrShrinks(t *testing.T) {
	const forever = time.Duration(math.MaxInt64)
	for name, p := range map[string]outbox.RetryPolicy{
		"default":                {Jitter: -1},
		"smallest base":          {Base: 1, Max: forever, Jitter: -1},
		"largest max":            {Base: time.Second, Max: forever, Jitter: -1},
		"odd base, largest max":  {Base: 3*time.Second + 7, Max: forever, Jitter: -1},
		"max just over half":     {Base: time.Second, Max: forever/2 + 1, Jitter: -1},
		"largest base":           {Base: forever, Max: forever, Jitter: -1},
		"largest base, no max":   {Base: forever, Jitter: -1},
		"largest max and jitter": {Base: time.Second, Max: forever, Jitter: forever},
		"a century":              {Base: time.Minute, Max: 100 * 365 * 24 * time.Hour, Jitter: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			if err := p.Validate(); err != nil {
				t.Fatal(err)
			}
			base, top := p.Base, p.Max
			if base == 0 {
				base = outbox.DefaultRetry.Base
			}
			if top == 0 {
				top = max(outbox.DefaultRetry.Max, base)
			}
			before := time.Duration(0)
			for attempts := 1; attempts <= 1000; attempts++ {
				least, most := p.Delay(attempts, 0), p.Delay(attempts, math.Nextafter(1, 0))
				switch {
				case least < base || least > top:
					t.Fatalf("attempt %d waits %s, want %s to %s", attempts, least, base, top)
				case least < before:
					t.Fatalf("attempt %d waits %s, shorter than %s before", attempts, least, before)
				case most < least:
					t.Fatalf("attempt %d with jitter waits %s, shorter than %s without", attempts, most, least)
				}
				before = least
			}
			if before != top {
				t.Errorf("attempt 1000 waits %s, want the max of %s", before, top)
			}
		})
	}
}

func TestExhausted(t *testing.T) {
	for _, tt := range []struct {
		name     string
		policy   outbox.RetryPolicy
		attempts int
		want     bool
	}{
		{"never tried", outbox.RetryPolicy{}, 0, false},
		{"24 of 25 by default", outbox.RetryPolicy{}, 24, false},
		{"25 of 25 by default", outbox.RetryPolicy{}, 25, true},
		{"a limit that was lowered meanwhile", outbox.RetryPolicy{MaxAttempts: 3}, 9, true},
		{"one attempt allowed, none made", outbox.RetryPolicy{MaxAttempts: 1}, 0, false},
		{"one attempt allowed and made", outbox.RetryPolicy{MaxAttempts: 1}, 1, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.policy.Exhausted(tt.attempts); got != tt.want {
				t.Errorf("Exhausted(%d) = %t, want %t", tt.attempts, got, tt.want)
			}
		})
	}
}

func TestTheFirstMatchingRuleChoosesThePolicy(t *testing.T) {
	policy := func(n int) outbox.RetryPolicy { return outbox.RetryPolicy{MaxAttempts: n} }
	r := outbox.Retries{
		Default: policy(1),
		Rules: []outbox.RetryRule{
			{Pattern: "shop.order.placed.v1", Policy: policy(2)},
			{Pattern: "shop.order.**", Policy: policy(3)},
			{Pattern: "shop.*.placed.*", Policy: policy(4)},
			{Pattern: "shop.order.paid.v1", Policy: policy(5)}, // never reached
		},
	}
	for topic, want := range map[string]int{
		"shop.order.placed.v1": 2,
		"shop.order.paid.v1":   3,
		"shop.cart.placed.v7":  4,
		"shop.cart.emptied.v1": 1,
		"":                     1,
	} {
		if got := r.For(topic).MaxAttempts; got != want {
			t.Errorf("%q gets policy %d, want %d", topic, got, want)
		}
	}
	if got := (outbox.Retries{}).For("any"); got != (outbox.RetryPolicy{}) {
		t.Errorf("without rules a topic gets %+v", got)
	}
}

func TestRetriesRefuseBadSettingsByName(t *testing.T) {
	bad := func(p outbox.RetryPolicy) outbox.Retries { return outbox.Retries{Default: p} }
	rule := func(pattern string, p outbox.RetryPolicy) outbox.Retries {
		return outbox.Retries{Rules: []outbox.RetryRule{{Pattern: "ok.**"}, {Pattern: pattern, Policy: p}}}
	}
	for _, tt := range []struct {
		name  string
		r     outbox.Retries
		field string
	}{
		{"negative attempts", bad(outbox.RetryPolicy{MaxAttempts: -1}), "max_attempts"},
		{"a negative base", bad(outbox.RetryPolicy{Base: -time.Second}), "base"},
		{"a negative max", bad(outbox.RetryPolicy{Max: -time.Second}), "max"},
		{"a max below base", bad(outbox.RetryPolicy{Base: time.Minute, Max: time.Second}), "max"},
		{"a bad policy in a rule", rule("a.b", outbox.RetryPolicy{Base: -1}), "base"},
		{"a bad pattern", rule("a.**.b", outbox.RetryPolicy{}), "pattern"},
		{"an empty pattern", rule("", outbox.RetryPolicy{}), "pattern"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wantRefusal(t, tt.r.Validate(), outbox.ErrInvalidConfig, tt.field)
		})
	}
}

func TestRetriesAcceptGoodSettings(t *testing.T) {
	for _, r := range []outbox.Retries{
		{},
		{Default: outbox.DefaultRetry},
		{Default: outbox.RetryPolicy{Jitter: -1}},
		{Default: outbox.RetryPolicy{Base: time.Hour}},
		{Rules: []outbox.RetryRule{{Pattern: "**", Policy: outbox.RetryPolicy{MaxAttempts: 1}}}},
	} {
		if err := r.Validate(); err != nil {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

func TestMatchTopic(t *testing.T) {
	for _, tt := range []struct {
		pattern, topic string
		want           bool
	}{
		{"a.b", "a.b", true},
		{"a.b", "a.c", false},
		{"a.b", "a", false},
		{"a.b", "a.b.c", false},
		{"a.b", "a.B", false},
		{"a", "ab", false},
		{"ab", "a", false},

		{"*", "a", true},
		{"*", "a.b", false},
		{"a.*", "a.b", true},
		{"a.*", "a", false},
		{"a.*", "a.b.c", false},
		{"*.b", "a.b", true},
		{"*.b", "a.c", false},
		{"a.*.c", "a.b.c", true},
		{"a.*.c", "a.c", false},
		{"*.*", "a.b", true},

		{"**", "a", true},
		{"**", "a.b.c", true},
		{"a.**", "a.b", true},
		{"a.**", "a.b.c", true},
		{"a.**", "a", true}, // any number of further segments, also none
		{"a.**", "ab", false},
		{"a.**", "b.a", false},
		{"a.*.**", "a.b", true},
		{"a.*.**", "a", false},
		{"*.**", "a", true},

		{"a.b", "a.*", false}, // a topic is never a pattern
		{"a.b", "**", false},
		{"a.", "a", false},
		{"", "a", false},
		{"a", "", false},
	} {
		if got := outbox.MatchTopic(tt.pattern, tt.topic); got != tt.want {
			t.Errorf("MatchTopic(%q, %q) = %t, want %t", tt.pattern, tt.topic, got, tt.want)
		}
	}
}

func TestCheckPattern(t *testing.T) {
	for _, good := range []string{"a", "a.b", "*", "**", "a.*", "a.**", "*.*.**", "shop.order.placed.v1", "A_b.c-d"} {
		if err := outbox.CheckPattern(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", ".", "a.", ".a", "a..b", "**.a", "a.**.b", "**.**", "a*", "*a.b", "a.b**", "***", "a.***"} {
		err := outbox.CheckPattern(bad)
		if err == nil {
			t.Errorf("%q is accepted", bad)
			continue
		}
		wantRefusal(t, err, outbox.ErrInvalidConfig, "pattern")
	}
}

// wantRefusal checks identity, code and field of a typed error.
func wantRefusal(t testing.TB, err error, want *outbox.Error, field string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %s", err, want.Code())
	}
	typed, ok := errors.AsType[*outbox.Error](err)
	if !ok {
		t.Fatalf("%v is no *outbox.Error", err)
	}
	if typed.Code() != want.Code() || outbox.CodeOf(err) != want.Code() {
		t.Errorf("code is %s, want %s", typed.Code(), want.Code())
	}
	if typed.Field() != field {
		t.Errorf("field is %q, want %q (%v)", typed.Field(), field, err)
	}
}
