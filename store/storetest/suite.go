package storetest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

const (
	topic = "shop.order.placed.v1"
	// ttl is far longer than any test: leases expire by Shift only.
	ttl = 10 * time.Minute
	// many is more than any test has messages.
	many = 100_000
)

// A suite is one subtest at work.
type suite struct {
	Harness
	*testing.T
}

func (s *suite) need(feature bool, name string) {
	s.Helper()
	if !feature {
		s.Skipf("the store does not declare %s", name)
	}
}

func (s *suite) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("unexpected error: %v", err)
	}
}

func (s *suite) is(err, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Fatalf("got error %v, want %v", err, want)
	}
}

// payload checks the payload of a record: byte for byte, or by its meaning where the
// column rewrites JSON.
func (s *suite) payload(rec *outbox.Record, want string) {
	s.Helper()
	if !s.Features.Rewrites {
		equal(s, "payload", string(rec.Payload), want)
		return
	}
	var a, b any
	s.ok(json.Unmarshal(rec.Payload, &a))
	s.ok(json.Unmarshal([]byte(want), &b))
	s.that(reflect.DeepEqual(a, b), "payload: got %s, want %s", rec.Payload, want)
}

func (s *suite) that(holds bool, format string, args ...any) {
	s.Helper()
	if !holds {
		s.Fatalf(format, args...)
	}
}

