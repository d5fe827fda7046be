package transactions

import (
	"context"

	"github.com/jmoiron/sqlx"

	"github.com/go-outbox/outbox/store/sqlitestore"
)

// PlaceWithSqlx passes the *sqlx.Tx: it is a *sql.Tx with more methods.
func PlaceWithSqlx(ctx context.Context, db *sqlx.DB, store *sqlitestore.Store, customer string, check func() error) error {
	tx, err := db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // has no effect after Commit
	order := struct{ Customer string }{customer}
	if _, err := tx.NamedExecContext(ctx, "INSERT INTO orders (customer) VALUES (:customer)", order); err != nil {
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
