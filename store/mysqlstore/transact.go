package mysqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"math/rand/v2"
	"time"
)

const (
	// operatorPatience is how long an operator's transaction waits for a lock and may
	// hold the leases.
	operatorPatience = 5 * time.Second
	// tries is how often a transaction that others keep in the way of is begun.
	tries     = 10
	firstWait = 2 * time.Millisecond
	maxWait   = 100 * time.Millisecond
	// detachedTimeout bounds what is done for a caller whose context has ended.
	detachedTimeout = 2 * time.Second
)

// write runs fn in a READ COMMITTED transaction of its own. A deadlock or a lock timeout
// rolls all of it back and repeats it, so fn must start from scratch each time: after a
// lock timeout the server has undone one statement only, and a COMMIT would keep half.
func (s *Store) write(ctx context.Context, patience time.Duration, fn func(context.Context, *sql.Tx) error) error {
	wait := firstWait
	for try := 1; ; try++ {
		err := s.transact(ctx, patience, fn)
		if !again(err) || try == tries {
			return err
		}
		// Jitter, so that transactions that collided once do not do so again.
		timer := time.NewTimer(wait/2 + rand.N(wait/2+1))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(context.Cause(ctx), err)
		}
		wait = min(2*wait, maxWait)
	}
}

func (s *Store) transact(ctx context.Context, patience time.Duration, fn func(context.Context, *sql.Tx) error) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	seconds := max(int64(patience/time.Second), 1)
	if err := exec(ctx, conn, s.sql.SessionBegin, seconds); err != nil {
		return err
	}
	defer s.restore(ctx, conn)
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	if err := fn(ctx, tx); err != nil {
		_ = tx.Rollback() // a connection that cannot is dropped, which rolls back too
		return err
	}
	return tx.Commit()
}

// restore gives the session back as it was. The settings are ours; the next user of the
// connection must not inherit them.
func (s *Store) restore(ctx context.Context, conn *sql.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), detachedTimeout)
	defer cancel()
	if exec(ctx, conn, s.sql.SessionEnd) != nil {
		discard(conn)
	}
}

// discard keeps a connection from returning to the pool.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
}

// snapshot runs fn in a read transaction in which all statements see the same.
func (s *Store) snapshot(ctx context.Context, fn func(context.Context, *sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	return fn(ctx, tx)
}

// exec runs a statement of ours for its effect.
func exec(ctx context.Context, q querier, statement string, args ...any) error {
	_, err := affected(ctx, q, statement, args...)
	return err
}

// affected runs a statement of ours and counts the rows. For an UPDATE that is the rows
// it matched or those it changed, as clientFoundRows says; only a DELETE may be counted.
func affected(ctx context.Context, q querier, statement string, args ...any) (int64, error) {
	text, err := bind(statement, args...)
	if err != nil {
		return 0, err
	}
	res, err := q.ExecContext(ctx, text)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// each calls scan for every row of a query of ours.
func each(ctx context.Context, q querier, scan func(*sql.Rows) error, statement string, args ...any) error {
	text, err := bind(statement, args...)
	if err != nil {
		return err
	}
	return eachText(ctx, q, scan, text)
}

func eachText(ctx context.Context, q querier, scan func(*sql.Rows) error, text string, params ...any) error {
	rows, err := q.QueryContext(ctx, text, params...)
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

// one reads a query of ours that has one row, or returns sql.ErrNoRows.
func one(ctx context.Context, q querier, dest []any, statement string, args ...any) error {
	found := false
	err := each(ctx, q, func(rows *sql.Rows) error {
		found = true
		return rows.Scan(dest...)
	}, statement, args...)
	if err == nil && !found {
		err = sql.ErrNoRows
	}
	return err
}

// inSlices calls fn with at most listSize of the ids at a time. The optimizer turns a
// list of a thousand into a join whose order it may choose.
func inSlices(ids []int64, fn func(ids []int64) error) error {
	for len(ids) > 0 {
		n := min(len(ids), listSize)
		if err := fn(ids[:n]); err != nil {
			return err
		}
		ids = ids[n:]
	}
	return nil
}

const listSize = 900
