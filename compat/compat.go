// Package compat holds the names other outbox systems use for what this one does:
// their retry schedules, their status words, their configuration keys.
//
// It is data and pure functions. A preset gives the attempts and waits its source
// documents, apart from the jitter of at most 200 ms that every policy here has. A
// vocabulary translates the state of a message; it does not make this program's
// tables readable by the other system.
package compat

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-outbox/outbox"
)

// presets are the retry schedules by name. Where a source says "max retries n", the
// first try is not one of them: n+1 attempts.
var presets = map[string]outbox.RetryPolicy{
	"a": outbox.DefaultRetry,
	"b": {MaxAttempts: 6, Base: 2 * time.Second, Max: 30 * time.Minute, Jitter: outbox.DefaultRetry.Jitter},
	"c": {MaxAttempts: 4, Base: time.Second, Max: time.Hour, Jitter: outbox.DefaultRetry.Jitter},
	// Its source names no bound; with six attempts the wait ends at 8 minutes.
	"d": {MaxAttempts: 6, Base: 30 * time.Second, Max: time.Hour, Jitter: outbox.DefaultRetry.Jitter},
}

// Retry returns the retry policy of a preset: a, b, c or d.
func Retry(preset string) (outbox.RetryPolicy, error) {
	if p, ok := presets[preset]; ok {
		return p, nil
	}
	return outbox.RetryPolicy{}, outbox.ErrInvalidConfig.With("retry_preset",
		fmt.Sprintf("%q is not one of %s", preset, strings.Join(Presets(), ", ")))
}

// Presets lists the names of the presets.
func Presets() []string { return slices.Sorted(maps.Keys(presets)) }

// A Vocabulary is the words of one system for the states of a message. Several
// states may share a word.
type Vocabulary struct {
	words map[outbox.Status]string
}

// Word returns the system's word for a state, or "" for one that does not exist.
func (v Vocabulary) Word(s outbox.Status) string { return v.words[s] }

// Statuses returns the states a word stands for, in the order of a message's life,
// or nil when the system does not use the word.
func (v Vocabulary) Statuses(word string) []outbox.Status {
	var list []outbox.Status
	for _, s := range outbox.Statuses {
		if v.words[s] == word && word != "" {
			list = append(list, s)
		}
	}
	return list
}

// The vocabularies of the three systems that store a status.
var (
	B = Vocabulary{map[outbox.Status]string{
		outbox.StatusPending:   "CREATED",
		outbox.StatusScheduled: "CREATED",
		outbox.StatusInFlight:  "CREATED",
		outbox.StatusRetrying:  "FAILED",
		outbox.StatusPublished: "PUBLISHED",
		outbox.StatusDead:      "MAX_RETRY",
		outbox.StatusDiscarded: "MAX_RETRY",
	}}
	C = Vocabulary{map[outbox.Status]string{
		outbox.StatusPending:   "pending",
		outbox.StatusScheduled: "pending",
		outbox.StatusInFlight:  "pending",
		outbox.StatusRetrying:  "pending",
		outbox.StatusPublished: "published",
		outbox.StatusDead:      "failed",
		outbox.StatusDiscarded: "failed",
	}}
	D = Vocabulary{map[outbox.Status]string{
		outbox.StatusPending:   "pending",
		outbox.StatusScheduled: "pending",
		outbox.StatusInFlight:  "processing",
		outbox.StatusRetrying:  "failed",
		outbox.StatusPublished: "completed",
		outbox.StatusDead:      "failed_permanent",
		outbox.StatusDiscarded: "failed_permanent",
	}}
)

// A Key is a configuration key of another system.
type Key struct {
	// Name is the key as the other system's YAML spells it, dotted.
	Name string
	// Ours is the key that does the same here, or "" when nothing needs to: the
	// key is accepted and has no effect, for the reason in Note.
	Ours string
	Note string

	convert func(string) (string, error)
}

// Convert turns the other system's value into ours.
func (k Key) Convert(value string) (string, error) {
	if k.convert == nil {
		return value, nil
	}
	return k.convert(value)
}

// Keys lists the foreign keys that configuration files may use.
var Keys = []Key{
	{Name: "outbox.scheduler.mainProcessInterval", Ours: "relay.poll_interval"},
	{Name: "outbox.scheduler.retryProcessInterval", Note: "retries are found when they are due"},
	{Name: "outbox.scheduler.healthCheckInterval", Note: "health is known at any time"},
	{Name: "outbox.scheduler.metricsInterval", Note: "metrics are read when they are asked for"},
	{Name: "outbox.scheduler.batchSize", Ours: "relay.batch_size"},
	{Name: "outbox.publisher.maxRetries", Ours: "relay.max_attempts", Note: "attempts are retries plus one", convert: plusOne},
	{Name: "outbox.publisher.baseDelay", Ours: "relay.retry_base"},
	{Name: "outbox.publisher.maxDelay", Ours: "relay.retry_max"},
}

func plusOne(retries string) (string, error) {
	n, err := strconv.Atoi(retries)
	if err != nil || n < 0 {
		return "", fmt.Errorf("must be a number that is not negative, got %q", retries)
	}
	return strconv.Itoa(n + 1), nil
}
