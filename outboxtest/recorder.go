package outboxtest

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

var _ Source = (*Recorder)(nil)

// A Recorder writes down the messages that pass a gate, of any store. So a test sees
// what was enqueued while the transaction is still open, and on a real database need not
// commit at all. It also keeps what is rolled back later. The zero value is ready to use
// and safe for concurrent use.
type Recorder struct {
	mu       sync.Mutex
	messages []outbox.Message
}

// Gate is g with the recorder behind it.
func (r *Recorder) Gate(g outbox.Gate) outbox.Gate {
	check := g.Check
	g.Check = func(ctx context.Context, msg *outbox.Message) error {
		if check != nil {
			if err := check(ctx, msg); err != nil {
				return err
			}
		}
		r.add(*msg)
		return nil
	}
	return g
}

func (r *Recorder) add(msg outbox.Message) {
	msg.Payload = slices.Clone(msg.Payload)
	msg.Headers = maps.Clone(msg.Headers)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.ContainsFunc(r.messages, func(m outbox.Message) bool { return m.EventID == msg.EventID }) {
		r.messages = append(r.messages, msg) // an event enqueued twice is one message
	}
}

// Reset forgets everything.
func (r *Recorder) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.messages = nil
}

// List returns the messages of a topic pattern, oldest first, whatever else f says.
func (r *Recorder) List(_ context.Context, f outbox.Filter) (outbox.List, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var page outbox.List
	for i, msg := range r.messages {
		if f.Topic == "" || outbox.MatchTopic(f.Topic, msg.Topic) {
			page.Records = append(page.Records, record(int64(i+1), msg))
		}
	}
	return page, nil
}

// Get returns one message, or ErrNotFound.
func (r *Recorder) Get(_ context.Context, id uuid.UUID) (*outbox.Record, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, msg := range r.messages {
		if msg.EventID == id {
			return record(int64(i+1), msg), nil
		}
	}
	return nil, outbox.ErrNotFound
}

func record(sequence int64, m outbox.Message) *outbox.Record {
	return &outbox.Record{
		Sequence: sequence, EventID: m.EventID, TenantID: m.TenantID, Topic: m.Topic, Key: m.Key, Payload: m.Payload,
		AggregateType: m.AggregateType, AggregateID: m.AggregateID, EventType: m.EventType, EventVersion: m.EventVersion,
		ContentType: m.ContentType, Headers: m.Headers, TraceParent: m.TraceParent, TraceState: m.TraceState,
		AvailableAt: m.AvailableAt,
	}
}
