// Package vet is wrong on purpose.
package vet

import (
	"context"
	"database/sql"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/store/sqlitestore"
)

func ignored(ctx context.Context, store *sqlitestore.Store, tx *sql.Tx) {
	store.Enqueue(ctx, tx, outbox.Message{})
}
