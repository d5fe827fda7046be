package outbox

import (
	"context"
	"errors"
	"time"
)

// Verdict is what a dispatch result means for the message.
type Verdict int

const (
	// VerdictDelivered means: the destination acknowledged the message.
	VerdictDelivered Verdict = iota
	// VerdictRetry means: it failed, or nobody knows; try again under the policy.
	VerdictRetry
	// VerdictPermanent means: it will never succeed; the message is dead now.
	VerdictPermanent
	// VerdictUnavailable means: the destination is down; the message waits and no
	// attempt is spent.
	VerdictUnavailable
)

func (v Verdict) String() string {
	switch v {
	case VerdictDelivered:
		return "delivered"
	case VerdictPermanent:
		return "permanent"
	case VerdictUnavailable:
		return "unavailable"
	default:
		return "retry"
	}
}

type verdictError struct {
	verdict Verdict
	after   time.Duration
	err     error
}

func (e *verdictError) Error() string { return e.err.Error() }
func (e *verdictError) Unwrap() error { return e.err }

// Permanent marks err as one that no retry can mend (a malformed event, a message
// the broker refuses for its size): the message becomes dead at once. Permanent of
// nil is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &verdictError{verdict: VerdictPermanent, err: err}
}

// RetryAfter asks for the next attempt after d instead of the policy's backoff.
// The attempt counts. RetryAfter of nil is nil.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &verdictError{verdict: VerdictRetry, after: max(d, 0), err: err}
}

// Unavailable marks err as an outage of the destination, not a fault of the
// message: the route's circuit opens, the message is put back and no attempt is
// spent. A delay that err carries ([RetryAfter]) is how long the circuit stays open at
// least. Unavailable of nil is nil.
func Unavailable(err error) error {
	if err == nil {
		return nil
	}
	_, after := Classify(err)
	return &verdictError{verdict: VerdictUnavailable, after: after, err: err}
}

// Classify tells the verdict of a dispatch result and the delay that was asked for
// with [RetryAfter]. The outermost mark wins. An unmarked error is a retry.
func Classify(err error) (Verdict, time.Duration) {
	if err == nil {
		return VerdictDelivered, 0
	}
	if v, ok := errors.AsType[*verdictError](err); ok {
		return v.verdict, v.after
	}
	return VerdictRetry, 0
}

// IsPermanent reports whether err was marked with [Permanent].
func IsPermanent(err error) bool {
	v, _ := Classify(err)
	return v == VerdictPermanent
}

// IsUnavailable reports whether err was marked with [Unavailable].
func IsUnavailable(err error) bool {
	v, _ := Classify(err)
	return v == VerdictUnavailable
}

// Classifier wraps a dispatcher and marks the errors it returns, for code whose
// errors know nothing of verdicts: mark returns err, or err wrapped with
// [Permanent], [RetryAfter] or [Unavailable]. It is not called for nil, and errors
// that already carry a verdict pass unchanged. A mark cannot turn a failure into a
// delivery: when it returns nil, err stands.
func Classifier(next Dispatcher, mark func(error) error) Dispatcher {
	return DispatcherFunc(func(ctx context.Context, msg DispatchedMessage) error {
		err := next.Dispatch(ctx, msg)
		if err == nil {
			return nil
		}
		if _, marked := errors.AsType[*verdictError](err); marked {
			return err
		}
		if m := mark(err); m != nil {
			return m
		}
		return err
	})
}
