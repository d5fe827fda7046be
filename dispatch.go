package outbox

import "context"

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
