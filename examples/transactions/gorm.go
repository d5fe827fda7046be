package transactions

import (
	"context"

	"gorm.io/gorm"

	"github.com/go-outbox/outbox/store/gormstore"
	"github.com/go-outbox/outbox/store/sqlitestore"
)

// PlaceWithGORM passes the tx of db.Transaction; the db around it would be refused.
func PlaceWithGORM(ctx context.Context, db *gorm.DB, store *sqlitestore.Store, customer string, check func() error) error {
	return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Exec(insertOrder, customer).Error; err != nil {
			return err
		}
		if _, err := gormstore.Enqueue(ctx, tx, store.Enqueue, orderPlaced(customer)); err != nil {
			return err
		}
		return check()
	})
}
