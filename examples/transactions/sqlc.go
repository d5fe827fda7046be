package transactions

import (
	"context"
	"database/sql"

	"github.com/go-outbox/outbox/examples/transactions/sqlcdb"
	"github.com/go-outbox/outbox/store/sqlitestore"
)

// PlaceWithSqlc uses the *sql.Tx that WithTx is given. The DBTX inside of Queries is no
// substitute: it may be a pool, so Enqueue does not take it.
func PlaceWithSqlc(ctx context.Context, db *sql.DB, queries *sqlcdb.Queries, store *sqlitestore.Store, customer string, check func() error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // has no effect after Commit
	if err := queries.WithTx(tx).CreateOrder(ctx, customer); err != nil {
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
