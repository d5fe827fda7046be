package transactions

import (
	"context"
	"database/sql"
	"errors"

	"github.com/go-outbox/outbox/store/sqlitestore"
)

const insertOrder = "INSERT INTO orders (customer) VALUES (?)"

// PlaceWithSQLTx has a *sql.Tx, which is what Enqueue takes.
func PlaceWithSQLTx(ctx context.Context, db *sql.DB, store *sqlitestore.Store, customer string, check func() error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // has no effect after Commit
	if _, err := tx.ExecContext(ctx, insertOrder, customer); err != nil {
		return err
	}
	if _, err := store.Enqueue(ctx, tx, orderPlaced(customer)); err != nil {
		return err
	}
	if err := check(); err != nil {
		return err
	}
	return tx.Commit()
}

// PlaceWithSQLConn begins the transaction with SQL, for what BeginTx cannot say: here
// BEGIN IMMEDIATE. EnqueueConn is a method of its own because a connection, unlike a
// *sql.Tx, need not be in a transaction: the caller answers for it.
func PlaceWithSQLConn(ctx context.Context, db *sql.DB, store *sqlitestore.Store, customer string, check func() error) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_, undo := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
			err = errors.Join(err, undo)
		}
	}()
	if _, err := conn.ExecContext(ctx, insertOrder, customer); err != nil {
		return err
	}
	if _, err := store.EnqueueConn(ctx, conn, orderPlaced(customer)); err != nil {
		return err
	}
	if err := check(); err != nil {
		return err
	}
	_, err = conn.ExecContext(ctx, "COMMIT")
	return err
}
