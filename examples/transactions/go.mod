module github.com/go-outbox/outbox/examples/transactions

go 1.26.0

require (
	entgo.io/ent v0.14.6
	github.com/go-outbox/outbox v0.0.0
	github.com/jackc/pgx/v5 v5.11.0
	github.com/jmoiron/sqlx v1.4.0
	github.com/uptrace/bun v1.3.0
	github.com/uptrace/bun/dialect/sqlitedialect v1.3.0
	modernc.org/sqlite v1.60.1
)

replace github.com/go-outbox/outbox => ../..
