package migrate

import (
	"fmt"
	"strconv"
	"strings"
)

// A TooOldError means the outbox lacks migrations this program relies on. No
// statement of the store is safe until they are applied.
type TooOldError struct {
	Table      string
	Have, Want int
}

func (e *TooOldError) Error() string {
	return fmt.Sprintf("%s has schema version %d, this program needs %d: run `outbox migrate up --table %s`",
		e.Table, e.Have, e.Want, e.Table)
}

// A TooNewError means a newer program has migrated the outbox. Migrations are
// additive, so a program of the previous version may choose to go on during a
// rolling upgrade; it cannot migrate.
type TooNewError struct {
	Table      string
	Have, Want int
}

func (e *TooNewError) Error() string {
	return fmt.Sprintf("%s has schema version %d, this program knows only %d: upgrade this program, "+
		"or run `outbox migrate down --table %s --to %d` with the newer one",
		e.Table, e.Have, e.Want, e.Table, e.Want)
}

// A PendingError means Down refused, because unpublished rows would be lost.
type PendingError struct {
	Table string
	Rows  int64
}

func (e *PendingError) Error() string {
	return fmt.Sprintf("%s holds %d unpublished rows that migrating down may destroy: publish or discard them, or force it",
		e.Table, e.Rows)
}

// A PartialError means a migration failed after earlier ones may have
// succeeded. Applied is what this call completed, in order; Failed is the
// version that did not, 0 when the failure lay between two. If the commit
// itself failed, Failed may have been applied after all: the next call finds
// out.
type PartialError struct {
	Table   string
	Applied []int
	Failed  int
	Err     error
}

func (e *PartialError) Error() string {
	done := "nothing"
	if len(e.Applied) > 0 {
		versions := make([]string, len(e.Applied))
		for i, v := range e.Applied {
			versions[i] = strconv.Itoa(v)
		}
		done = strings.Join(versions, ", ")
	}
	return fmt.Sprintf("migrate %s: completed %s, then: %s", e.Table, done, e.Err)
}

func (e *PartialError) Unwrap() error { return e.Err }
