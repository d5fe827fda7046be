package sqlitestore

import (
	"errors"
	"fmt"
	"strings"
)

// Primary result codes of SQLite; an extended code carries its primary one in the
// low byte (BUSY_SNAPSHOT is 517, BUSY_RECOVERY 261).
const (
	codeBusy   = 5
	codeLocked = 6
)

// busyTexts are for drivers whose errors have no Code method.
var busyTexts = []string{"database is locked", "database table is locked", "database schema is locked"}

// busy reports whether err means that somebody else is using the file and the
// transaction may be repeated.
func busy(err error) bool {
	if err == nil {
		return false
	}
	if _, waited := errors.AsType[*waitError](err); waited {
		return false
	}
	if coded, ok := errors.AsType[interface {
		error
		Code() int
	}](err); ok {
		primary := coded.Code() & 0xff
		return primary == codeBusy || primary == codeLocked
	}
	text := err.Error()
	for _, t := range busyTexts {
		if strings.Contains(text, t) {
			return true
		}
	}
	return false
}

// noTransaction reports whether a ROLLBACK failed because there is nothing to roll
// back: SQLite has done so itself, as it does when a write is interrupted.
func noTransaction(err error) bool {
	return strings.Contains(err.Error(), "no transaction is active")
}

// A waitError means that ctx ended while the file was busy. It is the context's
// error to callers, and says what was waited for.
type waitError struct {
	cause error
	busy  error
}

func (e *waitError) Error() string { return fmt.Sprintf("%s, waiting for: %s", e.cause, e.busy) }
func (e *waitError) Unwrap() error { return e.cause }

// errEnough ends an iteration early.
var errEnough = errors.New("enough")

// missing reports whether a statement names a table or a column that does not exist.
func missing(err error) bool {
	return strings.Contains(err.Error(), "no such table") || strings.Contains(err.Error(), "no such column")
}
