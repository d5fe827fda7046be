package outbox

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"
)

// A RetryPolicy says how often a message is tried and how long it waits between
// attempts. The zero value is DefaultRetry.
type RetryPolicy struct {
	// MaxAttempts is how many dispatches may fail before the message is dead.
	// Defaults to 25.
	MaxAttempts int
	// Base is the wait after the first failure; it doubles with each further
	// one up to Max. They default to 1 s and 60 s.
	Base, Max time.Duration
	// Jitter is the most that is added at random, so that messages that failed
	// together do not return together. Defaults to 200 ms; negative means none.
	Jitter time.Duration
}

// DefaultRetry is what a zero RetryPolicy means.
var DefaultRetry = RetryPolicy{MaxAttempts: 25, Base: time.Second, Max: time.Minute, Jitter: 200 * time.Millisecond}

func (p RetryPolicy) withDefaults() RetryPolicy {
	if p.MaxAttempts == 0 {
		p.MaxAttempts = DefaultRetry.MaxAttempts
	}
	if p.Base == 0 {
		p.Base = DefaultRetry.Base
	}
	if p.Max == 0 {
		p.Max = max(DefaultRetry.Max, p.Base)
	}
	if p.Jitter == 0 {
		p.Jitter = DefaultRetry.Jitter
	}
	return p
}

// Validate reports what is wrong with the policy.
func (p RetryPolicy) Validate() error {
	switch {
	case p.MaxAttempts < 0:
		return ErrInvalidConfig.With("max_attempts", fmt.Sprintf("must not be negative, got %d", p.MaxAttempts))
	case p.Base < 0:
		return ErrInvalidConfig.With("base", fmt.Sprintf("must not be negative, got %s", p.Base))
	case p.Max < 0:
		return ErrInvalidConfig.With("max", fmt.Sprintf("must not be negative, got %s", p.Max))
	case p.Base > 0 && p.Max > 0 && p.Max < p.Base:
		return ErrInvalidConfig.With("max", fmt.Sprintf("%s is shorter than base %s", p.Max, p.Base))
	}
	return nil
}

// Exhausted reports whether a message that has failed attempts times is dead.
func (p RetryPolicy) Exhausted(attempts int) bool {
	return attempts >= p.withDefaults().MaxAttempts
}

// Delay is the wait before the next attempt after attempts failures (1 or more).
// random is in [0, 1) and scales the jitter.
func (p RetryPolicy) Delay(attempts int, random float64) time.Duration {
	p = p.withDefaults()
	d := min(p.Base, p.Max)
	for i := 1; i < attempts && d < p.Max; i++ {
		if d > p.Max/2 {
			d = p.Max // doubling could overflow, and a negative wait is a hot loop
			break
		}
		d *= 2
	}
	if p.Jitter > 0 {
		d += min(time.Duration(random*float64(p.Jitter)), math.MaxInt64-d)
	}
	return d
}

// Retries chooses a policy by topic. The zero value gives every topic the default.
type Retries struct {
	// Default applies where no rule matches.
	Default RetryPolicy
	// Rules are tried in order; the first whose pattern matches wins.
	Rules []RetryRule
	// Random supplies the jitter, in [0, 1). Defaults to math/rand/v2.
	Random func() float64
}

// A RetryRule gives the topics that match Pattern (see [MatchTopic]) a policy.
type RetryRule struct {
	Pattern string
	Policy  RetryPolicy
}

// For returns the policy of a topic.
func (r Retries) For(topic string) RetryPolicy {
	for _, rule := range r.Rules {
		if MatchTopic(rule.Pattern, topic) {
			return rule.Policy
		}
	}
	return r.Default
}

// Delay is the wait of a message of this topic after attempts failures.
func (r Retries) Delay(topic string, attempts int) time.Duration {
	random := r.Random
	if random == nil {
		random = rand.Float64
	}
	return r.For(topic).Delay(attempts, random())
}

// Validate reports what is wrong with any of the policies and patterns.
func (r Retries) Validate() error {
	if err := r.Default.Validate(); err != nil {
		return err
	}
	for _, rule := range r.Rules {
		if err := CheckPattern(rule.Pattern); err != nil {
			return err
		}
		if err := rule.Policy.Validate(); err != nil {
			return fmt.Errorf("retry rule %q: %w", rule.Pattern, err)
		}
	}
	return nil
}

// MatchTopic reports whether a topic matches a pattern. Patterns are dotted like
// topics: `*` stands for one segment, a final `**` for any number of further ones.
func MatchTopic(pattern, topic string) bool {
	for {
		if pattern == "**" {
			return true
		}
		p, restP, moreP := strings.Cut(pattern, ".")
		t, restT, moreT := strings.Cut(topic, ".")
		if p != "*" && p != t {
			return false
		}
		if !moreP || !moreT {
			return moreP == moreT || restP == "**"
		}
		pattern, topic = restP, restT
	}
}

// CheckPattern reports what is wrong with a topic pattern.
func CheckPattern(pattern string) error {
	segments := strings.Split(pattern, ".")
	for i, s := range segments {
		switch {
		case s == "":
			return ErrInvalidConfig.With("pattern", fmt.Sprintf("%q has an empty segment", pattern))
		case s == "**" && i != len(segments)-1:
			return ErrInvalidConfig.With("pattern", fmt.Sprintf("%q: ** may only stand at the end", pattern))
		case s != "*" && s != "**" && strings.Contains(s, "*"):
			return ErrInvalidConfig.With("pattern", fmt.Sprintf("%q: * stands for a whole segment", pattern))
		}
	}
	return nil
}
