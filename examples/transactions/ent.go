package transactions

import (
	"context"
	"database/sql"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"

	"github.com/go-outbox/outbox/examples/transactions/ent"
	"github.com/go-outbox/outbox/store/sqlitestore"
)

// PlaceWithEnt passes the *ent.Tx. Code generated with the feature sql/execquery has
// what Enqueue needs (see ent/generate.go).
func PlaceWithEnt(ctx context.Context, client *ent.Client, store *sqlitestore.Store, customer string, check func() error) error {
	tx, err := client.Tx(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback() // has no effect after Commit
	if _, err := tx.Order.Create().SetCustomer(customer).Save(ctx); err != nil {
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

// PlaceWithEntOverSQLTx needs no feature of ent: it begins the *sql.Tx and makes an ent
// client of it.
func PlaceWithEntOverSQLTx(ctx context.Context, db *sql.DB, store *sqlitestore.Store, customer string, check func() error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // has no effect after Commit
	client := ent.NewClient(ent.Driver(entsql.NewDriver(dialect.SQLite, entsql.Conn{ExecQuerier: tx})))
	if _, err := client.Order.Create().SetCustomer(customer).Save(ctx); err != nil {
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
