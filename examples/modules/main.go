// Command modules is a service with two modules, org and hrm, on one PostgreSQL
// database. Each module has its own outbox table; one scheduler relays both.
//
// It shows how a module enqueues in the transaction of its business write (carried
// in the context, so that services compose), how a dispatcher routes by topic, and
// how relays and cleaners start and stop with the service.
//
//	DATABASE_URL=postgres://localhost/shop go run ./examples/modules
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
	err := run(ctx, os.Getenv("DATABASE_URL"), log)
	stop()
	if err != nil {
		log.Error("service failed", slog.Any("err", err))
		os.Exit(1)
	}
}

func run(ctx context.Context, dsn string, log *slog.Logger) error {
	if dsn == "" {
		return errors.New("set DATABASE_URL to a PostgreSQL database")
	}
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer pool.Close()

	svc, err := newService(ctx, pool, log)
	if err != nil {
		return err
	}
	if err := svc.Start(ctx); err != nil {
		return err
	}
	if err := svc.Hire(ctx, "Ada", "Engines"); err != nil {
		return err
	}
	<-ctx.Done()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return svc.Stop(drain)
}
