package natssink

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/go-outbox/outbox"
)

// answers are JetStream's refusals that mean something else than their class.
var answers = map[jetstream.ErrorCode]outbox.Verdict{
	// The message itself.
	10054: outbox.VerdictPermanent, // message size exceeds maximum allowed
	10097: outbox.VerdictPermanent, // header size exceeds maximum allowed of 64k

	// No room: of the account, the memory or the disk.
	10002: outbox.VerdictUnavailable,
	10028: outbox.VerdictUnavailable,
	10047: outbox.VerdictUnavailable,
	10122: outbox.VerdictUnavailable,

	10118: outbox.VerdictUnavailable, // stream is offline
	10194: outbox.VerdictUnavailable, // stream is offline, with a reason
	10167: outbox.VerdictUnavailable, // too many requests
}

// perSubject is how a stream refuses a message although it has room for others. It
// shares a code with "maximum messages exceeded", which stops everybody.
const perSubject = "maximum messages per subject exceeded"

func judge(answer *jetstream.APIError) outbox.Verdict {
	if verdict, ok := answers[answer.ErrorCode]; ok {
		return verdict
	}
	if answer.Code == 503 && answer.Description != perSubject {
		return outbox.VerdictUnavailable
	}
	return outbox.VerdictRetry
}

// local are errors of the client, before or instead of an answer. What is not listed is
// a retry: nobody knows whether a stream has the message.
var local = []struct {
	err     error
	verdict outbox.Verdict
}{
	{nats.ErrMaxPayload, outbox.VerdictPermanent},
	{nats.ErrBadSubject, outbox.VerdictPermanent},
	{nats.ErrBadHeaderMsg, outbox.VerdictPermanent},

	// Nothing was sent.
	{nats.ErrConnectionClosed, outbox.VerdictUnavailable},
	{nats.ErrConnectionDraining, outbox.VerdictUnavailable},
	{nats.ErrConnectionReconnecting, outbox.VerdictUnavailable},
	{nats.ErrReconnectBufExceeded, outbox.VerdictUnavailable},
	{nats.ErrInvalidConnection, outbox.VerdictUnavailable},
	{nats.ErrNoServers, outbox.VerdictUnavailable},
	{nats.ErrHeadersNotSupported, outbox.VerdictUnavailable}, // the server is too old
	{nats.ErrNoResponders, outbox.VerdictUnavailable},        // to an API request: no JetStream there

	// Sent, and no answer.
	{nats.ErrDisconnected, outbox.VerdictRetry},
	{nats.ErrTimeout, outbox.VerdictRetry},
	{errClosed, outbox.VerdictRetry},
	{context.DeadlineExceeded, outbox.VerdictRetry},
	{context.Canceled, outbox.VerdictRetry},

	// Not an outage of JetStream by itself: explain asks.
	{jetstream.ErrNoStreamResponse, outbox.VerdictRetry},
	// Somebody who is no stream answers on the subject.
	{jetstream.ErrInvalidJSAck, outbox.VerdictRetry},
}

// classify marks an error with what it means for the message.
func classify(err error) error {
	if err == nil {
		return nil
	}
	if answer, ok := errors.AsType[*jetstream.APIError](err); ok {
		return mark(err, judge(answer))
	}
	if answer, ok := errors.AsType[jetstream.JetStreamError](err); ok && answer.APIError() != nil {
		return mark(err, judge(answer.APIError()))
	}
	for _, known := range local {
		if errors.Is(err, known.err) {
			return mark(err, known.verdict)
		}
	}
	return err
}

func mark(err error, verdict outbox.Verdict) error {
	if answer, ok := errors.AsType[*jetstream.APIError](err); ok {
		err = fmt.Errorf("%w (%d)", err, answer.ErrorCode)
	}
	switch verdict {
	case outbox.VerdictPermanent:
		return outbox.Permanent(err)
	case outbox.VerdictUnavailable:
		return outbox.Unavailable(err)
	}
	return err
}
