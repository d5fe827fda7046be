package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/store/pgstore"
)

const topicOrderPlaced = "shop.order.placed.v1"

// orderPlaced is the payload of that topic.
type orderPlaced struct {
	Order uuid.UUID `json:"order"`
	Total int       `json:"total"`
}

const shopTables = `CREATE TABLE IF NOT EXISTS orders (id uuid PRIMARY KEY, total integer NOT NULL)`

// openShop returns the database of the shop with its outbox.
func openShop(ctx context.Context, dsn string) (*pgxpool.Pool, *pgstore.Store, error) {
	pool, err := open(ctx, dsn, shopTables)
	if err != nil {
		return nil, nil, err
	}
	store, err := pgstore.New(pool, pgstore.Config{Table: "shop_outbox"})
	if err == nil {
		_, err = store.Migrate(ctx) // in production: `outbox migrate up`, before the deploy
	}
	if err != nil {
		pool.Close()
		return nil, nil, fmt.Errorf("shop outbox: %w", err)
	}
	return pool, store, nil
}

// runOrders places orders until it is stopped.
func runOrders(ctx context.Context, s settings, log *slog.Logger) error {
	pool, store, err := openShop(ctx, s.shop)
	if err != nil {
		return err
	}
	defer pool.Close()
	for ctx.Err() == nil {
		err := place(ctx, pool, store, orderPlaced{Order: uuid.New(), Total: 1 + rand.IntN(100)})
		if err != nil && ctx.Err() == nil {
			log.Warn("order failed", slog.Any("err", err))
		}
	}
	return nil
}

// place writes an order and its event: both or neither.
func place(ctx context.Context, pool *pgxpool.Pool, store *pgstore.Store, order orderPlaced) error {
	payload, err := json.Marshal(order)
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO orders VALUES ($1, $2)`, order.Order, order.Total); err != nil {
			return err
		}
		_, err := store.Enqueue(ctx, tx, outbox.Message{
			Topic: topicOrderPlaced, Key: order.Order.String(), Payload: payload,
		})
		return err
	})
}
