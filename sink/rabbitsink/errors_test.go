package rabbitsink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"

	"github.com/rabbitmq/amqp091-go"

	"github.com/go-outbox/outbox"
)

func TestWhatAnExceptionMeans(t *testing.T) {
	const (
		retry       = outbox.VerdictRetry
		permanent   = outbox.VerdictPermanent
		unavailable = outbox.VerdictUnavailable
	)
	tests := []struct {
		name string
		code int
		want outbox.Verdict
		one  bool
	}{
		{"content too large", amqp091.ContentTooLarge, permanent, true},
		{"no route", amqp091.NoRoute, retry, false},
		{"no consumers", amqp091.NoConsumers, retry, false},
		{"connection forced", amqp091.ConnectionForced, retry, false},
		{"invalid path", amqp091.InvalidPath, retry, false},
		{"access refused", amqp091.AccessRefused, retry, true},
		{"not found", amqp091.NotFound, unavailable, false},
		{"resource locked", amqp091.ResourceLocked, retry, false},
		{"precondition failed", amqp091.PreconditionFailed, permanent, true},
		{"frame error", amqp091.FrameError, retry, false},
		{"syntax error", amqp091.SyntaxError, retry, false},
		{"command invalid", amqp091.CommandInvalid, retry, false},
		{"channel error", amqp091.ChannelError, retry, false},
		{"unexpected frame", amqp091.UnexpectedFrame, retry, false},
		{"resource error", amqp091.ResourceError, unavailable, false},
		{"not allowed", amqp091.NotAllowed, unavailable, false},
		{"not implemented", amqp091.NotImplemented, retry, false},
		{"internal error", amqp091.InternalError, retry, false},
		{"a code of the future", 599, retry, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			exception := &amqp091.Error{Code: tt.code, Reason: "why", Server: true}
			err := brokerError(fmt.Errorf("publish: %w", exception))
			if got, _ := outbox.Classify(err); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
			if got := aboutOne(exception); got != tt.one {
				t.Errorf("about one message: %v, want %v", got, tt.one)
			}
			if !errors.Is(err, exception) {
				t.Errorf("%v has lost its cause", err)
			}
		})
	}
	if err := errors.New("no exception"); brokerError(err) != err { //nolint:errorlint // the same error, not one like it
		t.Error("it was marked")
	}
}

func TestWhatWasNotSentIsAnOutage(t *testing.T) {
	for _, err := range []error{
		&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED},
		&net.DNSError{Err: "no such host", IsNotFound: true},
		context.DeadlineExceeded,
		amqp091.ErrCredentials, amqp091.ErrVhost, amqp091.ErrSASL, amqp091.ErrClosed,
		errNoConfirms,
	} {
		if got := unsentError(t.Context(), err); !outbox.IsUnavailable(got) || !errors.Is(got, err) {
			t.Errorf("%v is %v", err, got)
		}
	}
}

func TestAStopOfTheCallerIsNoOutage(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	if err := unsentError(ctx, context.Canceled); outbox.IsUnavailable(err) {
		t.Errorf("got %v", err)
	}
}
