package compat_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/compat"
)

func TestPresetsWaitAsTheirSourcesDocument(t *testing.T) {
	const s, m = time.Second, time.Minute
	tests := []struct {
		preset   string
		attempts int
		waits    []time.Duration // after the first failures
	}{
		{"a", 25, []time.Duration{1 * s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 60 * s, 60 * s}},
		{"b", 6, []time.Duration{2 * s, 4 * s, 8 * s, 16 * s, 32 * s}},
		{"c", 4, []time.Duration{1 * s, 2 * s, 4 * s}},
		{"d", 6, []time.Duration{30 * s, 1 * m, 2 * m, 4 * m, 8 * m}},
	}
	for _, tt := range tests {
		t.Run(tt.preset, func(t *testing.T) {
			policy, err := compat.Retry(tt.preset)
			if err != nil {
				t.Fatal(err)
			}
			if policy.Exhausted(tt.attempts-1) || !policy.Exhausted(tt.attempts) {
				t.Errorf("%d attempts, want %d", policy.MaxAttempts, tt.attempts)
			}
			for i, want := range tt.waits {
				if got := policy.Delay(i+1, 0); got != want {
					t.Errorf("waits %s after failure %d, want %s", got, i+1, want)
				}
			}
		})
	}
}

func TestPresetsAreBounded(t *testing.T) {
	for preset, want := range map[string]time.Duration{
		"a": time.Minute, "b": 30 * time.Minute, "c": time.Hour, "d": time.Hour,
	} {
		policy, err := compat.Retry(preset)
		if err != nil {
			t.Fatal(err)
		}
		if got := policy.Delay(100, 0); got != want {
			t.Errorf("%s: longest wait %s, want %s", preset, got, want)
		}
	}
}

func TestAnUnknownPresetIsAConfigurationError(t *testing.T) {
	_, err := compat.Retry("e")
	if !errors.Is(err, outbox.ErrInvalidConfig) {
		t.Errorf("got %v", err)
	}
	if want := `retry_preset: "e" is not one of a, b, c, d`; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}

func TestVocabularies(t *testing.T) {
	tests := []struct {
		status  outbox.Status
		b, c, d string
	}{
		{outbox.StatusPending, "CREATED", "pending", "pending"},
		{outbox.StatusScheduled, "CREATED", "pending", "pending"},
		{outbox.StatusInFlight, "CREATED", "pending", "processing"},
		{outbox.StatusRetrying, "FAILED", "pending", "failed"},
		{outbox.StatusPublished, "PUBLISHED", "published", "completed"},
		{outbox.StatusDead, "MAX_RETRY", "failed", "failed_permanent"},
		{outbox.StatusDiscarded, "MAX_RETRY", "failed", "failed_permanent"},
	}
	if len(tests) != len(outbox.Statuses) {
		t.Fatalf("%d states are tested, there are %d", len(tests), len(outbox.Statuses))
	}
	for _, tt := range tests {
		t.Run(string(tt.status), func(t *testing.T) {
			got := [3]string{compat.B.Word(tt.status), compat.C.Word(tt.status), compat.D.Word(tt.status)}
			if want := [3]string{tt.b, tt.c, tt.d}; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if !slices.Contains(compat.B.Statuses(tt.b), tt.status) {
				t.Errorf("%s does not lead back to %s", tt.b, tt.status)
			}
		})
	}
}

func TestAWordStandsForAllItsStates(t *testing.T) {
	want := []outbox.Status{outbox.StatusPending, outbox.StatusScheduled, outbox.StatusInFlight, outbox.StatusRetrying}
	if got := compat.C.Statuses("pending"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, word := range []string{"", "CREATED"} {
		if got := compat.C.Statuses(word); got != nil {
			t.Errorf("%q stands for %q", word, got)
		}
	}
}

func TestForeignKeys(t *testing.T) {
	tests := []struct{ name, value, ours, want string }{
		{"outbox.scheduler.mainProcessInterval", "3s", "relay.poll_interval", "3s"},
		{"outbox.scheduler.retryProcessInterval", "30s", "", "30s"},
		{"outbox.scheduler.healthCheckInterval", "60s", "", "60s"},
		{"outbox.scheduler.metricsInterval", "30s", "", "30s"},
		{"outbox.scheduler.batchSize", "100", "relay.batch_size", "100"},
		{"outbox.publisher.maxRetries", "5", "relay.max_attempts", "6"},
		{"outbox.publisher.baseDelay", "2s", "relay.retry_base", "2s"},
		{"outbox.publisher.maxDelay", "30m", "relay.retry_max", "30m"},
	}
	if len(tests) != len(compat.Keys) {
		t.Fatalf("%d keys are tested, there are %d", len(tests), len(compat.Keys))
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			key := compat.Keys[i]
			got, err := key.Convert(tt.value)
			if err != nil {
				t.Fatal(err)
			}
			if key.Name != tt.name || key.Ours != tt.ours || got != tt.want {
				t.Errorf("%s: %s = %s, want %s: %s = %s", key.Name, key.Ours, got, tt.name, tt.ours, tt.want)
			}
			if key.Ours == "" && key.Note == "" {
				t.Error("a key without effect must say why")
			}
		})
	}
}

func TestNegativeRetriesAreRefused(t *testing.T) {
	for _, key := range compat.Keys {
		if key.Name != "outbox.publisher.maxRetries" {
			continue
		}
		for _, value := range []string{"-1", "many", ""} {
			if _, err := key.Convert(value); err == nil {
				t.Errorf("%q is accepted", value)
			}
		}
	}
}

func ExampleRetry() {
	policy, err := compat.Retry("b")
	if err != nil {
		panic(err)
	}
	fmt.Println(policy.MaxAttempts, policy.Delay(1, 0), policy.Delay(5, 0))
	// Output: 6 2s 32s
}

func ExampleVocabulary() {
	fmt.Println(compat.D.Word(outbox.StatusDead), compat.B.Statuses("FAILED"))
	// Output: failed_permanent [retrying]
}
