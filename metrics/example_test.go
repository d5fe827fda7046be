package metrics_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/metrics"
	"github.com/go-outbox/outbox/relay"
	"github.com/go-outbox/outbox/store/memstore"
)

func Example() {
	m := metrics.New(metrics.Config{})
	store, err := memstore.New(memstore.Config{Table: "shop_outbox", Gate: outbox.Gate{Enqueued: m.Enqueued}})
	if err != nil {
		panic(err)
	}
	if err := m.Watch(store); err != nil {
		panic(err)
	}
	deliver := outbox.DispatcherFunc(func(context.Context, outbox.DispatchedMessage) error { return nil })
	r, err := relay.New(store, deliver, relay.Config{Hooks: m.Hooks()})
	if err != nil {
		panic(err)
	}
	admin := m.Admin(metrics.AdminConfig{}) // serve it on an address that only monitoring reaches

	ctx := context.Background()
	tx := store.Begin()
	if _, err := store.Enqueue(ctx, tx, outbox.Message{Topic: "shop.order.placed.v1", Payload: []byte(`{"order":1}`)}); err != nil {
		panic(err)
	}
	if err := tx.Commit(); err != nil {
		panic(err)
	}
	if _, err := r.PublishPending(ctx); err != nil {
		panic(err)
	}

	page := httptest.NewRecorder()
	admin.ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(page.Body.String()) {
		if strings.HasPrefix(line, "outbox_published_total") || strings.HasPrefix(line, "outbox_pending{") {
			fmt.Print(line)
		}
	}
	// Output:
	// outbox_pending{table="shop_outbox"} 0
	// outbox_published_total{table="shop_outbox",topic="shop.order.placed.v1"} 1
}
