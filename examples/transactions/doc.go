// Package transactions shows how to enqueue with every common way of holding a
// transaction in Go: database/sql (a *sql.Tx, a *sql.Conn), sqlx, bun, ent, sqlc, GORM
// and pgx.
//
// Each Place… function writes an order and its event in one transaction and then calls
// check, which stands for the rest of the business code. When check fails, neither row
// exists; the tests prove it for each of them. It is a module of its own, so that nobody
// who imports the outbox gets these libraries.
package transactions

import (
	"fmt"

	"github.com/go-outbox/outbox"
)

func orderPlaced(customer string) outbox.Message {
	return outbox.Message{
		Topic:   "shop.order.placed.v1",
		Key:     customer,
		Payload: fmt.Appendf(nil, `{"customer":%q}`, customer),
	}
}
