package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"testing"
	"time"

	"github.com/go-outbox/outbox"
)

func TestClassify(t *testing.T) {
	boom := errors.New("boom")
	for _, tt := range []struct {
		name    string
		err     error
		verdict outbox.Verdict
		after   time.Duration
	}{
		{"nil is delivered", nil, outbox.VerdictDelivered, 0},
		{"an unmarked error is a retry", boom, outbox.VerdictRetry, 0},
		{"a cancelled context is a retry, for nobody knows what arrived", context.Canceled, outbox.VerdictRetry, 0},
		{"a permanent error", outbox.Permanent(boom), outbox.VerdictPermanent, 0},
		{"an unavailable destination", outbox.Unavailable(boom), outbox.VerdictUnavailable, 0},
		{"a delay that was asked for", outbox.RetryAfter(boom, time.Minute), outbox.VerdictRetry, time.Minute},
		{"a negative delay is none", outbox.RetryAfter(boom, -time.Minute), outbox.VerdictRetry, 0},
		{"the longest negative delay is none", outbox.RetryAfter(boom, math.MinInt64), outbox.VerdictRetry, 0},
		{"a mark below a wrapped error", fmt.Errorf("post: %w", outbox.Permanent(boom)), outbox.VerdictPermanent, 0},
		{"the outermost mark: unavailable", outbox.Unavailable(outbox.Permanent(boom)), outbox.VerdictUnavailable, 0},
		{"the outermost mark: permanent", outbox.Permanent(fmt.Errorf("x: %w", outbox.Unavailable(boom))), outbox.VerdictPermanent, 0},
		{"the outermost mark drops an inner delay", outbox.Permanent(outbox.RetryAfter(boom, time.Hour)), outbox.VerdictPermanent, 0},
		{"the outermost of two delays", outbox.RetryAfter(outbox.RetryAfter(boom, time.Hour), time.Second), outbox.VerdictRetry, time.Second},
		{"a mark on one of several joined errors", errors.Join(boom, outbox.Permanent(io.EOF)), outbox.VerdictPermanent, 0},
		{"the first mark of several joined errors", errors.Join(outbox.Unavailable(boom), outbox.Permanent(io.EOF)), outbox.VerdictUnavailable, 0},
		{"a mark around joined errors", outbox.Permanent(errors.Join(boom, outbox.Unavailable(io.EOF))), outbox.VerdictPermanent, 0},
		{"joined errors without a mark", errors.Join(boom, io.EOF), outbox.VerdictRetry, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			verdict, after := outbox.Classify(tt.err)
			if verdict != tt.verdict || after != tt.after {
				t.Errorf("got %s after %s, want %s after %s", verdict, after, tt.verdict, tt.after)
			}
			if got, want := outbox.IsPermanent(tt.err), tt.verdict == outbox.VerdictPermanent; got != want {
				t.Errorf("IsPermanent is %t", got)
			}
			if got, want := outbox.IsUnavailable(tt.err), tt.verdict == outbox.VerdictUnavailable; got != want {
				t.Errorf("IsUnavailable is %t", got)
			}
		})
	}
}

func TestMarksOfNilAreNil(t *testing.T) {
	for name, err := range map[string]error{
		"Permanent":   outbox.Permanent(nil),
		"Unavailable": outbox.Unavailable(nil),
		"RetryAfter":  outbox.RetryAfter(nil, time.Second),
	} {
		if err != nil {
			t.Errorf("%s(nil) is %v: a delivered message would be sent again", name, err)
		}
	}
}

func TestMarksKeepTextAndCause(t *testing.T) {
	cause := fmt.Errorf("write: %w", io.ErrClosedPipe)
	for name, err := range map[string]error{
		"Permanent":   outbox.Permanent(cause),
		"Unavailable": outbox.Unavailable(cause),
		"RetryAfter":  outbox.RetryAfter(cause, time.Second),
	} {
		if err.Error() != cause.Error() {
			t.Errorf("%s reads %q, want %q", name, err, cause)
		}
		if !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%s hides its cause", name)
		}
	}
}

