package webhook

import (
	"bytes"
	"errors"
	"io"
	"net/http"
)

// Handler lets verified requests through to next, which reads the same body, and
// answers the others itself:
//
//	400  malformed headers
//	401  no matching signature, or none of a known version
//	413  the body is larger than MaxBody
//	425  stale, from the future or replayed: sign it again and it may pass
//	408  the body did not arrive
//	503  the replay guard failed
//
// 425 and not 400, because senders take 400 for final, and one clock that is wrong
// would cost every event.
func (v *Verifier) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, v.cfg.MaxBody))
		if err != nil {
			v.reject(w, r, readStatus(err), err)
			return
		}
		if err := v.Verify(r.Context(), r.Header, body); err != nil {
			v.reject(w, r, verifyStatus(err), err)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		r.ContentLength = int64(len(body))
		next.ServeHTTP(w, r)
	})
}

// reject tells the sender the status and nothing more.
func (v *Verifier) reject(w http.ResponseWriter, r *http.Request, status int, err error) {
	if v.cfg.Rejected != nil {
		v.cfg.Rejected(r, err)
	}
	http.Error(w, http.StatusText(status), status)
}

func readStatus(err error) int {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusRequestTimeout
}

func verifyStatus(err error) int {
	switch {
	case errors.Is(err, ErrMalformed):
		return http.StatusBadRequest
	case errors.Is(err, ErrNoMatch), errors.Is(err, ErrUnknownVersion):
		return http.StatusUnauthorized
	case errors.Is(err, ErrStale), errors.Is(err, ErrFuture), errors.Is(err, ErrReplayed):
		return http.StatusTooEarly
	}
	return http.StatusServiceUnavailable
}
