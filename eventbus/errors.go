package eventbus

import "fmt"

var (
	// ErrNoSubscribers is wrapped by PublishE's error when no handler accepts
	// the arguments: a subscription is missing or has other types. A handler
	// that itself publishes and returns the error passes it on.
	// Its code is EVENTBUS_NO_SUBSCRIBERS.
	ErrNoSubscribers = &Error{"EVENTBUS_NO_SUBSCRIBERS", "no subscribers"}

	// ErrInvalidHandlerReturn is wrapped by PublishE's error when a matching
	// handler returns anything but nothing or one error, so that its outcome
	// cannot be known. The program must be corrected; publishing again does not help.
	// Its code is EVENTBUS_INVALID_HANDLER_RETURN.
	ErrInvalidHandlerReturn = &Error{
		"EVENTBUS_INVALID_HANDLER_RETURN", "handler must return nothing or one error",
	}

	// ErrInvalidHandler is wrapped by Subscribe's error when the handler is nil,
	// not a function, or variadic. Its code is EVENTBUS_INVALID_HANDLER.
	ErrInvalidHandler = &Error{"EVENTBUS_INVALID_HANDLER", "invalid handler"}
)

// An Error is one of this package's sentinel errors. Compare with errors.Is;
// use errors.As to get at the code of a wrapped one.
type Error struct {
	code string
	text string
}

func (e *Error) Error() string { return e.text }

// Code returns an identifier that stays the same across releases, for logs and
// alerts.
func (e *Error) Code() string { return e.code }

// A PanicError is a panic of a handler.
type PanicError struct {
	Value any    // what the handler panicked with
	Stack []byte // where, in the format of runtime/debug.Stack
}

// Error leaves the stack out, because error texts end up in tables and alerts.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Code returns EVENTBUS_HANDLER_PANIC.
func (e *PanicError) Code() string { return "EVENTBUS_HANDLER_PANIC" }

// Unwrap returns the value the handler panicked with if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
