package rabbitsink

import (
	"context"
	"errors"

	"github.com/rabbitmq/amqp091-go"

	"github.com/go-outbox/outbox"
)

// A judgement is what a broker's exception means for the messages that it hit.
type judgement struct {
	verdict outbox.Verdict
	// one: a single message may be the cause, and the others its victims.
	one bool
}

// exceptions are the codes with which a broker closes a channel or a connection. What
// is not listed is a retry: nobody knows what became of the message.
//
// The code of a return, 312, is none of them: the message was refused and the channel
// lives. It is a retry, because the queue may be declared or bound any minute, and
// other topics of the exchange are not concerned.
var exceptions = map[int]judgement{
	// The message itself: larger than max_message_size, or a property that the
	// broker checks.
	amqp091.ContentTooLarge:    {outbox.VerdictPermanent, true},
	amqp091.PreconditionFailed: {outbox.VerdictPermanent, true},
	// Permission is given by exchange or by topic, and to people who correct
	// mistakes.
	amqp091.AccessRefused: {outbox.VerdictRetry, true},
	// The exchange, and so every message of this sink.
	amqp091.NotFound: {outbox.VerdictUnavailable, false},
	// The vhost is gone or stopped, or the broker has no room for us.
	amqp091.NotAllowed:    {outbox.VerdictUnavailable, false},
	amqp091.ResourceError: {outbox.VerdictUnavailable, false},
	// The broker stops, or somebody closed the connection by hand: what was under
	// way may have arrived. The next attempt to connect tells more.
	amqp091.ConnectionForced: {outbox.VerdictRetry, false},
}

// brokerError marks the broker's exception in err, if there is one, with what it means.
func brokerError(err error) error {
	exception, ok := errors.AsType[*amqp091.Error](err)
	if !ok {
		return err
	}
	switch exceptions[exception.Code].verdict {
	case outbox.VerdictPermanent:
		return outbox.Permanent(err)
	case outbox.VerdictUnavailable:
		return outbox.Unavailable(err)
	}
	return err
}

// aboutOne reports whether an exception may be about one message of many.
func aboutOne(exception *amqp091.Error) bool { return exceptions[exception.Code].one }

// unsentError judges what happened before anything was sent: it says nothing about the
// message. Connection refused, no such host, a bad certificate, a wrong password and a
// broker that does not answer are all outages.
func unsentError(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return err // the caller's doing
	}
	return outbox.Unavailable(err)
}
