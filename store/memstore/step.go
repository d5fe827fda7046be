package memstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-outbox/outbox"
)

// maxHistory bounds the recorded attempts of one message.
const maxHistory = 20

// A batch is a set of messages recorded by the owner of one epoch.
type batch struct {
	key      batchKey
	rows     []*row
	instance string // who recorded or adopted it
	crashes  int
	inFlight bool
	solo     bool
	beat     bool
	// recordedAt is when it was recorded or started.
	recordedAt time.Time
}

type batchKey struct{ epoch, no int64 }

// unsettled are the messages that are still in the batch.
func (b *batch) unsettled() []*row {
	var rows []*row
	for _, r := range b.rows {
		if r.batch == b && r.open() {
			rows = append(rows, r)
		}
	}
	return rows
}

// Step settles and records under one lock, so it is atomic.
func (l *lease) Step(ctx context.Context, step outbox.Step) error {
	if err := l.enter(ctx); err != nil {
		return fmt.Errorf("step: %w", err)
	}
	defer l.store.mu.Unlock()
	now := l.store.clock.now()
	for i := range step.Outcomes {
		l.store.settle(&step.Outcomes[i], step.Delete, now)
	}
	for _, no := range step.Done {
		l.finish(no)
	}
	for _, b := range step.Record {
		l.record(b, now)
	}
	for _, no := range step.Start {
		if b := l.batch(no); b != nil {
			b.inFlight, b.beat = true, false
			b.instance, b.recordedAt = l.row.instance, now
		}
	}
	for _, no := range step.Beat {
		if b := l.batch(no); b != nil {
			b.beat = true
		}
	}
	return nil
}

func (l *lease) batch(no int64) *batch { return l.row.batches[batchKey{l.info.Epoch, no}] }

func (l *lease) record(b outbox.Batch, now time.Time) {
	key := batchKey{l.info.Epoch, b.No}
	if l.row.batches[key] != nil {
		return // the step was sent before
	}
	rec := &batch{key: key, instance: l.row.instance, crashes: b.Crashes, inFlight: !b.Queued, solo: b.Solo, recordedAt: now}
	for _, id := range b.IDs {
		if r := l.store.open.find(id); r != nil {
			r.batch = rec
			rec.rows = append(rec.rows, r)
		}
	}
	l.row.batches[key] = rec
}

func (l *lease) finish(no int64) {
	b := l.batch(no)
	if b == nil {
		return
	}
	for _, r := range b.unsettled() {
		r.batch = nil
	}
	delete(l.row.batches, b.key)
}

// settle applies an outcome to its message, if that still is as it was read.
func (s *Store) settle(o *outbox.Outcome, remove bool, now time.Time) {
	r := s.open.find(o.Sequence)
	if r == nil || r.Replays != o.Replays {
		return
	}
	if o.Kind != outbox.Published && r.Attempts != o.Attempts {
		return
	}
	switch o.Kind {
	case outbox.Published:
		r.Attempts += o.Spent
		r.PublishedAt = now
		r.AvailableAt = r.CreatedAt
		r.LastError = ""
	case outbox.Retry:
		r.Attempts += o.Spent
		r.LastError = o.Error
		r.AvailableAt = s.clock.after(now, r.CreatedAt).Add(o.Delay)
	case outbox.Dead:
		r.Attempts += o.Spent
		r.LastError = o.Error
		r.DeadAt, r.DeadReason = now, o.Reason
	case outbox.Deferred:
		r.AvailableAt = s.clock.after(now, r.CreatedAt).Add(o.Delay)
		if o.Error != "" {
			r.LastError = o.Error
		}
	}
	if o.RoutesDone != nil {
		r.RoutesDone = slices.Clone(o.RoutesDone)
	}
	r.batch = nil
	r.remember(o, now)
	if o.Kind == outbox.Published && remove {
		s.remove(r)
		return
	}
	s.reindex(r)
}

// remember adds a failure to the history of the message.
func (r *row) remember(o *outbox.Outcome, now time.Time) {
	if o.Kind == outbox.Published || (o.Kind == outbox.Deferred && o.Error == "") {
		return
	}
	if len(r.history) == maxHistory {
		r.history = slices.Delete(r.history, 0, 1)
	}
	r.history = append(r.history, outbox.Attempt{
		At: now, Attempt: r.Attempts, Route: o.Route, Outcome: o.Kind.String(), Error: o.Error, Took: o.Took,
	})
}

// remove deletes a row.
func (s *Store) remove(r *row) {
	r.deleted = true
	delete(s.events, r.EventID)
	s.reindex(r)
}
