package transactions

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/go-outbox/outbox/store/sqlitestore"
)

// An Order is the business row as bun sees it.
type Order struct {
	bun.BaseModel `bun:"table:orders"`

	ID       int64 `bun:",pk,autoincrement"`
	Customer string
}

// PlaceWithBun passes tx.Tx, the *sql.Tx inside. bun.Tx itself would compile, but it
// formats the statement instead of sending the arguments, which the stores do not mean.
func PlaceWithBun(ctx context.Context, db *bun.DB, store *sqlitestore.Store, customer string, check func() error) error {
	return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.NewInsert().Model(&Order{Customer: customer}).Exec(ctx); err != nil {
			return err
		}
		if _, err := store.Enqueue(ctx, tx.Tx, orderPlaced(customer)); err != nil {
			return err
		}
		return check()
	})
}
