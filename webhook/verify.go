package webhook

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	defaultTolerance = 5 * time.Minute
	defaultMaxBody   = 1 << 20
)

// Config tells a Verifier what to accept.
type Config struct {
	// Secrets are those that may have signed: one, or the old and the new while
	// a secret is rotated. Required.
	Secrets []Secret
	// Tolerance is how far the timestamp may be from now, both ways. Longer
	// forgives worse clocks and gives a captured request a longer life. Defaults
	// to 5 minutes.
	Tolerance time.Duration
	// Fresh is the replay guard. It is called when everything else is right,
	// with a text that names this very request, and reports whether it was never
	// called with it before; it may forget at until. It must decide for one of
	// two concurrent callers. Optional.
	Fresh func(ctx context.Context, request string, until time.Time) (bool, error)
	// MaxBody is how many bytes Handler reads. Defaults to 1 MiB.
	MaxBody int64
	// Rejected hears of every request that Handler turns away, and why.
	// Optional.
	Rejected func(r *http.Request, err error)
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
}

// A Verifier checks signatures. Create it with NewVerifier; the zero value is not
// usable. It is safe for concurrent use.
type Verifier struct{ cfg Config }

// NewVerifier makes a verifier. It reports every mistake in cfg at once.
func NewVerifier(cfg Config) (*Verifier, error) {
	var errs []error
	if len(cfg.Secrets) == 0 {
		errs = append(errs, errNoSecret)
	}
	for i, s := range cfg.Secrets {
		if s.IsZero() {
			errs = append(errs, fmt.Errorf("webhook: secret %d is empty", i+1))
		}
	}
	if cfg.Tolerance < 0 {
		errs = append(errs, errors.New("webhook: tolerance is negative"))
	}
	if cfg.MaxBody < 0 {
		errs = append(errs, errors.New("webhook: max body is negative"))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if cfg.Tolerance == 0 {
		cfg.Tolerance = defaultTolerance
	}
	if cfg.MaxBody == 0 {
		cfg.MaxBody = defaultMaxBody
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Verifier{cfg}, nil
}

// Verify reports whether one of the secrets signed body under these headers, in
// time. body is the request's as it was read, before anything decoded it. A nil error
// is the only acceptance.
func (v *Verifier) Verify(ctx context.Context, header http.Header, body []byte) error {
	id, timestamp, signatures, err := parse(header)
	if err != nil {
		return err
	}
	at, err := parseTimestamp(timestamp)
	if err != nil {
		return err
	}
	switch age := v.cfg.Now().Sub(at); {
	case age > v.cfg.Tolerance:
		return ErrStale
	case age < -v.cfg.Tolerance:
		return ErrFuture
	}
	if !v.matches(id, timestamp, body, signatures) {
		return ErrNoMatch
	}
	return v.guard(ctx, id+"."+timestamp, at)
}

func parse(header http.Header) (id, timestamp string, signatures []digest, err error) {
	for _, h := range [...]struct {
		name string
		to   *string
	}{{HeaderID, &id}, {HeaderTimestamp, &timestamp}} {
		if *h.to, err = single(header, h.name); err != nil {
			return "", "", nil, err
		}
	}
	if err := checkID(id); err != nil {
		return "", "", nil, err
	}
	text, err := single(header, HeaderSignature)
	if err != nil {
		return "", "", nil, err
	}
	signatures, err = parseSignatures(text)
	return id, timestamp, signatures, err
}

// single returns the only value of a header: of two, a proxy and we might take
// different ones.
func single(header http.Header, name string) (string, error) {
	values := header.Values(name)
	if len(values) != 1 {
		return "", fmt.Errorf("%w: want one %s, got %d", ErrMalformed, name, len(values))
	}
	return values[0], nil
}

// matches compares every signature with every secret, so that the time it takes says
// nothing about which of them was near.
func (v *Verifier) matches(id, timestamp string, body []byte, signatures []digest) bool {
	match := 0
	for _, s := range v.cfg.Secrets {
		want := sign(s, id, timestamp, body)
		for i := range signatures {
			match |= subtle.ConstantTimeCompare(want[:], signatures[i][:])
		}
	}
	return match == 1
}

func (v *Verifier) guard(ctx context.Context, request string, at time.Time) error {
	if v.cfg.Fresh == nil {
		return nil
	}
	fresh, err := v.cfg.Fresh(ctx, request, at.Add(v.cfg.Tolerance).Add(time.Second))
	switch {
	case err != nil:
		return fmt.Errorf("webhook replay guard: %w", err)
	case !fresh:
		return ErrReplayed
	}
	return nil
}
