// Package migrate brings the tables of one outbox from one schema version to
// another, on any SQL database.
//
// Migrations are numbered from 1 without holes. Each runs in its own
// transaction together with the row in outbox_migration that records it, under
// a lock that admits one migrator at a time, and the version is read under that
// lock: any number of processes may migrate at once, and a migration that fails
// leaves nothing behind. Where DDL commits by itself (MySQL) the last part does
// not hold: the version stays, but statements before the failing one have
// happened, so migrations there must be written to be run again.
//
// The package does not compare the tables with what the migrations describe. A
// table altered by hand still has the version it recorded.
package migrate

import (
	"context"
	"fmt"
	"time"
)

// A Record is one row of outbox_migration: a version this outbox has reached.
type Record struct {
	Version   int
	Name      string
	AppliedAt time.Time
}

// A Database is one outbox in one database. Stores implement it.
type Database interface {
	// Applied returns the records of this outbox in order of version, none
	// when outbox_migration does not exist.
	Applied(ctx context.Context) ([]Record, error)

	// Locked calls fn once, holding a lock that excludes every other
	// migrator of the schema, not only of this outbox, because outboxes
	// share tables. Where DDL is transactional all of fn is one transaction:
	// committed when fn returns nil, rolled back when it does not. Taking the
	// lock inside that transaction keeps it working behind a pooler.
	Locked(ctx context.Context, fn func(context.Context, Tx) error) error
}

// A Tx is what a migration may do while it holds the lock.
type Tx interface {
	// Applied is Database.Applied, seen from inside. A missing
	// outbox_migration must leave the transaction usable.
	Applied(ctx context.Context) ([]Record, error)

	// Pending counts the rows that would be lost with the outbox: neither
	// published nor discarded, dead ones included. Where the database can, it
	// keeps writers out until the transaction ends, so that no row slips in
	// between the count and the drop.
	Pending(ctx context.Context) (int64, error)

	// Exec runs one statement without parameters.
	Exec(ctx context.Context, statement string) error
}

// Up applies what is missing up to target and returns the versions it applied.
// An outbox at or above target is left alone. An error after the first
// migration began is a *PartialError; calling Up again continues.
func Up(ctx context.Context, db Database, set Set, target int) ([]int, error) {
	if target < 1 || target > set.Latest() {
		return nil, fmt.Errorf("migrate %s up: no version %d, the latest is %d", set.Table, target, set.Latest())
	}
	return set.walk(ctx, db, func(_ context.Context, _ Tx, current int) ([]step, error) {
		return set.path(current, max(current, target)), nil
	})
}

// Down undoes versions above target, newest first, and returns them. It
// destroys data: while rows wait to be published it does nothing and returns a
// *PendingError, unless force is set. Target 0 removes the outbox; the tables
// shared with other outboxes stay.
func Down(ctx context.Context, db Database, set Set, target int, force bool) ([]int, error) {
	if target < 0 || target > set.Latest() {
		return nil, fmt.Errorf("migrate %s down: no version %d, the latest is %d", set.Table, target, set.Latest())
	}
	return set.walk(ctx, db, func(ctx context.Context, tx Tx, current int) ([]step, error) {
		steps := set.path(current, min(current, target))
		if len(steps) == 0 || force {
			return steps, nil
		}
		pending, err := tx.Pending(ctx)
		if err == nil && pending > 0 {
			err = &PendingError{Table: set.Table, Rows: pending}
		}
		return steps, err
	})
}

// Check returns nil when the outbox has exactly the version this program was
// built with, otherwise a *TooOldError or *TooNewError.
func Check(ctx context.Context, db Database, set Set) error {
	applied, err := db.Applied(ctx)
	if err != nil {
		return fmt.Errorf("read schema version of %s: %w", set.Table, err)
	}
	current, err := version(applied)
	if err != nil {
		return fmt.Errorf("read schema version of %s: %w", set.Table, err)
	}
	return set.Validate(current)
}

// A Status is one migration as an operator sees it. AppliedAt is zero unless
// Applied.
type Status struct {
	Version   int
	Name      string
	Applied   bool
	AppliedAt time.Time
}

// ReadStatus lists every migration known to this program, and after them those
// only the database knows.
func ReadStatus(ctx context.Context, db Database, set Set) ([]Status, error) {
	applied, err := db.Applied(ctx)
	if err != nil {
		return nil, fmt.Errorf("read schema version of %s: %w", set.Table, err)
	}
	records := make(map[int]Record, len(applied))
	for _, r := range applied {
		records[r.Version] = r
	}
	list := make([]Status, 0, max(len(applied), set.Latest()))
	for _, m := range set.Migrations {
		r, ok := records[m.Version]
		list = append(list, Status{Version: m.Version, Name: m.Name, Applied: ok, AppliedAt: r.AppliedAt})
	}
	for _, r := range applied {
		if r.Version > set.Latest() {
			list = append(list, Status{Version: r.Version, Name: r.Name, Applied: true, AppliedAt: r.AppliedAt})
		}
	}
	return list, nil
}

// plan decides, under the lock, which steps are left.
type plan func(ctx context.Context, tx Tx, current int) ([]step, error)

// walk takes one step per lock and plans anew each time, because another
// migrator may have been in between.
func (s Set) walk(ctx context.Context, db Database, left plan) ([]int, error) {
	var done []int
	for {
		var next step
		err := db.Locked(ctx, func(ctx context.Context, tx Tx) error {
			steps, err := s.left(ctx, tx, left)
			if err != nil || len(steps) == 0 {
				return err
			}
			next = steps[0]
			return next.run(ctx, tx)
		})
		switch {
		case err != nil && next.version == 0 && len(done) == 0:
			return nil, fmt.Errorf("migrate %s: %w", s.Table, err)
		case err != nil:
			return done, &PartialError{Table: s.Table, Applied: done, Failed: next.version, Err: err}
		case next.version == 0:
			return done, nil
		}
		done = append(done, next.version)
	}
}

// left reads the version and refuses to plan from one this program does not
// know: it has neither the statements nor the way back.
func (s Set) left(ctx context.Context, tx Tx, left plan) ([]step, error) {
	applied, err := tx.Applied(ctx)
	if err != nil {
		return nil, fmt.Errorf("read schema version: %w", err)
	}
	current, err := version(applied)
	if err != nil {
		return nil, err
	}
	if current > s.Latest() {
		return nil, s.Validate(current)
	}
	return left(ctx, tx, current)
}

// version is the highest version recorded. A history with a hole is an error:
// somebody edited outbox_migration, and no step from there is safe.
func version(applied []Record) (int, error) {
	for i, r := range applied {
		if r.Version != i+1 {
			return 0, fmt.Errorf("outbox_migration records version %d where %d should be", r.Version, i+1)
		}
	}
	return len(applied), nil
}
