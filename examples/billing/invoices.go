package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/inbox/pginbox"
	"github.com/go-outbox/outbox/sink/natssink"
)

// Nothing in the table keeps an order from being billed twice: that is the inbox's job.
const billingTables = `CREATE TABLE IF NOT EXISTS invoice (order_id uuid NOT NULL, total integer NOT NULL)`

type biller struct {
	pool *pgxpool.Pool
	box  *pginbox.Inbox
	log  *slog.Logger
}

func openBilling(ctx context.Context, dsn string, log *slog.Logger) (*biller, error) {
	pool, err := open(ctx, dsn, billingTables)
	if err != nil {
		return nil, err
	}
	box, err := pginbox.New(pool, pginbox.Config{})
	if err == nil {
		_, err = box.Migrate(ctx)
	}
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("billing inbox: %w", err)
	}
	return &biller{pool, box, log}, nil
}

// runInvoices bills orders until it is stopped. Any number may run.
func runInvoices(ctx context.Context, s settings, log *slog.Logger) error {
	b, err := openBilling(ctx, s.billing, log)
	if err != nil {
		return err
	}
	defer b.pool.Close()
	conn, stream, err := openStream(ctx, s.nats)
	if err != nil {
		return err
	}
	defer conn.Close()
	consumer, err := stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: "billing", AckWait: 2 * time.Second, MaxAckPending: 1000,
	})
	if err != nil {
		return fmt.Errorf("make consumer: %w", err)
	}
	deliveries, err := consumer.Consume(func(msg jetstream.Msg) { b.receive(ctx, msg) }, jetstream.PullMaxMessages(100))
	if err != nil {
		return fmt.Errorf("consume: %w", err)
	}
	<-ctx.Done()
	deliveries.Stop()
	<-deliveries.Closed()
	return nil
}

// receive acknowledges after the commit, and only then. What fails comes again; what can
// never succeed does not.
func (b *biller) receive(ctx context.Context, msg jetstream.Msg) {
	event, err := natssink.Parse(msg)
	if err == nil {
		err = b.bill(ctx, event)
	} else {
		err = outbox.Permanent(err)
	}
	settle := msg.Ack
	switch {
	case outbox.IsPermanent(err):
		b.log.Error("event refused", slog.Any("err", err))
		settle = msg.Term
	case err != nil:
		b.log.Warn("event failed; it comes again", slog.Any("err", err))
		settle = func() error { return msg.NakWithDelay(100 * time.Millisecond) }
	}
	if err := settle(); err != nil {
		b.log.Warn("not acknowledged; it comes again", slog.Any("err", err))
	}
}

// bill writes an invoice, once for every event.
func (b *biller) bill(ctx context.Context, event outbox.DispatchedMessage) error {
	var order orderPlaced
	if err := json.Unmarshal(event.Payload, &order); err != nil {
		return outbox.Permanent(err)
	}
	return pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		_, err := b.box.Once(ctx, tx, "billing", event.Meta.EventID, func() error {
			_, err := tx.Exec(ctx, `INSERT INTO invoice VALUES ($1, $2)`, order.Order, order.Total)
			return err
		})
		return err
	})
}
