package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/go-outbox/outbox"
)

// A SQLTx is a transaction of database/sql, over pgx's stdlib or another driver.
// *sql.Tx is one; *sql.DB is not.
type SQLTx interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	Commit() error
	Rollback() error
}

// EnqueueSQL is Enqueue for a transaction of database/sql.
func (s *Store) EnqueueSQL(ctx context.Context, tx SQLTx, msg outbox.Message) (int64, error) {
	e, err := s.admit(ctx, msg, func() (*layout, error) { return s.layout(ctx, s.pool) })
	if err != nil {
		return 0, err
	}
	args := e.args()
	args[0] = e.msg.EventID.String() // every driver knows text
	sequence, err := queryInt(ctx, tx, e.statement(), args...)
	if e.given && errors.Is(err, sql.ErrNoRows) {
		sequence, err = duplicateSQL(ctx, tx, e.layout, &e.msg)
	}
	return sequence, s.explain("enqueue", err)
}

func duplicateSQL(ctx context.Context, tx SQLTx, l *layout, msg *outbox.Message) (int64, error) {
	same, err := queryInt(ctx, tx, l.sql.Duplicate, msg.EventID.String(), msg.Topic, msg.Key, msg.TenantID, l.value(msg.Payload))
	if err == nil && same < 0 {
		err = outbox.ErrEventIDConflict.With("event_id", fmt.Sprintf("%s exists as sequence %d with other content", msg.EventID, -same))
	}
	return same, err
}

func queryInt(ctx context.Context, tx SQLTx, statement string, args ...any) (int64, error) {
	rows, err := tx.QueryContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	if !rows.Next() {
		return 0, errors.Join(sql.ErrNoRows, rows.Err())
	}
	var n int64
	if err := rows.Scan(&n); err != nil {
		return 0, err
	}
	return n, rows.Close()
}
