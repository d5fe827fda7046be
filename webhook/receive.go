package webhook

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/wire"
)

// Receive is Handler for consumers of an outbox: what passes is handed to handle as the
// message that was sent. It answers 204 when handle returns nil, so handle returns after
// its transaction is committed, and otherwise by the verdict of the error:
//
//	422  outbox.Permanent: the sender gives the message up
//	429  outbox.RetryAfter, with the time as Retry-After
//	503  outbox.Unavailable: the sender waits, at no attempt
//	500  any other
//
// The answer holds no text of the error. The same event comes again when an answer is
// lost: deduplicate on Meta.EventID, for example with package inbox.
//
// The signature covers the payload and the id. Event id and replay are taken from the id;
// topic, tenant, key, version and the other headers are as trustworthy as the connection.
// An application that decides by them over an untrusted hop wants them in the payload: the
// structured CloudEvents envelope puts them there.
func (v *Verifier) Receive(handle func(ctx context.Context, msg outbox.DispatchedMessage) error) http.Handler {
	return v.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		payload, err := io.ReadAll(r.Body)
		if err != nil {
			v.reject(w, r, readStatus(err), err)
			return
		}
		msg, err := message(r.Header, payload)
		if err != nil {
			v.reject(w, r, http.StatusBadRequest, err)
			return
		}
		answer(w, handle(r.Context(), msg))
	}))
}

func answer(w http.ResponseWriter, err error) {
	status := http.StatusNoContent
	switch verdict, after := outbox.Classify(err); {
	case verdict == outbox.VerdictPermanent:
		status = http.StatusUnprocessableEntity
	case verdict == outbox.VerdictUnavailable:
		status = http.StatusServiceUnavailable
		retryAfter(w, after)
	case verdict == outbox.VerdictRetry && after > 0:
		status = http.StatusTooManyRequests
		retryAfter(w, after)
	case verdict == outbox.VerdictRetry:
		status = http.StatusInternalServerError
	}
	w.WriteHeader(status)
}

func retryAfter(w http.ResponseWriter, after time.Duration) {
	if after > 0 {
		w.Header().Set("Retry-After", strconv.FormatFloat(math.Ceil(after.Seconds()), 'f', 0, 64))
	}
}

// message is what was sent, as far as the request says.
func message(header http.Header, payload []byte) (outbox.DispatchedMessage, error) {
	id, replays, err := splitID(header.Get(HeaderID))
	if err != nil {
		return outbox.DispatchedMessage{}, err
	}
	headers := []wire.Header{{Name: wire.EventID, Value: id.String()}, {Name: wire.Replay, Value: strconv.Itoa(replays)}}
	for name, values := range header {
		name = strings.ToLower(name)
		if name != wire.EventID && name != wire.Replay && !isTransport(name) && len(values) == 1 {
			headers = append(headers, wire.Header{Name: name, Value: values[0]})
		}
	}
	msg, err := wire.Parse(headers, payload)
	if err != nil {
		return msg, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return msg, nil
}

// splitID undoes Meta.DedupID: UUID or UUID-rN.
func splitID(id string) (event uuid.UUID, replays int, err error) {
	text, replay, replayed := strings.Cut(id, "-r")
	event, err = uuid.Parse(text)
	if err == nil && len(text) != 36 {
		err = fmt.Errorf("%q is not a UUID", text) // one of its other spellings
	}
	if err == nil && replayed {
		replays, err = strconv.Atoi(replay)
	}
	if err != nil || event == uuid.Nil || replays < 0 {
		return event, 0, fmt.Errorf("%w: the id is not that of an outbox", ErrMalformed)
	}
	return event, replays, nil
}

// transport are headers of the way and not of the message.
var transport = map[string]bool{
	"accept": true, "accept-encoding": true, "connection": true, "content-encoding": true, "content-length": true,
	"forwarded": true, "host": true, "keep-alive": true, "te": true, "trailer": true, "transfer-encoding": true,
	"upgrade": true, "user-agent": true, "via": true, "x-real-ip": true,
}

func isTransport(name string) bool {
	return transport[name] || strings.HasPrefix(name, "webhook-") || strings.HasPrefix(name, "x-forwarded-")
}
