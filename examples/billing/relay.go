package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/go-outbox/outbox/relay"
	"github.com/go-outbox/outbox/sink/natssink"
)

// runRelay moves events from the shop's outbox to NATS. Any number may run; one works, the
// others stand by.
func runRelay(ctx context.Context, s settings, log *slog.Logger) error {
	pool, store, err := openShop(ctx, s.shop)
	if err != nil {
		return err
	}
	defer pool.Close()
	conn, _, err := openStream(ctx, s.nats)
	if err != nil {
		return err
	}
	defer conn.Close()
	sink, err := natssink.New(conn, natssink.Config{})
	if err != nil {
		return err
	}
	defer sink.Close()
	r, err := relay.New(store, sink, relay.Config{Lease: s.lease, Poll: 100 * time.Millisecond, Log: log})
	if err != nil {
		return err
	}
	return r.Run(ctx)
}

// openStream connects to NATS and makes the stream of the shop's events. Its window for
// duplicates is as short as can be: this example shows what the inbox does.
func openStream(ctx context.Context, url string) (*nats.Conn, jetstream.Stream, error) {
	conn, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		return nil, nil, fmt.Errorf("connect: %w", err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	stream, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: "SHOP", Subjects: []string{"shop.>"}, Duplicates: 100 * time.Millisecond,
	})
	if err != nil {
		conn.Close()
		return nil, nil, errors.Join(errors.New("make stream"), err)
	}
	return conn, stream, nil
}
