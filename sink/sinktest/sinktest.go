// Package sinktest is the contract of an outbox sink as a test suite: the names of
// its subtests, read aloud, are the specification. A sink passes it with a harness
// and one call of [Run]; what it cannot do it declares in [Features] or leaves out of
// the [Harness], and the suite then skips those subtests visibly.
//
// The suite talks to the destination through the sink only, and reads back what
// arrived through the harness, which should use another client than the sink does.
//
// Passing it says that a sink keeps the seam between relay and destination while the
// destination works, stalls or is away, and while the network between them fails. It
// says nothing about speed, or about what the destination does with a message after
// acknowledging it.
package sinktest

import (
	"testing"

	"github.com/go-outbox/outbox"
)

// A Harness is one sink, its empty destination and the means to test them.
type Harness struct {
	// Sink is the sink under test. If it is a BatchDispatcher, its batches are
	// tested too.
	Sink outbox.Dispatcher
	// Close ends the sink and what the harness started for it, except the
	// destination. Optional; without it nothing is left behind on purpose.
	Close func() error
	// Topic is one that the destination takes. Defaults to
	// shop.order.placed.v1.
	Topic string
	// Received returns everything that has arrived, in the order of arrival.
	// What the sink reported as delivered must be in it at once. It may be
	// called several times.
	Received func(t *testing.T) []Received

	// Break makes the destination unreachable, and returns a function that
	// brings it back with what it had. Optional.
	Break func(t *testing.T) (restore func())
	// Stall makes the destination take connections and answer nothing, until the
	// returned function is called. Optional.
	Stall func(t *testing.T) (release func())
	// Fault makes the network between sink and destination fail, until the
	// returned function is called. Connections that exist by then need not
	// survive. Optional.
	Fault func(t *testing.T, fault Fault) (heal func())
	// Refuse makes a message one that the destination refuses for good: too
	// large, or for a topic it does not have. Optional.
	Refuse func(msg *outbox.DispatchedMessage)

	Features Features
}

// Received is a message as the destination has it.
type Received struct {
	// Message holds what the destination carries of Meta, and the payload.
	// Headers may hold more than the message's own.
	Message outbox.DispatchedMessage
	// DedupID is what the destination deduplicates on, or "" where it does not.
	DedupID string
}

// Features declares what a sink can do. The zero value is a sink for a network
// protocol that carries everything.
type Features struct {
	// AnyText: nothing in a topic or a header can break the destination's
	// format, so the sink need not refuse any. False means that it refuses them
	// before they reach the socket.
	AnyText bool
	// Guesses: the sink cannot tell an outage from other failures, so an outage
	// costs attempts.
	Guesses bool
}

// Run runs the contract against the sinks that newHarness makes, a new one for each
// subtest.
func Run(t *testing.T, newHarness func(t *testing.T) Harness) {
	for _, topic := range []struct {
		name   string
		claims []claim
	}{
		{"Message", messageClaims},
		{"Order", orderClaims},
		{"Batch", batchClaims},
		{"Refusal", refusalClaims},
		{"Deadline", deadlineClaims},
		{"Outage", outageClaims},
		{"Network", networkClaims},
		{"Close", closeClaims},
	} {
		t.Run(topic.name, func(t *testing.T) {
			for _, c := range topic.claims {
				t.Run(c.name, func(t *testing.T) {
					h := newHarness(t)
					if h.Topic == "" {
						h.Topic = "shop.order.placed.v1"
					}
					s := &suite{Harness: h, T: t}
					t.Cleanup(s.close)
					c.test(s)
				})
			}
		})
	}
}

// A claim is one sentence of the contract.
type claim struct {
	name string
	test func(s *suite)
}
