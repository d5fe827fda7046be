// Command gorm-service is a service on GORM with SQLite or MariaDB: it keeps archives,
// and publishes what happens to them through an EventPublisher that the application
// injects.
//
// It shows how events are enqueued in GORM's transaction, how a TopicMapper names their
// topics, how a publisher of the form Publish(ctx, topic, data) becomes the dispatcher,
// how a configuration of scheduler and publisher is read from YAML, how the outbox of
// one tenant is looked at, and how it all starts and stops.
//
//	go run ./examples/gorm-service                       # SQLite, in archive.db
//	ARCHIVE_MYSQL='app:secret@tcp(localhost:3306)/archive' go run ./examples/gorm-service
package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-outbox/outbox/config"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	err := run(ctx, os.Getenv("ARCHIVE_MYSQL"), log)
	stop()
	if err != nil {
		log.Error("service failed", slog.Any("err", err))
		os.Exit(1)
	}
}

func run(ctx context.Context, dsn string, log *slog.Logger) (err error) {
	cfg, err := config.Load(config.Sources{Env: os.LookupEnv, File: "examples/gorm-service/outbox.yaml"})
	if err != nil {
		return err
	}
	db, err := openDatabase(ctx, dsn, "archive.db")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()

	svc, err := newService(db, cfg, logPublisher{log}, log)
	if err != nil {
		return err
	}
	if err := svc.Start(ctx); err != nil {
		return err
	}
	if err := svc.CreateArchive(ctx, "acme", "A-1", "Fire in the warehouse"); err != nil {
		log.Warn("no archive was created", slog.Any("err", err)) // A-1 exists after the first run
	}
	<-ctx.Done()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return svc.Stop(drain)
}

// A logPublisher stands for the bus of the application.
type logPublisher struct{ log *slog.Logger }

func (p logPublisher) Publish(ctx context.Context, topic string, data []byte) error {
	p.log.InfoContext(ctx, "published", slog.String("topic", topic), slog.Int("bytes", len(data)))
	return nil
}