func TestVerdictsHaveNames(t *testing.T) {
	for verdict, want := range map[outbox.Verdict]string{
		outbox.VerdictDelivered:   "delivered",
		outbox.VerdictRetry:       "retry",
		outbox.VerdictPermanent:   "permanent",
		outbox.VerdictUnavailable: "unavailable",
		outbox.Verdict(99):        "retry", // what nobody knows is tried again
	} {
		if got := verdict.String(); got != want {
			t.Errorf("verdict %d is %q, want %q", int(verdict), got, want)
		}
	}
}

func TestClassifier(t *testing.T) {
	var asked []error
	mark := func(err error) error {
		asked = append(asked, err)
		switch {
		case errors.Is(err, io.ErrShortBuffer):
			return outbox.Permanent(err)
		case errors.Is(err, io.EOF):
			return nil
		default:
			return err
		}
	}

	for _, tt := range []struct {
		name  string
		err   error
		want  outbox.Verdict
		asked int
	}{
		{"is not asked about a delivery", nil, outbox.VerdictDelivered, 0},
		{"marks what the destination returned", io.ErrShortBuffer, outbox.VerdictPermanent, 1},
		{"may leave an error as it is", io.ErrClosedPipe, outbox.VerdictRetry, 1},
		{"is not asked about a marked error", outbox.Unavailable(io.ErrShortBuffer), outbox.VerdictUnavailable, 0},
		{"is not asked about an error marked deep inside", fmt.Errorf("x: %w", outbox.RetryAfter(io.ErrShortBuffer, 1)), outbox.VerdictRetry, 0},
		{"cannot turn a failure into a delivery", io.EOF, outbox.VerdictRetry, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			asked = nil
			d := outbox.Classifier(outbox.DispatcherFunc(func(context.Context, outbox.DispatchedMessage) error {
				return tt.err
			}), mark)

			err := d.Dispatch(t.Context(), outbox.DispatchedMessage{})

			if got, _ := outbox.Classify(err); got != tt.want {
				t.Errorf("verdict is %s, want %s", got, tt.want)
			}
			if !errors.Is(err, tt.err) {
				t.Errorf("got %v, which hides %v", err, tt.err)
			}
			if len(asked) != tt.asked {
				t.Errorf("mark was asked %d times, want %d", len(asked), tt.asked)
			}
		})
	}
}

func TestClassifierHandsOnTheMessageAndItsContext(t *testing.T) {
	type contextKey struct{}
	ctx := context.WithValue(t.Context(), contextKey{}, "here")
	var topic string
	d := outbox.Classifier(outbox.DispatcherFunc(func(ctx context.Context, msg outbox.DispatchedMessage) error {
		if ctx.Value(contextKey{}) != "here" {
			t.Error("the context is another one")
		}
		topic = msg.Meta.Topic
		return nil
	}), func(err error) error { return err })

	if err := d.Dispatch(ctx, outbox.DispatchedMessage{Meta: outbox.Meta{Topic: "shop.order.placed.v1"}}); err != nil {
		t.Fatal(err)
	}
	if topic != "shop.order.placed.v1" {
		t.Errorf("topic is %q", topic)
	}
}

func TestAnUnavailableDestinationMayAskToBeLeftAloneForAWhile(t *testing.T) {
	err := outbox.Unavailable(outbox.RetryAfter(errors.New("503"), time.Minute))
	if verdict, after := outbox.Classify(err); verdict != outbox.VerdictUnavailable || after != time.Minute {
		t.Errorf("got %s after %s", verdict, after)
	}
}

func TestRouteErrorsNameTheirRoutes(t *testing.T) {
	boom := errors.New("boom")
	err := outbox.RouteErrors{"b": boom, "a": errors.New("no")}
	if err.Error() != "a: no; b: boom" || !errors.Is(err, boom) {
		t.Errorf("got %q", err)
	}
}
