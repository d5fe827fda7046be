// Package gormstore lets applications on GORM use an outbox of this module.
//
// It is an adapter and no store: [Enqueue] hands the connection of a GORM transaction
// to the native store of the database (mysqlstore, pgstore, sqlitestore), whose SQL
// writes the message. It exists if and only if that transaction commits, with and
// without PrepareStmt. A *gorm.DB outside of a transaction is refused: there the event
// would be committed without the business row.
//
// [Message] is a model of the table for reading. It cannot be written through GORM:
// what changes messages are the relay and an outbox.Operator, which know of each other.
// Statements of this package do not pass through GORM's callbacks, so neither its
// logger nor its plugins see them.
package gormstore

import (
	"context"
	"database/sql"
	"errors"

	"gorm.io/gorm"

	"github.com/go-outbox/outbox"
)

// ErrNoTransaction is returned for a *gorm.DB that is not in a transaction. Nothing was
// written. Use the tx that db.Transaction, db.Begin or a hook of GORM gives, not the db
// it came from.
var ErrNoTransaction = errors.New("this *gorm.DB is not in a transaction: use the one that db.Transaction passes to its function")

// A SQLTx is a transaction of database/sql as the native stores take it.
type SQLTx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	Commit() error
	Rollback() error
}

// Tx returns the transaction that db is in, for methods of the native stores that
// Enqueue does not cover, such as EnqueueMany. Leave it to GORM to end it.
func Tx(db *gorm.DB) (SQLTx, error) { return txOf[SQLTx](db) }

// Enqueue writes msg in the transaction that tx is in and returns its sequence. enqueue
// is the method of the native store that takes a transaction of database/sql:
//
//	gormstore.Enqueue(ctx, tx, store.Enqueue, msg)    // mysqlstore, sqlitestore
//	gormstore.Enqueue(ctx, tx, store.EnqueueSQL, msg) // pgstore
//
// Its errors are those of that method, ErrNoTransaction, the error that tx has already,
// and gorm.ErrDryRunModeUnsupported.
func Enqueue[T SQLTx](ctx context.Context, tx *gorm.DB, enqueue func(context.Context, T, outbox.Message) (int64, error), msg outbox.Message) (int64, error) {
	conn, err := txOf[T](tx)
	if err != nil {
		return 0, err
	}
	return enqueue(ctx, conn, msg)
}

// txOf asks for Commit rather than for *sql.Tx: with PrepareStmt the transaction is a
// *gorm.PreparedStmtTX, and plugins have types of their own. Pools cannot be committed.
func txOf[T SQLTx](db *gorm.DB) (conn T, err error) {
	if db == nil || db.Statement == nil {
		return conn, ErrNoTransaction
	}
	if db.Error != nil { // such as that of a Begin that failed
		return conn, db.Error
	}
	if db.DryRun {
		return conn, gorm.ErrDryRunModeUnsupported
	}
	conn, ok := db.Statement.ConnPool.(T)
	if !ok {
		return conn, ErrNoTransaction
	}
	return conn, nil
}
