package redissink

import (
	"crypto/tls"
	"errors"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/go-outbox/outbox"
)

// answers are the errors of Redis by their first words. What is not listed is a retry:
// it may be one stream's trouble, and somebody may mend it.
var answers = []struct {
	prefix  string
	verdict outbox.Verdict
}{
	// Redis cannot take writes now, whatever they are.
	{"OOM ", outbox.VerdictUnavailable},
	{"MISCONF ", outbox.VerdictUnavailable},     // it cannot write to disk
	{"READONLY ", outbox.VerdictUnavailable},    // a replica
	{"LOADING ", outbox.VerdictUnavailable},     // it has just started
	{"MASTERDOWN ", outbox.VerdictUnavailable},  // a replica on its own
	{"CLUSTERDOWN ", outbox.VerdictUnavailable}, // slots without a node
	{"NOREPLICAS ", outbox.VerdictUnavailable},  // fewer than min-replicas-to-write
	{"BUSY ", outbox.VerdictUnavailable},        // a script runs
	{"max number of clients reached", outbox.VerdictUnavailable},
	// We may not come in. Somebody will notice, and the messages wait.
	{"NOAUTH ", outbox.VerdictUnavailable},
	{"WRONGPASS ", outbox.VerdictUnavailable},
	{"invalid password", outbox.VerdictUnavailable},
	{"DENIED ", outbox.VerdictUnavailable}, // protected mode

	// The message itself.
	{"Protocol error: invalid bulk length", outbox.VerdictPermanent}, // beyond proto-max-bulk-len
	{"Elements are too large to be stored", outbox.VerdictPermanent},

	// One stream's trouble.
	{"WRONGTYPE ", outbox.VerdictRetry}, // the key holds something else
	{"NOPERM ", outbox.VerdictRetry},    // an ACL
	{"MOVED ", outbox.VerdictRetry},     // a cluster, and no cluster client
	{"ASK ", outbox.VerdictRetry},
	{"TRYAGAIN ", outbox.VerdictRetry},
	{"The stream has exhausted the last possible ID", outbox.VerdictRetry},
}

// classify marks an error with what it means for the message.
func classify(err error) error {
	if _, ok := errors.AsType[redis.Error](err); ok {
		for _, known := range answers {
			if redis.HasErrorPrefix(err, known.prefix) {
				return mark(err, known.verdict)
			}
		}
		return err
	}
	if notSent(err) {
		return outbox.Unavailable(err)
	}
	return err
}

// notSent reports whether there was no connection to send anything on. With one, nobody
// knows what Redis has done.
func notSent(err error) bool {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		switch op.Op {
		case "dial", "remote error", "local error": // the latter are alerts of TLS
			return true
		}
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true // no TLS there
	}
	for _, pool := range []error{redis.ErrClosed, redis.ErrPoolTimeout, redis.ErrPoolExhausted} {
		if errors.Is(err, pool) {
			return true
		}
	}
	return false
}

func mark(err error, verdict outbox.Verdict) error {
	switch verdict {
	case outbox.VerdictPermanent:
		return outbox.Permanent(err)
	case outbox.VerdictUnavailable:
		return outbox.Unavailable(err)
	}
	return err
}
