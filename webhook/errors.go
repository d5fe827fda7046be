package webhook

import "errors"

// What is wrong with a request. Verify's errors wrap exactly one of these, except
// when the replay guard itself failed.
var (
	// ErrMalformed: a header is missing, twice there or cannot be read.
	ErrMalformed = errors.New("malformed webhook headers")
	// ErrUnknownVersion: there is no v1 signature.
	ErrUnknownVersion = errors.New("no webhook signature of a known version")
	// ErrStale: it was signed longer ago than the tolerance, or the clocks differ.
	ErrStale = errors.New("webhook timestamp is too old")
	// ErrFuture: it was signed later than now and the tolerance, or the clocks
	// differ.
	ErrFuture = errors.New("webhook timestamp is in the future")
	// ErrNoMatch: no signature fits the body and any of the secrets.
	ErrNoMatch = errors.New("no matching webhook signature")
	// ErrReplayed: the replay guard has seen this very request before.
	ErrReplayed = errors.New("webhook was replayed")
)

var errNoSecret = errors.New("webhook: no secret")
