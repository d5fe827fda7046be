package gormstore_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/glebarez/sqlite"
	"gorm.io/gorm"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/store/gormstore"
	"github.com/go-outbox/outbox/store/pgstore"
	"github.com/go-outbox/outbox/store/sqlitestore"
)

// An Order is a business row.
type Order struct {
	ID       int64
	Customer string
}

func openShop(ctx context.Context, file string) (*gorm.DB, *sqlitestore.Store, error) {
	db, err := gorm.Open(sqlite.Open("file:"+file+"?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=synchronous(FULL)"), &gorm.Config{})
	if err != nil {
		return nil, nil, err
	}
	pool, err := db.DB()
	if err != nil {
		return nil, nil, err
	}
	if err := sqlitestore.Prepare(ctx, pool); err != nil {
		return nil, nil, err
	}
	store, err := sqlitestore.New(pool, sqlitestore.Config{Table: "shop_outbox"})
	if err != nil {
		return nil, nil, err
	}
	if _, err := store.Migrate(ctx); err != nil {
		return nil, nil, err
	}
	return db, store, db.WithContext(ctx).AutoMigrate(&Order{})
}

func placeOrder(ctx context.Context, db *gorm.DB, store *sqlitestore.Store, customer string) error {
	return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		order := Order{Customer: customer}
		if err := tx.Create(&order).Error; err != nil {
			return err
		}
		_, err := gormstore.Enqueue(ctx, tx, store.Enqueue, orderPlaced(order))
		return err
	})
}

func placeOrderPostgres(ctx context.Context, db *gorm.DB, store *pgstore.Store, customer string) error {
	return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		order := Order{Customer: customer}
		if err := tx.Create(&order).Error; err != nil {
			return err
		}
		_, err := gormstore.Enqueue(ctx, tx, store.EnqueueSQL, orderPlaced(order))
		return err
	})
}

func placeOrders(ctx context.Context, db *gorm.DB, store *sqlitestore.Store, orders []Order) error {
	return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Create(&orders).Error; err != nil {
			return err
		}
		msgs := make([]outbox.Message, len(orders))
		for i, order := range orders {
			msgs[i] = orderPlaced(order)
		}
		conn, err := gormstore.Tx(tx)
		if err != nil {
			return err
		}
		_, err = store.EnqueueMany(ctx, conn, msgs)
		return err
	})
}

func orderPlaced(o Order) outbox.Message {
	return outbox.Message{
		Topic:   "shop.order.placed.v1",
		Key:     fmt.Sprint(o.ID),
		Payload: fmt.Appendf(nil, `{"order":%d,"customer":%q}`, o.ID, o.Customer),
	}
}

func recentlyFailed(ctx context.Context, db *gorm.DB, tenant string) ([]gormstore.Message, error) {
	var messages []gormstore.Message
	err := db.WithContext(ctx).Table("shop_outbox").
		Where("tenant_id = ? AND dead_at > ?", tenant, gormstore.At(time.Now().Add(-time.Hour))).
		Order("sequence").Limit(100).
		Find(&messages).Error
	return messages, err
}

func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "outbox")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	db, store, err := openShop(ctx, filepath.Join(dir, "shop.db"))
	if err != nil {
		panic(err)
	}
	if err := placeOrder(ctx, db, store, "Ada"); err != nil {
		panic(err)
	}
	if err := placeOrders(ctx, db, store, []Order{{Customer: "Grace"}, {Customer: "Edsger"}}); err != nil {
		panic(err)
	}
	var messages []gormstore.Message
	if err := db.Table("shop_outbox").Order("sequence").Find(&messages).Error; err != nil {
		panic(err)
	}
	for _, m := range messages {
		fmt.Println(m.Sequence, m.Topic, string(m.Payload))
	}
	pool, err := db.DB()
	if err != nil {
		panic(err)
	}
	if err := pool.Close(); err != nil {
		panic(err)
	}
	// Output:
	// 1 shop.order.placed.v1 {"order":1,"customer":"Ada"}
	// 2 shop.order.placed.v1 {"order":2,"customer":"Grace"}
	// 3 shop.order.placed.v1 {"order":3,"customer":"Edsger"}
}

// What the documentation shows is compiled here; the tests run the same calls.
var _ = []any{placeOrderPostgres, recentlyFailed}
