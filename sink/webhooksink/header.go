package webhooksink

import (
	"net/http"
	"strconv"
	"time"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/wire"
	"github.com/go-outbox/outbox/webhook"
)

// header makes the headers of a request: the message's, and the signature. Its errors
// are permanent.
func (s *Sink) header(msg *outbox.DispatchedMessage, now time.Time) (http.Header, error) {
	fields, err := wire.Headers(&msg.Meta)
	if err != nil {
		return nil, err
	}
	id := msg.Meta.DedupID()
	signature, err := webhook.Sign(id, now, msg.Payload, s.secrets...)
	if err != nil {
		return nil, outbox.Permanent(err)
	}
	h := make(http.Header, len(fields)+5)
	h.Set("User-Agent", "outbox") // or the message's own
	for _, f := range fields {
		if f.Name != wire.DedupID { // which is webhook-id here
			h.Set(f.Name, f.Value)
		}
	}
	h.Set(webhook.HeaderID, id)
	h.Set(webhook.HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
	h.Set(webhook.HeaderSignature, signature)
	h.Set("Accept-Encoding", "identity")
	return h, nil
}
