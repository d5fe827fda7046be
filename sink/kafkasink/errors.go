package kafkasink

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/go-outbox/outbox"
)

// A judgement is what an error means for the message, and a hint for the operator.
type judgement struct {
	verdict outbox.Verdict
	hint    string
}

const missing = "create the topic, or send the message elsewhere"

// answers are the brokers' error codes that mean something else than "try again", or
// are worth a hint. The client has tried again by itself where that helps. A topic that
// is missing or forbidden holds up its own messages only: if it stopped the route, it
// would stop all the other topics too.
var answers = map[*kerr.Error]judgement{
	// No broker will ever take this message.
	kerr.MessageTooLarge:       {outbox.VerdictPermanent, ""},
	kerr.RecordListTooLarge:    {outbox.VerdictPermanent, ""},
	kerr.InvalidRecord:         {outbox.VerdictPermanent, ""},
	kerr.InvalidTimestamp:      {outbox.VerdictPermanent, ""},
	kerr.InvalidTopicException: {outbox.VerdictPermanent, ""},
	// Somebody will mend it: usually the topic comes with the next deployment.
	kerr.UnknownTopicOrPartition:  {outbox.VerdictRetry, missing},
	kerr.UnknownTopicID:           {outbox.VerdictRetry, "the topic was deleted and created again"},
	kerr.TopicAuthorizationFailed: {outbox.VerdictRetry, "allow the relay to write to the topic"},
	kerr.PolicyViolation:          {outbox.VerdictRetry, ""},
	// The cluster wants nothing from us, whatever the message.
	kerr.ClusterAuthorizationFailed: {outbox.VerdictUnavailable, "allow the relay to write idempotently"},
	kerr.SaslAuthenticationFailed:   {outbox.VerdictUnavailable, "check user and password"},
	kerr.IllegalSaslState:           {outbox.VerdictUnavailable, ""},
	kerr.UnsupportedSaslMechanism:   {outbox.VerdictUnavailable, ""},
}

// blamesOneOfMany reports whether a broker refused a batch for something that may be
// in one of its messages only.
func blamesOneOfMany(err error) bool {
	for _, e := range []error{kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp, kerr.CorruptMessage} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// judge marks an error with its verdict. What says only that a record was not
// acknowledged in time is an outage if no broker answers, and otherwise perhaps the
// fault of one partition or message.
func (s *Sink) judge(ctx context.Context, err error) error {
	if isTimeout(err) && ctx.Err() == nil {
		if away := s.brokers.ask(ctx, s.client); away != nil && !errors.Is(away, errUnknown) {
			return outbox.Unavailable(fmt.Errorf("%w: no broker answers: %w", err, away))
		}
	}
	return mark(err)
}

func isTimeout(err error) bool {
	return errors.Is(err, kgo.ErrRecordTimeout) || errors.Is(err, kgo.ErrRecordRetries)
}

func mark(err error) error {
	if verdict, _ := outbox.Classify(err); verdict != outbox.VerdictRetry {
		return err // await knew
	}
	if answer, ok := errors.AsType[*kerr.Error](err); ok {
		return answers[answer].mark(err)
	}
	switch {
	case isUnreachable(err):
		return outbox.Unavailable(err)
	case errors.Is(err, kgo.ErrMaxBuffered):
		// The cluster takes less than it is given, or nothing.
		return outbox.Unavailable(err)
	}
	return err // lost on the way, overdue, closed: nobody knows
}

func (j judgement) mark(err error) error {
	if j.hint != "" {
		err = fmt.Errorf("%w: %s", err, j.hint)
	}
	switch j.verdict {
	case outbox.VerdictPermanent:
		return outbox.Permanent(err)
	case outbox.VerdictUnavailable:
		return outbox.Unavailable(err)
	}
	return err
}

// isUnreachable reports whether there was no connection, so that nothing was sent.
func isUnreachable(err error) bool {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return true
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return true
	}
	// The broker hung up at once: it wants TLS, or none, or a login.
	_, ok := errors.AsType[*kgo.ErrFirstReadEOF](err)
	return ok
}
