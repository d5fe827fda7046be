package sqlitestore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"math/rand/v2"
	"strconv"
	"time"
)

// write runs fn in a transaction that holds the write lock from the beginning. When
// the file is busy, the whole of it is rolled back and repeated until ctx ends: a
// statement that is repeated alone inside a stale snapshot never succeeds. fn must
// therefore start from scratch each time.
//
// BEGIN IMMEDIATE goes through a connection of its own rather than through BeginTx,
// whose kind of transaction is a matter of the caller's DSN.
func (s *Store) write(ctx context.Context, fn func(context.Context, *sql.Conn) error) error {
	return untilFree(ctx, func() error { return s.transact(ctx, "BEGIN IMMEDIATE", fn) })
}

// read runs fn in a read transaction, so that all of its statements see one
// snapshot. It too may be called again.
func (s *Store) read(ctx context.Context, fn func(context.Context, *sql.Conn) error) error {
	return untilFree(ctx, func() error { return s.transact(ctx, "BEGIN", fn) })
}

func (s *Store) transact(ctx context.Context, begin string, fn func(context.Context, *sql.Conn) error) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	restore, err := impatient(ctx, conn)
	if err != nil {
		return err
	}
	defer restore()

	committed := false
	defer func() {
		if !committed {
			rollback(ctx, conn)
		}
	}()
	if _, err := conn.ExecContext(ctx, begin); err != nil {
		return err
	}
	if err := fn(ctx, conn); err != nil {
		return err
	}
	if err := commit(ctx, conn); err != nil {
		return err
	}
	committed = true
	return nil
}

// commit ends a transaction. Without a write-ahead log it has to wait for readers, and
// may be repeated: a COMMIT that found the file busy leaves the transaction as it was.
// It is not interrupted: that would leave the outcome unknown for nothing.
func commit(ctx context.Context, conn *sql.Conn) error {
	return untilFree(ctx, func() error { return exec(context.WithoutCancel(ctx), conn, "COMMIT") })
}

// rollback ends a transaction even though ctx may have ended. A connection that
// cannot be rolled back must not return to the pool: the next user would write into
// our transaction.
func rollback(ctx context.Context, conn *sql.Conn) {
	_, err := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	if err != nil && !noTransaction(err) {
		discard(conn)
	}
}

// discard keeps a connection from returning to the pool.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
}

// impatient bounds how long SQLite itself waits for a busy file on this connection,
// and returns what undoes that. SQLite does not notice a cancelled context while it
// waits; untilFree does.
func impatient(ctx context.Context, conn *sql.Conn) (restore func(), err error) {
	ctx = context.WithoutCancel(ctx) // what is changed must be known, to be undone
	var timeout int64
	if err := conn.QueryRowContext(ctx, "PRAGMA busy_timeout").Scan(&timeout); err != nil {
		return nil, err
	}
	if timeout <= maxBusyTimeout {
		return func() {}, nil
	}
	if err := setBusyTimeout(ctx, conn, maxBusyTimeout); err != nil {
		return nil, err
	}
	return func() {
		if setBusyTimeout(ctx, conn, timeout) != nil {
			discard(conn)
		}
	}, nil
}

func setBusyTimeout(ctx context.Context, conn *sql.Conn, milliseconds int64) error {
	// A pragma takes no parameters.
	return exec(ctx, conn, "PRAGMA busy_timeout="+strconv.FormatInt(milliseconds, 10))
}

const (
	firstWait = time.Millisecond
	maxWait   = 50 * time.Millisecond
	// maxBusyTimeout is in milliseconds, as the pragma is.
	maxBusyTimeout = 100
)

// untilFree repeats try while the file is busy, until ctx ends.
func untilFree(ctx context.Context, try func() error) error {
	for wait := firstWait; ; wait = min(2*wait, maxWait) {
		err := try()
		if !busy(err) {
			return err
		}
		// Jitter, so that processes that collided once do not do so again.
		timer := time.NewTimer(wait/2 + rand.N(wait/2+1))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return &waitError{cause: context.Cause(ctx), busy: err}
		}
	}
}

// affected runs a statement and counts the rows it changed.
func affected(ctx context.Context, q querier, query string, args ...any) (int64, error) {
	res, err := q.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// exec runs a statement for its effect alone.
func exec(ctx context.Context, q querier, query string, args ...any) error {
	_, err := q.ExecContext(ctx, query, args...)
	return err
}

// each calls scan for every row of a query.
func each(ctx context.Context, q querier, scan func(*sql.Rows) error, query string, args ...any) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
