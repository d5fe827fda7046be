package relay

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-outbox/outbox"
)

var errNoResult = errors.New("batch dispatcher returned a result slice of another length")

// results are messages whose dispatch has ended, with what came of it.
type results struct {
	items    []*item
	outcomes []outbox.Outcome
}

func (r *results) len() int { return len(r.items) }

func (r *results) add(it *item, o outbox.Outcome) {
	r.items = append(r.items, it)
	r.outcomes = append(r.outcomes, o)
}

// cut takes away the first n; what is added next goes into spare.
func (r *results) cut(n int, spare *results) (head results) {
	head.items, r.items = cut(r.items, n)
	head.outcomes, r.outcomes = cut(r.outcomes, n)
	if r.items == nil {
		*r, *spare = *spare, results{}
	}
	return head
}

// space is what r took, for others to use.
func (r *results) space() results {
	clear(r.items)
	clear(r.outcomes)
	return results{items: r.items[:0], outcomes: r.outcomes[:0]}
}

// judge turns the result of a dispatch into an outcome, and the circuit's state
// with it.
func (l *ledger) judge(it *item, err error, took time.Duration, now time.Time) outbox.Outcome {
	if it.legs != nil {
		return l.judgeLegs(it, err, took, now)
	}
	verdict, after := outbox.Classify(err)
	if it.probe {
		it.probe, it.circuit.probing = false, false
	}
	if verdict == outbox.VerdictUnavailable {
		o := l.outcome(it, outbox.Deferred, err, took)
		o.Delay = l.unavailable(it.circuit, it, after, err, now)
		return o
	}
	if errors.Is(err, outbox.ErrNoRoute) {
		return l.deadOutcome(it, outbox.DeadNoRoute, err, took)
	}
	l.answered(it.circuit, it, verdict, err, now)
	switch verdict {
	case outbox.VerdictDelivered:
		o := l.outcome(it, outbox.Published, nil, took)
		o.Spent = 1
		return o
	case outbox.VerdictPermanent:
		return l.deadOutcome(it, outbox.DeadPermanent, err, took)
	default:
		return l.failed(it, err, after, took)
	}
}

// failed is the outcome of an attempt that did not succeed: another one, or death
// when it was the last.
func (l *ledger) failed(it *item, err error, after, took time.Duration) outbox.Outcome {
	attempts := it.rec.Attempts + 1
	policy := l.retry(it)
	if policy.Exhausted(attempts) {
		return l.deadOutcome(it, outbox.DeadAttempts, err, took)
	}
	o := l.outcome(it, outbox.Retry, err, took)
	o.Spent = 1
	if o.Delay = after; after == 0 {
		o.Delay = policy.Delay(attempts, l.random())
	}
	return o
}

func (l *ledger) deadOutcome(it *item, reason string, err error, took time.Duration) outbox.Outcome {
	o := l.outcome(it, outbox.Dead, err, took)
	o.Reason = reason
	switch reason {
	case outbox.DeadPermanent, outbox.DeadAttempts, outbox.DeadNoRoute:
		o.Spent = 1 // it was dispatched
	}
	return o
}

func (l *ledger) outcome(it *item, kind outbox.OutcomeKind, err error, took time.Duration) outbox.Outcome {
	if it.text == "" {
		it.text = outbox.SanitizeError(err, nil, l.cfg.MaxError)
	}
	return outbox.Outcome{
		Sequence: it.rec.Sequence, Kind: kind, Replays: it.rec.Replays, Attempts: it.rec.Attempts,
		Error: it.text,
		Route: it.circuit.route, Took: took,
	}
}

func errStillborn(rec *outbox.Record, reason string, limit int) error {
	if reason == outbox.DeadSize {
		return fmt.Errorf("payload is %d bytes, the relay's limit is %d", len(rec.Payload), limit)
	}
	return fmt.Errorf("row cannot be read as a message: %s", rec.Corrupt)
}
