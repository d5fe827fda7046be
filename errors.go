package outbox

import "errors"

// Error is a failure with a stable code. Compare with errors.Is against the
// exported values, or read Code.
type Error struct {
	code  string
	text  string
	field string
	cause error
}

// Code is the stable identity of the error, such as OUTBOX_INVALID_TOPIC.
func (e *Error) Code() string { return e.code }

// Field names what was wrong: a field of Message or a configuration key. It may be
// empty.
func (e *Error) Field() string { return e.field }

func (e *Error) Error() string {
	s := e.text
	if e.field != "" {
		s = e.field + ": " + s
	}
	if e.cause != nil {
		s += ": " + e.cause.Error()
	}
	return s
}

func (e *Error) Unwrap() error { return e.cause }

// Is matches any error of the same code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.code == e.code
}

// With returns a copy of e about one field, with its own text.
func (e *Error) With(field, text string) *Error {
	return &Error{code: e.code, field: field, text: text}
}

// Wrap returns a copy of e that keeps cause.
func (e *Error) Wrap(cause error) *Error {
	return &Error{code: e.code, text: e.text, field: e.field, cause: cause}
}

func newError(code, text string) *Error { return &Error{code: code, text: text} }

// Errors of Enqueue: the input was refused before any SQL ran, and the caller's
// transaction is still usable.
var (
	ErrInvalidTopic    = newError("OUTBOX_INVALID_TOPIC", "invalid topic")
	ErrInvalidKey      = newError("OUTBOX_INVALID_KEY", "invalid key")
	ErrInvalidHeader   = newError("OUTBOX_INVALID_HEADER", "invalid header")
	ErrInvalidPayload  = newError("OUTBOX_INVALID_PAYLOAD", "invalid payload")
	ErrPayloadTooLarge = newError("OUTBOX_PAYLOAD_TOO_LARGE", "payload too large")
	ErrInvalidMessage  = newError("OUTBOX_INVALID_MESSAGE", "invalid message")
	// ErrContract: the event does not satisfy its contract.
	ErrContract = newError("OUTBOX_CONTRACT_VIOLATION", "event violates its contract")
	// ErrEventIDConflict: the event id exists with other content. Nothing was
	// written. An event id with the same content is not an error: Enqueue
	// returns the existing sequence.
	ErrEventIDConflict = newError("OUTBOX_EVENT_ID_CONFLICT", "event id exists with other content")
	// ErrUnmappedTopic: a TopicMapper knows no topic for an aggregate type.
	ErrUnmappedTopic = newError("OUTBOX_UNMAPPED_TOPIC", "no topic for aggregate type")
)

// Errors of configuration and schema.
var (
	ErrInvalidTable  = newError("OUTBOX_INVALID_TABLE", "invalid table name")
	ErrInvalidConfig = newError("OUTBOX_INVALID_CONFIG", "invalid configuration")
	// ErrSchema: the table is missing, too old, too new or not an outbox. The
	// text says which command mends it.
	ErrSchema = newError("OUTBOX_SCHEMA_MISMATCH", "schema mismatch")
)

// Errors of the relay seam.
var (
	// ErrLeaseHeld: Acquire found every lease taken by a live owner. Try again
	// later.
	ErrLeaseHeld = newError("OUTBOX_LEASE_HELD", "lease is held by another relay")
	// ErrLeaseLost: the lease was taken over or released; nothing was written.
	// Forget everything that was read under it.
	ErrLeaseLost = newError("OUTBOX_LEASE_LOST", "lease lost")
	// ErrRestored: the database is not the one this relay knew (another system
	// identifier, an earlier timeline). Nothing is dispatched until confirmed.
	ErrRestored = newError("OUTBOX_RESTORE_DETECTED", "restore detected")
)

// ErrNoRoute is what a dispatcher returns for a topic that none of its destinations
// takes: the message is dead(no_route) at once, never dropped in silence.
var ErrNoRoute = newError("OUTBOX_NO_ROUTE", "no destination takes this topic")

// ErrGone is what a dispatcher returns when a destination asks to be left alone for
// good, as with HTTP 410: the relay pauses the route until a person resumes it. The
// message waits, and so do those after it.
var ErrGone = newError("OUTBOX_DESTINATION_GONE", "the destination is gone")

// Errors of Inspector and Operator.
var (
	ErrNotFound = newError("OUTBOX_NOT_FOUND", "no such event")
	// ErrNotApplicable: the verb does not fit the state of the message.
	ErrNotApplicable = newError("OUTBOX_NOT_APPLICABLE", "not applicable")
	// ErrDrift: a job would change another number of messages than was confirmed.
	// Nothing was changed.
	ErrDrift = newError("OUTBOX_DRIFT", "the count has changed since it was confirmed")
)

// CodeOf returns the stable code in err's chain, or "".
func CodeOf(err error) string {
	if c, ok := errors.AsType[interface {
		error
		Code() string
	}](err); ok {
		return c.Code()
	}
	return ""
}
