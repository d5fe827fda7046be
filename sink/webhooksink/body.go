package webhooksink

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync"
)

// A body lends the payload to the transport, which may go on reading after the
// answer has come: when it came early, or not at all. The payload is the relay's, so
// it is taken back.
type body struct {
	mu      sync.Mutex
	payload []byte // nil once released
}

var errReleased = errors.New("the dispatch has ended")

func (b *body) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.payload = nil
}

// request makes the POST of this body.
func (b *body) request(ctx context.Context, to *url.URL, header http.Header) *http.Request {
	r := (&http.Request{
		Method: http.MethodPost, URL: to, Host: to.Host, Header: header,
		ContentLength: int64(len(b.payload)), Body: http.NoBody,
	}).WithContext(ctx)
	if len(b.payload) > 0 {
		r.Body = &reader{body: b}
		// What was not sent, because the connection was closed at that moment,
		// the transport sends on another.
		r.GetBody = func() (io.ReadCloser, error) { return &reader{body: b}, nil }
	}
	return r
}

// A reader is one pass over a body.
type reader struct {
	body *body
	at   int
}

func (r *reader) Read(p []byte) (int, error) {
	r.body.mu.Lock()
	defer r.body.mu.Unlock()
	switch {
	case r.body.payload == nil:
		return 0, errReleased
	case r.at == len(r.body.payload):
		return 0, io.EOF
	}
	n := copy(p, r.body.payload[r.at:])
	r.at += n
	return n, nil
}

func (r *reader) Close() error { return nil }
