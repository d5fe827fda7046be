// Package eventbus hands values to the functions in the same process that
// accept them.
//
// A handler is any function; it receives a publication when it has as many
// parameters as there are arguments and each argument is assignable to its
// parameter. There are no topics: the types are the address. To be able to
// deduplicate, handlers of outbox events take the metadata as well:
//
//	func(meta *outbox.Meta, e *OrderPaid) error
//
// PublishE returns nil only if at least one handler matched, every matching
// handler ran, and every one of them returned nothing or a nil error. One
// handler's failure, a panic included, does not keep the others from running.
// That makes PublishE safe as the last step of a relay: nothing is taken for
// delivered that was not.
//
// The bus keeps nothing and retries nothing. After an error some handlers have
// succeeded, and publishing again runs them again: handlers must be
// idempotent. Handlers run one after another on the publisher's goroutine, so
// a handler that blocks, or ends that goroutine with runtime.Goexit, does so
// to its publisher; there is no context and no timeout.
package eventbus

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// EventBus is a bus for publishers that do not need to know the outcome.
type EventBus interface {
	// Publish runs every handler that accepts args and discards the outcome.
	Publish(args ...any)

	// Subscribe adds handler. A nil error means that publications which begin
	// from now on reach it, until unsubscribe is called; after an error nothing
	// was added and unsubscribe is nil.
	Subscribe(handler any) (unsubscribe func(), err error)
}

// EventBusWithError is a bus for publishers that act on failure, such as a
// relay that must publish again.
//
//nolint:revive // the name that applications have already
type EventBusWithError interface {
	EventBus

	// PublishE runs every handler that accepts args. A nil error means that
	// there was at least one and that all succeeded; any error means that some
	// may have succeeded nonetheless.
	PublishE(args ...any) error
}

var _ EventBusWithError = (*Bus)(nil)

// A Bus is an in-process event bus. The zero value is an empty bus, ready to
// use. All methods are safe for concurrent use and may be called by handlers:
// no lock is held while a handler runs.
type Bus struct {
	report func(error) // what Publish does with an error; nil drops it

	mu       sync.RWMutex
	handlers []*handler // in order of subscription; replaced, never modified
}

// New returns an empty bus whose Publish drops errors.
func New() *Bus { return &Bus{} }

// NewWithReport returns an empty bus whose Publish passes errors to report,
// which runs on the publisher's goroutine. That nobody subscribed is not
// reported: to Publish it is not an error.
func NewWithReport(report func(error)) *Bus { return &Bus{report: report} }

// Subscribe adds handler behind those already subscribed. Subscribing a
// function twice makes it run twice.
//
// It returns an error wrapping ErrInvalidHandler if handler is nil, not a
// function, or variadic. A function with unsuitable results is accepted here
// and makes every PublishE it matches fail with ErrInvalidHandlerReturn: were
// it refused, a program that overlooks this error would publish successfully
// to the remaining handlers.
//
// Calling unsubscribe more than once does no harm. Publications already under
// way may still run the handler after unsubscribe has returned.
func (b *Bus) Subscribe(handler any) (unsubscribe func(), err error) {
	h, err := newHandler(handler)
	if err != nil {
		return nil, fmt.Errorf("subscribe %T: %w", handler, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.handlers = append(slices.Clip(b.handlers), h)
	return func() { b.remove(h) }, nil
}

func (b *Bus) remove(h *handler) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.handlers, h); i >= 0 {
		b.handlers = slices.Delete(slices.Clone(b.handlers), i, i+1)
	}
}

// Publish does what PublishE does for a publisher that does not need to know:
// errors and panics of handlers never reach it, and it is fine if no handler
// matches. Use NewWithReport to see the errors.
func (b *Bus) Publish(args ...any) {
	_, err := b.publish(args)
	if err != nil && b.report != nil {
		b.report(err)
	}
}

// PublishE runs every handler that accepts args, in order of subscription, and
// returns their errors joined. An untyped nil argument is accepted by any
// parameter that can be nil. The error wraps
//
//   - ErrNoSubscribers if no handler matched;
//   - ErrInvalidHandlerReturn for each matching handler that returns anything
//     but nothing or one error, which is not run;
//   - a *PanicError for each handler that panicked;
//   - the error of each handler that returned one.
//
// Error texts name handlers and types, never the arguments' values.
func (b *Bus) PublishE(args ...any) error {
	matched, err := b.publish(args)
	if matched == 0 {
		return fmt.Errorf("publish (%s): %w", typeList(args), ErrNoSubscribers)
	}
	return err
}

// publish reports how many handlers matched and what went wrong with them.
func (b *Bus) publish(args []any) (matched int, err error) {
	handlers := b.snapshot()
	if len(handlers) == 0 {
		return 0, nil
	}
	values := make([]reflect.Value, len(args))
	for i, arg := range args {
		values[i] = reflect.ValueOf(arg)
	}

	var errs []error
	for _, h := range handlers {
		if !h.accepts(values) {
			continue
		}
		matched++
		if err := h.run(values); err != nil {
			errs = append(errs, fmt.Errorf("handler %s: %w", h.name, err))
		}
	}
	return matched, errors.Join(errs...)
}

func (b *Bus) snapshot() []*handler {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.handlers
}

func typeList(args []any) string {
	types := make([]string, len(args))
	for i, arg := range args {
		types[i] = fmt.Sprintf("%T", arg)
	}
	return strings.Join(types, ", ")
}
