package pgstore_test

import (
	"encoding/json"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-outbox/outbox"
)

const topic = "shop.order.placed.v1"

func message(key string) outbox.Message {
	return outbox.Message{Topic: topic, Key: key, Payload: json.RawMessage(`{"n":1}`)}
}

// read returns the fresh messages.
func read(t testing.TB, lease outbox.Lease) []*outbox.Record {
	t.Helper()
	page, err := lease.Read(t.Context(), outbox.ReadRequest{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return page.Fresh
}

func count(t testing.TB, pool *pgxpool.Pool, query string, args ...any) (n int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), query, append([]any{pgx.QueryExecModeCacheDescribe}, args...)...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}
