package kafkasink

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/go-outbox/outbox"
)

// What brokers answer is tested with brokers that answer it.
func TestWhatAnErrorWithoutAnAnswerMeans(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	tests := []struct {
		name string
		err  error
		want outbox.Verdict
	}{
		{"refused", dial(syscall.ECONNREFUSED), outbox.VerdictUnavailable},
		{"unreachable", dial(syscall.EHOSTUNREACH), outbox.VerdictUnavailable},
		{"no such host", dial(&net.DNSError{Err: "no such host", IsNotFound: true}), outbox.VerdictUnavailable},
		{"certificate of another", &tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: &x509.Certificate{}, Host: "h"}}, outbox.VerdictUnavailable},
		{"no TLS there", tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, outbox.VerdictUnavailable},
		{"hung up at once", &kgo.ErrFirstReadEOF{}, outbox.VerdictUnavailable},
		{"refused in the end", fmt.Errorf("%w, last err: %w", kgo.ErrRecordTimeout, dial(syscall.ECONNREFUSED)), outbox.VerdictUnavailable},
		{"wrong password", fmt.Errorf("login: %w", kerr.SaslAuthenticationFailed), outbox.VerdictUnavailable},
		{"buffer full", kgo.ErrMaxBuffered, outbox.VerdictUnavailable},
		{"known to be away", outbox.Unavailable(errSilent), outbox.VerdictUnavailable},

		{"reset", &net.OpError{Op: "read", Err: syscall.ECONNRESET}, outbox.VerdictRetry},
		{"cut off", io.ErrUnexpectedEOF, outbox.VerdictRetry},
		{"record timed out", kgo.ErrRecordTimeout, outbox.VerdictRetry},
		{"overdue", fmt.Errorf("%w: %w", errOverdue, context.DeadlineExceeded), outbox.VerdictRetry},
		{"cancelled", context.Canceled, outbox.VerdictRetry},
		{"client closed", kgo.ErrClientClosed, outbox.VerdictRetry},
		{"aborting", kgo.ErrAborting, outbox.VerdictRetry},
		{"not alone", errCrowded, outbox.VerdictRetry},
		{"anything else", errors.New("topic purged while buffered"), outbox.VerdictRetry},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := mark(tt.err)
			if got, _ := outbox.Classify(err); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
			if !errors.Is(err, tt.err) {
				t.Errorf("%v hides its cause", err)
			}
		})
	}
}

func TestOnlyRefusalsOfTheMessageArePermanent(t *testing.T) {
	for answer, j := range answers {
		if alone := blamesOneOfMany(answer); j.verdict == outbox.VerdictPermanent && !alone && answer != kerr.InvalidTopicException {
			t.Errorf("%s kills every message that is in a batch with the one it is about", answer.Message)
		}
		if j.verdict == outbox.VerdictPermanent && kerr.IsRetriable(answer) {
			t.Errorf("%s is permanent, and Kafka says that it passes", answer.Message)
		}
	}
}

func TestALateSuccessIsRememberedAFailureIsNot(t *testing.T) {
	var o overdue
	good, bad := identity{replays: 1}, identity{replays: 2}
	o.add(good, &shipment{})
	o.add(bad, &shipment{})
	for id, err := range map[identity]error{good: nil, bad: io.EOF} {
		c := o.shipments[id]
		c.landed, c.err = true, err
		o.landed(id, c)
	}

	if o.find(bad) != nil {
		t.Error("what failed must be sent again")
	}
	if o.find(good) == nil {
		t.Error("what arrived must not")
	}
	if o.find(good) != nil {
		t.Error("it was told twice: the second dispatch is another one")
	}
}

func TestLateSuccessesThatNobodyAsksForAreForgotten(t *testing.T) {
	var o overdue
	for i := range 2 * maxArrived {
		id, c := identity{replays: i}, &shipment{}
		o.add(id, c)
		c.landed = true
		o.landed(id, c)
	}
	if len(o.shipments) != maxArrived || len(o.arrived) != maxArrived {
		t.Errorf("%d are remembered, in a list of %d", len(o.shipments), len(o.arrived))
	}
}
