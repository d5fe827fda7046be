package redissink

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

	"github.com/redis/go-redis/v9"

	"github.com/go-outbox/outbox"
)

const (
	retry       = outbox.VerdictRetry
	permanent   = outbox.VerdictPermanent
	unavailable = outbox.VerdictUnavailable
)

// answer is an error as the server words it.
type answer string

func (a answer) Error() string { return string(a) }
func (answer) RedisError()     {}

func TestWhatAnAnswerMeans(t *testing.T) {
	tests := []struct {
		text string
		want outbox.Verdict
	}{
		{"OOM command not allowed when used memory > 'maxmemory'.", unavailable},
		{"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.", unavailable},
		{"READONLY You can't write against a read only replica.", unavailable},
		{"LOADING Redis is loading the dataset in memory", unavailable},
		{"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", unavailable},
		{"CLUSTERDOWN Hash slot not served", unavailable},
		{"NOREPLICAS Not enough good replicas to write.", unavailable},
		{"BUSY Redis is busy running a script.", unavailable},
		{"ERR max number of clients reached", unavailable},
		{"NOAUTH Authentication required.", unavailable},
		{"WRONGPASS invalid username-password pair or user is disabled.", unavailable},
		{"ERR invalid password", unavailable},
		{"DENIED Redis is running in protected mode", unavailable},

		{"ERR Protocol error: invalid bulk length", permanent},
		{"ERR Elements are too large to be stored", permanent},

		{"WRONGTYPE Operation against a key holding the wrong kind of value", retry},
		{"NOPERM this user has no permissions to access one of the keys used as arguments", retry},
		{"MOVED 3999 127.0.0.1:6381", retry},
		{"ASK 3999 127.0.0.1:6381", retry},
		{"TRYAGAIN Multiple keys request during rehashing of slot", retry},
		{"ERR The stream has exhausted the last possible ID, unable to add more items", retry},
		{"ERR unknown command 'XADD'", retry},
		{"ERR Protocol error: invalid multibulk length", retry},
		{"SOMETHING new", retry},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			for _, err := range []error{answer(tt.text), fmt.Errorf("init: %w", answer(tt.text))} {
				marked := classify(err)
				if got, _ := outbox.Classify(marked); got != tt.want {
					t.Errorf("%s, want %s", got, tt.want)
				}
				if !errors.Is(marked, err) {
					t.Error("the cause is gone")
				}
			}
		})
	}
}

func TestWhatADispatchWithoutAnAnswerMeans(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	tests := []struct {
		name string
		err  error
		want outbox.Verdict
	}{
		{"refused", dial(syscall.ECONNREFUSED), unavailable},
		{"unreachable", dial(syscall.EHOSTUNREACH), unavailable},
		{"no such host", dial(&net.DNSError{Err: "no such host", IsNotFound: true}), unavailable},
		{"dial timed out", dial(context.DeadlineExceeded), unavailable},
		{"certificate of another", &tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: &x509.Certificate{}, Host: "h"}}, unavailable},
		{"certificate wanted", &net.OpError{Op: "remote error", Err: tls.AlertError(116)}, unavailable},
		{"no TLS there", tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, unavailable},
		{"closed", redis.ErrClosed, unavailable},
		{"no free connection", redis.ErrPoolTimeout, unavailable},
		{"no answer in time", context.DeadlineExceeded, retry},
		{"stopped", context.Canceled, retry},
		{"reset", &net.OpError{Op: "read", Err: syscall.ECONNRESET}, retry},
		{"cut off", io.EOF, retry},
		{"something new", errors.New("something new"), retry},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, _ := outbox.Classify(classify(tt.err)); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}
