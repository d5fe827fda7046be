package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/migrate"
)

// The exit codes are covered by the compatibility promise.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitSchema      = 3
	exitThreshold   = 4
	exitInterrupted = 130
)

// A usageError is a command line that makes no sense.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

// A thresholdError is what `check` found beyond its limit.
type thresholdError struct{ text string }

func (e *thresholdError) Error() string { return e.text }

// exit reports err and returns its exit code.
func (a *app) exit(ctx context.Context, err error) int {
	if err == nil {
		return exitOK
	}
	code := a.exitCode(ctx, err)
	if code == exitInterrupted {
		fmt.Fprintln(a.err, "outbox: interrupted")
		return code
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		// The last net under every message: no credentials, no control
		// characters, whatever a driver put into its error.
		fmt.Fprintln(a.err, "outbox:", outbox.SanitizeText(line, nil, 0))
	}
	return code
}

func (a *app) exitCode(ctx context.Context, err error) int {
	if _, ok := errors.AsType[*usageError](err); ok || !a.running {
		return exitUsage
	}
	if _, ok := errors.AsType[*thresholdError](err); ok {
		return exitThreshold
	}
	switch {
	case errors.Is(err, outbox.ErrSchema), wrongVersion(err):
		return exitSchema
	case errors.Is(err, outbox.ErrInvalidConfig), errors.Is(err, outbox.ErrInvalidTable):
		return exitUsage
	case errors.Is(context.Cause(ctx), errInterrupted):
		return exitInterrupted
	}
	return exitFailure
}

// wrongVersion: a migration refused because of the version it found.
func wrongVersion(err error) bool {
	_, old := errors.AsType[*migrate.TooOldError](err)
	_, young := errors.AsType[*migrate.TooNewError](err)
	return old || young
}
