package sqlcdb

import "context"

const createOrder = `-- name: CreateOrder :exec
INSERT INTO orders (customer) VALUES (?)
`

func (q *Queries) CreateOrder(ctx context.Context, customer string) error {
	_, err := q.db.ExecContext(ctx, createOrder, customer)
	return err
}
