package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A Database runs transactions that travel in the context, so that the services of
// several modules can take part in one without knowing each other.
type Database struct{ pool *pgxpool.Pool }

type txKey struct{}

var errNoTx = errors.New("no transaction in context: call it inside Database.InTx")

// InTx runs fn in a transaction: the caller's if ctx carries one, its own otherwise.
// It commits when fn returns nil and rolls back when it fails or panics.
func (d *Database) InTx(ctx context.Context, fn func(context.Context) error) error {
	if _, err := txFrom(ctx); err == nil {
		return fn(ctx)
	}
	return pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		return fn(context.WithValue(ctx, txKey{}, tx))
	})
}

// txFrom returns the transaction of ctx. There is no fallback to the pool: an event
// written outside of its business transaction is the bug that an outbox prevents.
func txFrom(ctx context.Context) (pgx.Tx, error) {
	tx, ok := ctx.Value(txKey{}).(pgx.Tx)
	if !ok {
		return nil, errNoTx
	}
	return tx, nil
}

func createBusinessTables(ctx context.Context, pool *pgxpool.Pool) error {
	_, err := pool.Exec(ctx, `
		CREATE TABLE IF NOT EXISTS department (name text PRIMARY KEY, headcount int NOT NULL DEFAULT 0);
		CREATE TABLE IF NOT EXISTS employee (name text PRIMARY KEY, department text NOT NULL);
		CREATE TABLE IF NOT EXISTS onboarding (department text PRIMARY KEY);
		CREATE TABLE IF NOT EXISTS seen_event (event_id uuid PRIMARY KEY)`)
	if err != nil {
		return fmt.Errorf("create business tables: %w", err)
	}
	return nil
}
