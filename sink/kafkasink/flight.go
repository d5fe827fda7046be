package kafkasink

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/go-outbox/outbox"
)

// A parcel is a message on its way.
type parcel struct {
	id     identity
	index  int // of the message in its batch
	record kgo.Record

	// The outcome. Only its own dispatch reads it, after its flight.
	err error
}

// A shipment is a record that the client has. It may outlast the dispatch that handed
// it over, and others may come to wait for it.
type shipment struct {
	landed  bool
	err     error
	overdue bool // its dispatch has given up
	waiting []*flight
	first   [1]*flight // where waiting begins

	client  *kgo.Client
	start   int           // of Sink.starts, when the client got it
	watched time.Duration // see watch
}

// A flight is a dispatch that waits for shipments.
type flight struct {
	left int
	done chan struct{} // closed when none is left
}

// send hands parcels to a client and waits for their outcomes, or until it must give
// up. What the client still has of them by then is overdue, and left says that there
// is some.
func (s *Sink) send(ctx context.Context, client *kgo.Client, parcels []*parcel) (left bool) {
	if len(parcels) == 0 {
		return false
	}
	shipments := s.board(ctx, client, parcels)
	gaveUp := s.await(ctx, shipments)

	s.mu.Lock()
	defer s.mu.Unlock()
	for i, p := range parcels {
		c := shipments.of[i]
		p.err = c.err
		if !c.landed {
			p.err, left = gaveUp, true
			s.overdue.add(p.id, c)
		}
	}
	return left
}

type boarded struct {
	flight *flight
	of     []*shipment // one for each parcel
}

// board gives each parcel its shipment: the one it had before, or a new one.
func (s *Sink) board(ctx context.Context, client *kgo.Client, parcels []*parcel) boarded {
	b := boarded{flight: &flight{left: len(parcels), done: make(chan struct{})}, of: make([]*shipment, len(parcels))}
	s.mu.Lock()
	for i, p := range parcels {
		if b.of[i] = s.overdue.find(p.id); b.of[i] != nil {
			b.of[i].join(b.flight)
		}
	}
	start := s.starts
	s.mu.Unlock()

	// The client may have to keep the record for longer than the caller waits.
	uncancelled := context.WithoutCancel(ctx)
	for i, p := range parcels {
		if b.of[i] != nil {
			continue
		}
		c := &shipment{client: client, start: start}
		c.first[0] = b.flight
		c.waiting = c.first[:]
		b.of[i] = c
		s.load(uncancelled, c, p)
	}
	return b
}

// load gives a parcel to the client of its shipment, and again if that begins anew.
func (s *Sink) load(ctx context.Context, c *shipment, p *parcel) {
	p.record.Context, p.record.Timestamp = nil, time.Time{} // if it was sent before
	c.client.TryProduce(ctx, &p.record, func(_ *kgo.Record, err error) {
		if s.startedAnew(c, err) {
			s.load(ctx, c, p)
			return
		}
		s.land(p.id, c, err)
	})
}

// land is what the client calls when it is done with a record.
func (s *Sink) land(id identity, c *shipment, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.landed, c.err = true, err
	for _, f := range c.waiting {
		f.arrive()
	}
	c.waiting = nil
	if c.overdue {
		s.overdue.landed(id, c)
	}
}

// join makes f wait for c as well.
func (c *shipment) join(f *flight) {
	if c.landed {
		f.arrive()
		return
	}
	c.waiting = append(c.waiting, f)
}

func (f *flight) arrive() {
	f.left--
	if f.left == 0 {
		close(f.done)
	}
}

// errOverdue says that nobody knows.
var errOverdue = errors.New("not acknowledged in time; it may still arrive")

// await returns nil when all of a flight has landed, or why it does not wait longer.
func (s *Sink) await(ctx context.Context, b boarded) error {
	timer := time.NewTimer(s.probeAfter)
	defer timer.Stop()
	last := time.Now()
	for {
		select {
		case <-b.flight.done:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", errOverdue, context.Cause(ctx))
		case <-timer.C:
			err := s.brokers.ask(ctx, s.client)
			now := time.Now()
			switch {
			case err == nil:
				s.watch(b.of, now.Sub(last))
			case !errors.Is(err, errUnknown):
				s.unwatch(b.of)
				return outbox.Unavailable(fmt.Errorf("no broker answers: %w", err))
			}
			last = now
			timer.Reset(s.probeAfter)
		}
	}
}

// forgetRecreated makes the client forget topics that were deleted and created again:
// it holds on to the old ones otherwise. What else waits for them fails with it, and is
// retried.
func (s *Sink) forgetRecreated(parcels []*parcel) {
	seen := map[string]bool{}
	for _, p := range parcels {
		if topic := p.record.Topic; errors.Is(p.err, kerr.UnknownTopicID) && !seen[topic] {
			seen[topic] = true
			s.client.PurgeTopicsFromProducing(topic)
		}
	}
}

// An identity tells whether two dispatches are of the same record. The payload is a
// part of it because two routes may send one event to one topic in two envelopes.
type identity struct {
	event   uuid.UUID
	replays int
	topic   string
	payload uint64
}

var seed = maphash.MakeSeed()

func identify(msg *outbox.DispatchedMessage) identity {
	return identity{msg.Meta.EventID, msg.Meta.Replays, msg.Meta.Topic, maphash.Bytes(seed, msg.Payload)}
}

// overdue are the shipments that nobody waits for any more, while the client has them
// and, if they arrived, until somebody asks.
type overdue struct {
	shipments map[identity]*shipment
	arrived   []identity // oldest first
}

// maxArrived bounds what is remembered for nobody: the message may be another relay's
// by now. One that is forgotten is sent twice if it does come back.
const maxArrived = 10_000

func (o *overdue) add(id identity, c *shipment) {
	if o.shipments == nil {
		o.shipments = map[identity]*shipment{}
	}
	c.overdue = true
	o.shipments[id] = c
}

// find returns the shipment of a message, and forgets it if it has arrived: the caller
// will know.
func (o *overdue) find(id identity) *shipment {
	c := o.shipments[id]
	if c != nil && c.landed {
		delete(o.shipments, id)
	}
	return c
}

// landed keeps the news for the next dispatch if they are good. What failed is sent
// anew.
func (o *overdue) landed(id identity, c *shipment) {
	if o.shipments[id] != c {
		return
	}
	if c.err != nil {
		delete(o.shipments, id)
		return
	}
	o.arrived = append(o.arrived, id)
	if len(o.arrived) <= maxArrived {
		return
	}
	if oldest := o.shipments[o.arrived[0]]; oldest != nil && oldest.landed {
		delete(o.shipments, o.arrived[0])
	}
	o.arrived = o.arrived[1:]
}
