// Command billing is an order service and a billing service that share nothing but events:
//
//	orders    writes orders and their events to the shop's PostgreSQL
//	relay     moves the events to NATS JetStream
//	invoices  bills each order in a PostgreSQL of its own, once
//
// Kill any of them at any time, as often as you like: when the dust has settled, the
// invoices add up to the orders. The test does that.
//
//	SHOP_URL=postgres://localhost/shop BILLING_URL=postgres://localhost/billing \
//	NATS_URL=nats://localhost:4222 go run ./examples/billing orders|relay|invoices
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	err := run(ctx, os.Args[1:], log)
	stop()
	if err != nil {
		log.Error("failed", slog.Any("err", err))
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, log *slog.Logger) error {
	if len(args) != 1 {
		return errors.New("usage: billing orders|relay|invoices")
	}
	role := map[string]func(context.Context, settings, *slog.Logger) error{
		"orders": runOrders, "relay": runRelay, "invoices": runInvoices,
	}[args[0]]
	if role == nil {
		return fmt.Errorf("no role %q", args[0])
	}
	s := settings{shop: os.Getenv("SHOP_URL"), billing: os.Getenv("BILLING_URL"), nats: os.Getenv("NATS_URL")}
	var err error
	if lease := os.Getenv("LEASE"); lease != "" {
		if s.lease, err = time.ParseDuration(lease); err != nil {
			return fmt.Errorf("LEASE: %w", err)
		}
	}
	return role(ctx, s, log)
}

type settings struct {
	shop, billing, nats string
	lease               time.Duration // how long a killed relay's work waits; 0 is the default
}

// open connects to a database and creates its business tables.
func open(ctx context.Context, dsn, tables string) (*pgxpool.Pool, error) {
	if dsn == "" {
		return nil, errors.New("set SHOP_URL, BILLING_URL and NATS_URL")
	}
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	if _, err := pool.Exec(ctx, tables); err != nil {
		pool.Close()
		return nil, fmt.Errorf("create tables: %w", err)
	}
	return pool, nil
}