func equal[T comparable](s *suite, what string, got, want T) {
	s.Helper()
	if got != want {
		s.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

func equalAll[T cmp.Ordered](s *suite, what string, got, want []T) {
	s.Helper()
	if !slices.Equal(got, want) {
		s.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// message is a valid message of a key.
func message(key string) outbox.Message {
	return outbox.Message{Topic: topic, Key: key, Payload: []byte(`{"n":1}`)}
}

// scheduled is a valid message that is not due for d. The margin is for a database
// whose clock is not the test's.
func scheduled(key string, d time.Duration) outbox.Message {
	msg := message(key)
	msg.AvailableAt = time.Now().Add(d)
	return msg
}

// enqueue commits messages in one transaction.
func (s *suite) enqueue(msgs ...outbox.Message) []int64 {
	s.Helper()
	tx := s.Begin(s.T)
	sequences := make([]int64, len(msgs))
	for i, msg := range msgs {
		var err error
		sequences[i], err = tx.Enqueue(s.Context(), msg)
		s.ok(err)
	}
	s.ok(tx.Commit())
	return sequences
}

// enqueueKeys commits one message for each key.
func (s *suite) enqueueKeys(keys ...string) []int64 {
	s.Helper()
	msgs := make([]outbox.Message, len(keys))
	for i, key := range keys {
		msgs[i] = message(key)
	}
	return s.enqueue(msgs...)
}

// enqueueCount commits n messages of different keys.
func (s *suite) enqueueCount(n int) []int64 {
	s.Helper()
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("key-%d", i)
	}
	return s.enqueueKeys(keys...)
}

func (s *suite) acquire(store outbox.Store, instance string) outbox.Lease {
	s.Helper()
	lease, err := store.Acquire(s.Context(), outbox.LeaseRequest{Instance: instance, TTL: ttl})
	s.ok(err)
	return lease
}

// lease acquires the only lease as the instance "one".
func (s *suite) lease() outbox.Lease {
	s.Helper()
	return s.acquire(s.Store, "one")
}

// takeover lets the present lease expire and acquires it from another process.
func (s *suite) takeover(instance string) outbox.Lease {
	s.Helper()
	s.Shift(s.T, ttl+time.Second)
	return s.acquire(s.Reopen(s.T), instance)
}

func (s *suite) read(lease outbox.Lease, req outbox.ReadRequest) outbox.Page {
	s.Helper()
	page, err := lease.Read(s.Context(), req)
	s.ok(err)
	return page
}

// fresh reads every unpublished message.
func (s *suite) fresh(lease outbox.Lease) []*outbox.Record {
	s.Helper()
	return s.read(lease, outbox.ReadRequest{Limit: many}).Fresh
}

// due reads every message that was scheduled or put back and is due.
func (s *suite) due(lease outbox.Lease) []*outbox.Record {
	s.Helper()
	return s.read(lease, outbox.ReadRequest{Due: many}).Others
}

func (s *suite) heads(lease outbox.Lease) []outbox.Head {
	s.Helper()
	heads, err := lease.Heads(s.Context(), 0, many)
	s.ok(err)
	return heads
}

func (s *suite) step(lease outbox.Lease, step outbox.Step) {
	s.Helper()
	s.ok(lease.Step(s.Context(), step))
}

func (s *suite) settle(lease outbox.Lease, outcomes ...outbox.Outcome) {
	s.Helper()
	s.step(lease, outbox.Step{Outcomes: outcomes})
}

// settleAll gives every message the same outcome.
func (s *suite) settleAll(lease outbox.Lease, o outbox.Outcome, ids []int64) {
	s.Helper()
	outcomes := make([]outbox.Outcome, len(ids))
	for i, id := range ids {
		outcomes[i] = o
		outcomes[i].Sequence = id
	}
	s.settle(lease, outcomes...)
}

func (s *suite) publish(lease outbox.Lease, sequences ...int64) {
	s.Helper()
	s.settleAll(lease, published(0), sequences)
}

// record records one batch in flight.
func (s *suite) record(lease outbox.Lease, no int64, ids ...int64) {
	s.Helper()
	s.step(lease, outbox.Step{Record: []outbox.Batch{{No: no, IDs: ids}}})
}

func (s *suite) recovered(lease outbox.Lease) []outbox.Orphan {
	s.Helper()
	orphans, err := lease.Recover(s.Context())
	s.ok(err)
	return orphans
}

// orphan recovers the one batch that there is.
func (s *suite) orphan(lease outbox.Lease) outbox.Orphan {
	s.Helper()
	orphans := s.recovered(lease)
	if len(orphans) != 1 {
		s.Fatalf("recovered %d batches, want 1: %+v", len(orphans), orphans)
	}
	return orphans[0]
}

func published(sequence int64) outbox.Outcome {
	return outbox.Outcome{Sequence: sequence, Kind: outbox.Published, Spent: 1}
}

func retried(sequence int64, delay time.Duration) outbox.Outcome {
	return outbox.Outcome{Sequence: sequence, Kind: outbox.Retry, Spent: 1, Delay: delay, Error: "refused", Route: "main", Took: time.Second}
}

func died(sequence int64, reason string) outbox.Outcome {
	return outbox.Outcome{Sequence: sequence, Kind: outbox.Dead, Spent: 1, Reason: reason, Error: "refused", Route: "main"}
}

func deferred(sequence int64, delay time.Duration) outbox.Outcome {
	return outbox.Outcome{Sequence: sequence, Kind: outbox.Deferred, Delay: delay}
}

func (s *suite) inspector() outbox.Inspector {
	s.Helper()
	inspector, ok := s.Store.(outbox.Inspector)
	s.that(ok, "the store is no outbox.Inspector")
	return inspector
}

func (s *suite) purge(req outbox.PurgeRequest) outbox.PurgeResult {
	s.Helper()
	purger, ok := s.Store.(outbox.Purger)
	s.that(ok, "the store is no outbox.Purger")
	result, err := purger.Purge(s.Context(), req)
	s.ok(err)
	return result
}

func (s *suite) operator() outbox.Operator {
	s.Helper()
	operator, ok := s.Store.(outbox.Operator)
	s.that(ok, "the store is no outbox.Operator")
	return operator
}

func (s *suite) replay(sequence int64) outbox.Effect {
	s.Helper()
	effect, err := s.operator().Apply(s.Context(), replayOf(s.row(sequence).EventID))
	s.ok(err)
	return effect
}

// apply does what a says, as ada and for a reason.
func (s *suite) apply(a outbox.Action) outbox.Effect {
	s.Helper()
	effect, err := s.try(a)
	s.ok(err)
	return effect
}

// try previews and applies a, and insists that the preview was right.
func (s *suite) try(a outbox.Action) (outbox.Effect, error) {
	s.Helper()
	a.Actor, a.Reason = "ada", "a test"
	preview, previewErr := s.operator().Preview(s.Context(), a)
	effect, err := s.operator().Apply(s.Context(), a)
	s.that((previewErr == nil) == (err == nil), "the preview says %v, applying says %v", previewErr, err)
	equal(s, "effect and its preview", effect, preview)
	return effect, err
}

// trail is the audit trail, oldest first.
func (s *suite) trail() []outbox.AuditEntry {
	s.Helper()
	trail, err := s.inspector().Audit(s.Context(), outbox.AuditFilter{Limit: outbox.MaxPage})
	s.ok(err)
	slices.Reverse(trail)
	return trail
}

func replayOf(id uuid.UUID) outbox.Action {
	return outbox.Action{Verb: outbox.VerbReplay, EventID: id, Actor: "ada", Reason: "the consumer is mended"}
}

func (s *suite) list(f outbox.Filter) outbox.List {
	s.Helper()
	list, err := s.inspector().List(s.Context(), f)
	s.ok(err)
	return list
}

func (s *suite) stats() outbox.Stats {
	s.Helper()
	stats, err := s.inspector().Stats(s.Context())
	s.ok(err)
	return stats
}

// row looks at one message, whatever its state.
func (s *suite) row(sequence int64) *outbox.Record {
	s.Helper()
	list := s.list(outbox.Filter{After: sequence - 1, Before: sequence + 1})
	if len(list.Records) != 1 {
		s.Fatalf("message %d: found %d rows, want 1", sequence, len(list.Records))
	}
	rec, err := s.inspector().Get(s.Context(), list.Records[0].EventID)
	s.ok(err)
	return rec
}

func (s *suite) status(sequence int64) outbox.Status {
	s.Helper()
	list := s.list(outbox.Filter{After: sequence - 1, Before: sequence + 1})
	if len(list.Records) != 1 {
		return "gone"
	}
	return list.Records[0].Status(list.Now)
}

// sequences of records, in their order.
func sequences(records []*outbox.Record) []int64 {
	out := make([]int64, len(records))
	for i, rec := range records {
		out[i] = rec.Sequence
	}
	return out
}

func sorted(sequences []int64) []int64 {
	out := slices.Clone(sequences)
	slices.Sort(out)
	return out
}

// all are the sequences of a whole page, sorted.
func all(page outbox.Page) []int64 {
	return sorted(append(sequences(page.Fresh), sequences(page.Others)...))
}

// count counts the messages of a status.
func (s *suite) count(status outbox.Status) int {
	s.Helper()
	total := 0
	filter := outbox.Filter{Status: status, Limit: outbox.MaxPage}
	for {
		list := s.list(filter)
		total += len(list.Records)
		if list.Next == 0 {
			return total
		}
		filter.Before = list.Next
	}
}

// writeConcurrently commits n messages in each of several goroutines.
func writeConcurrently(s *suite, writers, n int) {
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range n {
				if _, err := s.Autocommit(s.Context(), message("a")); err != nil {
					s.Errorf("enqueue: %v", err)
				}
			}
		})
	}
	wg.Wait()
}
