package pgstore_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/store/pgstore"
)

// An order and its event commit together, or not at all.
func ExampleStore_Enqueue() {
	placeOrder := func(ctx context.Context, pool *pgxpool.Pool, store *pgstore.Store, order string) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `INSERT INTO orders (id) VALUES ($1)`, order); err != nil {
				return err
			}
			payload, err := json.Marshal(map[string]string{"order": order})
			if err != nil {
				return err
			}
			_, err = store.Enqueue(ctx, tx, outbox.Message{Topic: "shop.order.placed.v1", Key: order, Payload: payload})
			return err
		})
	}
	_ = placeOrder
}

// Business write, event and COMMIT travel in one round trip.
func ExampleStore_QueueEnqueue() {
	placeOrder := func(ctx context.Context, pool *pgxpool.Pool, store *pgstore.Store, order string) error {
		var batch pgx.Batch
		batch.Queue(`BEGIN`)
		batch.Queue(`INSERT INTO orders (id) VALUES ($1)`, order)
		err := store.QueueEnqueue(ctx, &batch, outbox.Message{
			Topic: "shop.order.placed.v1", Key: order, Payload: json.RawMessage(`{}`),
		}, func(sequence int64) { fmt.Println("enqueued", sequence) })
		if err != nil {
			return err
		}
		batch.Queue(`COMMIT`)
		return pool.SendBatch(ctx, &batch).Close()
	}
	_ = placeOrder
}
