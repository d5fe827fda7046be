package outbox_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/go-outbox/outbox"
)

// Codes are part of the compatibility promise: alerts and clients match on them.
func TestErrorCodesAreStable(t *testing.T) {
	for _, tt := range []struct {
		code string
		err  *outbox.Error
	}{
		{"OUTBOX_INVALID_TOPIC", outbox.ErrInvalidTopic},
		{"OUTBOX_INVALID_KEY", outbox.ErrInvalidKey},
		{"OUTBOX_INVALID_HEADER", outbox.ErrInvalidHeader},
		{"OUTBOX_INVALID_PAYLOAD", outbox.ErrInvalidPayload},
		{"OUTBOX_PAYLOAD_TOO_LARGE", outbox.ErrPayloadTooLarge},
		{"OUTBOX_INVALID_MESSAGE", outbox.ErrInvalidMessage},
		{"OUTBOX_CONTRACT_VIOLATION", outbox.ErrContract},
		{"OUTBOX_EVENT_ID_CONFLICT", outbox.ErrEventIDConflict},
		{"OUTBOX_UNMAPPED_TOPIC", outbox.ErrUnmappedTopic},
		{"OUTBOX_INVALID_TABLE", outbox.ErrInvalidTable},
		{"OUTBOX_INVALID_CONFIG", outbox.ErrInvalidConfig},
		{"OUTBOX_SCHEMA_MISMATCH", outbox.ErrSchema},
		{"OUTBOX_LEASE_HELD", outbox.ErrLeaseHeld},
		{"OUTBOX_LEASE_LOST", outbox.ErrLeaseLost},
		{"OUTBOX_RESTORE_DETECTED", outbox.ErrRestored},
		{"OUTBOX_NOT_FOUND", outbox.ErrNotFound},
		{"OUTBOX_NOT_APPLICABLE", outbox.ErrNotApplicable},
		{"OUTBOX_DRIFT", outbox.ErrDrift},
		{"OUTBOX_NO_ROUTE", outbox.ErrNoRoute},
		{"OUTBOX_DESTINATION_GONE", outbox.ErrGone},
	} {
		if got := tt.err.Code(); got != tt.code {
			t.Errorf("code of %q is %s, want %s", tt.err, got, tt.code)
		}
		if tt.err.Field() != "" {
			t.Errorf("%s names the field %q before it is about one", tt.code, tt.err.Field())
		}
	}
}

func TestErrorsMatchByCodeWhateverTheirTextFieldOrCause(t *testing.T) {
	about := outbox.ErrInvalidKey.With("key", "is too odd")
	caused := outbox.ErrSchema.Wrap(io.ErrUnexpectedEOF)

	for _, tt := range []struct {
		name   string
		err    error
		target error
		want   bool
	}{
		{"itself", outbox.ErrInvalidKey, outbox.ErrInvalidKey, true},
		{"With keeps the identity", about, outbox.ErrInvalidKey, true},
		{"two errors of one code", about, outbox.ErrInvalidKey.With("other", "text"), true},
		{"another code", about, outbox.ErrInvalidTopic, false},
		{"a foreign error", about, io.EOF, false},
		{"through fmt.Errorf", fmt.Errorf("enqueue: %w", about), outbox.ErrInvalidKey, true},
		{"through errors.Join", errors.Join(io.EOF, about), outbox.ErrInvalidKey, true},
		{"Wrap keeps the identity", caused, outbox.ErrSchema, true},
		{"Wrap keeps the cause", caused, io.ErrUnexpectedEOF, true},
		{"With forgets the cause", caused.With("table", "is missing"), io.ErrUnexpectedEOF, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := errors.Is(tt.err, tt.target); got != tt.want {
				t.Errorf("errors.Is(%v, %v) = %t, want %t", tt.err, tt.target, got, tt.want)
			}
		})
	}
}

func TestErrorTextNamesFieldThenProblemThenCause(t *testing.T) {
	for _, tt := range []struct {
		err  *outbox.Error
		want string
	}{
		{outbox.ErrInvalidKey, "invalid key"},
		{outbox.ErrInvalidKey.With("key", "is empty"), "key: is empty"},
		{outbox.ErrSchema.Wrap(io.EOF), "schema mismatch: EOF"},
		{outbox.ErrSchema.With("orders", "is too old").Wrap(io.EOF), "orders: is too old: EOF"},
	} {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("text is %q, want %q", got, tt.want)
		}
	}
}

func TestWithAndWrapLeaveTheSentinelAlone(t *testing.T) {
	_ = outbox.ErrNotFound.With("event_id", "gone")
	_ = outbox.ErrNotFound.Wrap(io.EOF)

	if got := outbox.ErrNotFound.Error(); got != "no such event" {
		t.Errorf("ErrNotFound now reads %q", got)
	}
	if outbox.ErrNotFound.Unwrap() != nil {
		t.Error("ErrNotFound now has a cause")
	}
}

// coded is an error of another package with a code of its own.
type coded struct{ error }

func (coded) Code() string { return "EVENTBUS_NO_SUBSCRIBERS" }

func TestCodeOfFindsTheFirstCodeInTheChain(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"nil", nil, ""},
		{"an error without a code", io.EOF, ""},
		{"the error itself", outbox.ErrLeaseLost, "OUTBOX_LEASE_LOST"},
		{"a wrapped error", fmt.Errorf("step: %w", outbox.ErrLeaseLost.With("", "taken over")), "OUTBOX_LEASE_LOST"},
		{"a joined error", errors.Join(io.EOF, outbox.ErrLeaseLost), "OUTBOX_LEASE_LOST"},
		{"the outer of two", outbox.ErrSchema.Wrap(outbox.ErrNotFound), "OUTBOX_SCHEMA_MISMATCH"},
		{"under a verdict", outbox.Permanent(outbox.ErrContract), "OUTBOX_CONTRACT_VIOLATION"},
		{"an error of another package", fmt.Errorf("publish: %w", coded{io.EOF}), "EVENTBUS_NO_SUBSCRIBERS"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := outbox.CodeOf(tt.err); got != tt.want {
				t.Errorf("CodeOf(%v) = %q, want %q", tt.err, got, tt.want)
			}
		})
	}
}
