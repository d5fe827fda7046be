package memstore

import (
	"bytes"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/go-outbox/outbox"
)

// slots is how many slots keys hash to.
const slots = 256

// A row is a message and what the store knows about it. The Record inside never
// leaves the store: readers get copies.
type row struct {
	outbox.Record
	slot    int
	deleted bool
	tx      *Tx // the transaction that still has to commit it
	// batch is the batch that the message is in flight with. Settling and
	// replaying clear it, so a failed member of a batch that goes on is not
	// taken for one that was lost with it.
	batch   *batch
	history []outbox.Attempt // oldest first
	in      [indexCount]int64
}

func newRow(msg outbox.Message, now time.Time) *row {
	r := &row{Record: outbox.Record{
		EventID: msg.EventID, TenantID: msg.TenantID, Topic: msg.Topic, Key: msg.Key,
		Payload:       bytes.Clone(msg.Payload),
		AggregateType: msg.AggregateType, AggregateID: msg.AggregateID,
		EventType: msg.EventType, EventVersion: msg.EventVersion, ContentType: msg.ContentType,
		Headers:     maps.Clone(msg.Headers),
		TraceParent: msg.TraceParent, TraceState: msg.TraceState,
		CreatedAt: now, AvailableAt: now,
	}}
	if at := msg.AvailableAt.UTC().Truncate(time.Microsecond); at.After(now) {
		r.AvailableAt = at
	}
	r.slot = slotOf(msg.Key)
	if msg.Key == "" {
		r.slot = slotOf(msg.EventID.String())
	}
	return r
}

func slotOf(key string) int {
	h := fnv.New32a()
	h.Write([]byte(key)) // a hash never fails
	return int(h.Sum32() & (slots - 1))
}

// open: neither published nor dead, so a relay still has to see to it.
func (r *row) open() bool { return r.PublishedAt.IsZero() && r.DeadAt.IsZero() }

// waits: scheduled or put back, so only the due part of a read finds it.
func (r *row) waits() bool { return r.open() && r.AvailableAt.After(r.CreatedAt) }

func (r *row) discarded() bool { return r.DeadReason == outbox.DeadDiscarded }

func (r *row) sameContent(msg outbox.Message) bool {
	return r.Topic == msg.Topic && r.TenantID == msg.TenantID && r.Key == msg.Key && bytes.Equal(r.Payload, msg.Payload)
}

// route is where the last recorded attempt went.
func (r *row) route() string {
	if n := len(r.history); n > 0 {
		return r.history[n-1].Route
	}
	return ""
}

// record copies the row for a reader.
func (r *row) record(now time.Time) *outbox.Record {
	rec := r.summary(now)
	rec.Payload = bytes.Clone(r.Payload)
	return rec
}

// summary is record without the payload.
func (r *row) summary(now time.Time) *outbox.Record {
	rec := r.Record
	rec.Payload = nil
	rec.Headers = maps.Clone(r.Headers)
	rec.RoutesDone = slices.Clone(r.RoutesDone)
	rec.Due = !r.AvailableAt.After(now)
	rec.InFlight = r.open() && r.batch != nil
	return &rec
}
