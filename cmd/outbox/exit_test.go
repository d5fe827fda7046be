package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/migrate"
)

func TestExitCodes(t *testing.T) {
	interrupted, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	tests := []struct {
		name string
		ctx  context.Context
		err  error
		want int
	}{
		{"success", t.Context(), nil, 0},
		{"success although interrupted", interrupted, nil, 0},
		{"failure", t.Context(), errors.New("disk full"), 1},
		{"lease held", t.Context(), fmt.Errorf("relay: %w", outbox.ErrLeaseHeld), 1},
		{"usage", t.Context(), usagef("no table"), 2},
		{"invalid setting", t.Context(), fmt.Errorf("load: %w", outbox.ErrInvalidConfig), 2},
		{"invalid table", t.Context(), fmt.Errorf("new: %w", outbox.ErrInvalidTable.With("table", "x")), 2},
		{"schema missing", t.Context(), fmt.Errorf("check: %w", outbox.ErrSchema.With("table", "x")), 3},
		{"schema too old", t.Context(), &migrate.TooOldError{Table: "a", Have: 1, Want: 2}, 3},
		{"schema too new", t.Context(), fmt.Errorf("up: %w", &migrate.TooNewError{Table: "a", Have: 2, Want: 1}), 3},
		{"threshold exceeded", t.Context(), fmt.Errorf("check: %w", &thresholdError{"12 are dead"}), 4},
		{"interrupted", interrupted, context.Canceled, 130},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := &app{err: &bytes.Buffer{}, running: true}
			if got := a.exit(tt.ctx, tt.err); got != tt.want {
				t.Errorf("exit code %d, want %d", got, tt.want)
			}
		})
	}
}

func TestWhatFailsBeforeACommandRunsIsUsage(t *testing.T) {
	a := &app{err: &bytes.Buffer{}}
	if got := a.exit(t.Context(), errors.New("unknown flag: --x")); got != exitUsage {
		t.Errorf("exit code %d, want %d", got, exitUsage)
	}
}

func TestErrorsAreShownWithoutCredentialsAndControlCharacters(t *testing.T) {
	var shown bytes.Buffer
	a := &app{err: &shown, running: true}

	a.exit(t.Context(), errors.New("dial postgres://app:hunter2@db/shop:\n\x1b[31mrefused\x07"))

	if got := shown.String(); strings.Contains(got, "hunter2") || strings.ContainsAny(got, "\x1b\x07") ||
		strings.Count(got, "\n") != 2 {
		t.Errorf("got %q", got)
	}
}
