package outbox

import (
	"context"
	"maps"
	"slices"
	"strings"
)

// A Dispatcher is the error boundary between the relay and a destination.
// Implementations are safe for concurrent use.
type Dispatcher interface {
	// Dispatch hands msg to its destination. A nil error means the destination
	// has acknowledged it. Any error means it may or may not have arrived: it
	// will be dispatched again under the same EventID, unless the error carries
	// another verdict ([Permanent], [RetryAfter], [Unavailable]).
	Dispatch(ctx context.Context, msg DispatchedMessage) error
}

// DispatcherFunc makes a Dispatcher of a function.
type DispatcherFunc func(context.Context, DispatchedMessage) error

// Dispatch calls f.
func (f DispatcherFunc) Dispatch(ctx context.Context, msg DispatchedMessage) error {
	return f(ctx, msg)
}

// A BatchDispatcher takes many messages at once. The relay uses it instead of
// Dispatch when a dispatcher has it; a batch never holds two messages of one key.
type BatchDispatcher interface {
	// DispatchBatch returns one result per message, in order, with the meaning
	// of Dispatch's error. Only a nil result marks its message as delivered; a
	// slice of another length counts as a failure of every message.
	DispatchBatch(ctx context.Context, msgs []DispatchedMessage) []error
}

// A Router tells the relay which destination a message is for, so that one that
// is down holds up only its own messages. Dispatchers with a single destination
// need not implement it.
type Router interface {
	// Route names the destination of a topic. It must be fast, and the same for
	// the same topic for the lifetime of the dispatcher.
	Route(topic string) string
}

// A FanOut is a Router that can send a message to several routes. Each is
// acknowledged and retried on its own: the message is published when all of them have
// it, and what has arrived is not sent again, also by the next relay.
type FanOut interface {
	Router
	// Routes names every destination of a topic. With more than one, Dispatch and
	// DispatchBatch get the ones to try now in Meta.Routes, and answer with
	// [RouteErrors] when not all of them have the message.
	Routes(topic string) []string
}

// RouteErrors is the result of a dispatch to several routes: the error of each that
// failed. Routes that are not in it have the message.
type RouteErrors map[string]error

func (e RouteErrors) Error() string {
	names := slices.Sorted(maps.Keys(e))
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = name + ": " + e[name].Error()
	}
	return strings.Join(texts, "; ")
}

// Unwrap returns the errors of the routes.
func (e RouteErrors) Unwrap() []error { return slices.Collect(maps.Values(e)) }

// A PolicyRouter is a Router whose routes have policies of their own.
type PolicyRouter interface {
	Router
	// Policy is the policy of a route. The zero value is the relay's own.
	Policy(route string) RoutePolicy
}

// A RoutePolicy says how the relay treats the messages of a route.
type RoutePolicy struct {
	// Rate is the most dispatches a second from one process, also after an
	// outage. Zero is no limit.
	Rate float64
	// Concurrency is how many dispatches may run at once from one shard; a sink
	// that takes batches counts each batch. Zero is the relay's.
	Concurrency int
	// Retry replaces the relay's policy for the topics of the route.
	Retry *RetryPolicy
	// SkipDead lets a key go on when one of its messages is dead.
	SkipDead bool
	// Unordered ignores keys: messages of the route do not wait for each other.
	Unordered bool
}
