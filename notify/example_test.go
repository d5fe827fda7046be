package notify_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/metrics"
	"github.com/go-outbox/outbox/notify"
	"github.com/go-outbox/outbox/relay"
	"github.com/go-outbox/outbox/sink/webhooksink"
	"github.com/go-outbox/outbox/store/memstore"
	"github.com/go-outbox/outbox/webhook"
)

// Deaths go to a pager, signed, and to the log.
func Example() {
	secret := webhook.NewSecret() // share it with the pager
	m := metrics.New(metrics.Config{})
	deliver := outbox.DispatcherFunc(func(context.Context, outbox.DispatchedMessage) error { return nil })
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		panic(err)
	}

	pager, err := webhooksink.New(webhooksink.Config{URL: "https://pager.example.com/outbox", Secrets: []webhook.Secret{secret}})
	if err != nil {
		panic(err)
	}
	n, err := notify.New(notify.Config{To: pager, Log: slog.Default()})
	if err != nil {
		panic(err)
	}
	r, err := relay.New(store, deliver, relay.Config{Hooks: metrics.Chain(m.Hooks(), n.Hooks())})
	if err != nil {
		panic(err)
	}

	// In a daemon: n.Run beside r.Run, ended after it.
	if _, err := r.PublishPending(context.Background()); err != nil {
		panic(err)
	}
	if err := pager.Close(); err != nil {
		panic(err)
	}
	fmt.Println("relayed")
	// Output: relayed
}
