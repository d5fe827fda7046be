package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// coded is an error as modernc.org/sqlite has them.
type coded int

func (c coded) Error() string { return fmt.Sprintf("code %d", int(c)) }
func (c coded) Code() int     { return int(c) }

func TestOnlyABusyFileIsWaitedFor(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want bool
	}{
		{"nil", nil, false},
		{"BUSY", coded(5), true},
		{"LOCKED", coded(6), true},
		{"BUSY_RECOVERY", coded(261), true},
		{"LOCKED_SHAREDCACHE", coded(262), true},
		{"BUSY_SNAPSHOT", coded(517), true},
		{"BUSY_TIMEOUT", coded(773), true},
		{"wrapped", fmt.Errorf("step: %w", coded(5)), true},
		{"CONSTRAINT_UNIQUE", coded(2067), false},
		{"FULL", coded(13), false},
		{"INTERRUPT", coded(9), false},
		{"IOERR", coded(10), false},
		{"text of a driver without codes", errors.New("database is locked"), true},
		{"text of a locked table", errors.New("database table is locked: outbox"), true},
		{"another text", errors.New("no such table: outbox"), false},
		{"the context ended while waiting", &waitError{cause: context.Canceled, busy: coded(5)}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := busy(c.err); got != c.want {
				t.Errorf("busy(%v) = %t, want %t", c.err, got, c.want)
			}
		})
	}
}
