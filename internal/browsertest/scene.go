package browsertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/relay"
	"github.com/go-outbox/outbox/sink"
)

// A Table is a store that a scene is built in.
type Table struct {
	Store interface {
		outbox.Store
		outbox.Inspector
		outbox.Operator
	}
	Enqueue func(context.Context, []outbox.Message) error
}

// A Scene is a shop in trouble, with a relay at work. Stop it.
type Scene struct {
	Table Table
	// Mended makes every destination work.
	Mended atomic.Bool

	relay   *relay.Relay
	cancel  context.CancelFunc
	group   sync.WaitGroup
	started chan error
}

// What the destinations say while they are in trouble.
var (
	errInvoice   = errors.New("422 Unprocessable Entity: total must be a number, line 14")
	errWarehouse = errors.New("dial tcp 10.4.0.17:443: connect: connection refused")
	errCustomer  = errors.New("409 Conflict: customer 8841 is locked by import 77, try again later")
	errStock     = errors.New("400 Bad Request: warehouse 3 does not know sku 308")
	errGateway   = errors.New("502 Bad Gateway: billing-api: upstream connect error")
)

// Start enqueues the shop's messages and relays them until everything has found its
// place: published, dead, waiting for a retry, or held behind a dead one.
func Start(ctx context.Context, table Table) (*Scene, error) {
	s := &Scene{Table: table}
	router, err := sink.NewRouter(
		sink.Route{Name: "orders", Topics: []string{"shop.order.**"}, Sink: outbox.DispatcherFunc(s.orders)},
		sink.Route{Name: "billing", Topics: []string{"billing.**"}, Sink: outbox.DispatcherFunc(s.billing)},
		sink.Route{Name: "warehouse", Topics: []string{"shop.shipment.**"}, Sink: outbox.DispatcherFunc(s.warehouse)},
		sink.Route{Name: "crm", Topics: []string{"shop.customer.**"}, Sink: outbox.DispatcherFunc(s.customers)},
		sink.Route{Name: "stock", Topics: []string{"shop.stock.**"}, Sink: outbox.DispatcherFunc(s.stock)},
	)
	if err != nil {
		return nil, err
	}
	s.relay, err = relay.New(table.Store, router, relay.Config{
		Instance: "relay-eu-1-7d9c", Version: "v0.1.0", Poll: 100 * time.Millisecond, Lease: 3 * time.Second,
		Retries: outbox.Retries{
			Default: outbox.RetryPolicy{MaxAttempts: 3, Base: 20 * time.Millisecond, Max: 20 * time.Millisecond, Jitter: -1},
			Rules:   []outbox.RetryRule{{Pattern: "shop.customer.**", Policy: outbox.RetryPolicy{Base: 10 * time.Minute, Max: time.Hour}}},
		},
	})
	if err != nil {
		return nil, err
	}
	if err := table.Enqueue(ctx, shopMessages()); err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel = cancel
	s.started = make(chan error, 1)
	s.group.Go(func() { s.started <- s.relay.Run(running) })
	err = s.settle(ctx)
	return s, err
}

// settle waits until nothing moves any more.
func (s *Scene) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 20*time.Second, errors.New("not after 20s"))
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var stats outbox.Stats
	for {
		seen, err := s.Table.Store.Stats(ctx)
		if err != nil {
			return fmt.Errorf("the scene does not settle: %+v: %w", stats, err)
		}
		stats = seen
		if stats.Dead == Dead && stats.InFlight == 0 && stats.Retrying >= 6 && len(stats.Relays) > 0 && len(stats.Relays[0].Note.Circuits) > 0 {
			return nil
		}
		select {
		case <-tick.C:
		case err := <-s.started:
			return err
		case <-ctx.Done():
			return fmt.Errorf("the scene does not settle: %+v: %w", stats, context.Cause(ctx))
		}
	}
}

// Trade goes on enqueueing for some rounds: orders that arrive, shipments that wait and
// now and then an invoice that dies.
func (s *Scene) Trade(ctx context.Context, rounds int, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for i := range rounds {
		var more []outbox.Message
		add := func(topic, key string) {
			more = append(more, outbox.Message{Topic: topic, Key: fmt.Sprintf("%s-%d", key, 9000+i), TenantID: "acme", Payload: []byte(`{"more":true}`)})
		}
		for range 3 + i%3 {
			add("shop.order.placed.v1", "order")
		}
		if i%5 != 4 {
			add("shop.shipment.requested.v1", "order")
		}
		if i%11 == 7 {
			add("billing.invoice.issued.v1", "invoice")
		}
		if err := s.Table.Enqueue(ctx, more); err != nil {
			return err
		}
		s.relay.Wake()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// Stop ends the relay and waits for it.
func (s *Scene) Stop() {
	s.cancel()
	s.group.Wait()
}

func (s *Scene) orders(context.Context, outbox.DispatchedMessage) error { return nil }

func (s *Scene) billing(_ context.Context, m outbox.DispatchedMessage) error {
	switch {
	case s.Mended.Load():
		return nil
	case m.Meta.EventID == DeadInvoice && m.Meta.Attempts < 3:
		return errGateway
	case m.Meta.Topic == "billing.invoice.issued.v1":
		return outbox.Permanent(errInvoice)
	}
	return nil
}

func (s *Scene) warehouse(context.Context, outbox.DispatchedMessage) error {
	if s.Mended.Load() {
		return nil
	}
	return outbox.Unavailable(errWarehouse)
}

func (s *Scene) customers(context.Context, outbox.DispatchedMessage) error {
	if s.Mended.Load() {
		return nil
	}
	return errCustomer
}

func (s *Scene) stock(context.Context, outbox.DispatchedMessage) error {
	if s.Mended.Load() {
		return nil
	}
	return outbox.Permanent(errStock)
}

// Counts of the scene.
const (
	Invoices  = 37
	Stock     = 12
	Unrouted  = 3
	Dead      = Invoices + Stock + Unrouted
	followers = 4
)

// DeadInvoice is the id of a dead message whose key others wait for.
var DeadInvoice = uuid.MustParse("019a8a10-7f3c-7b42-9d11-5e2f0c6b8a01")

func shopMessages() []outbox.Message {
	var all []outbox.Message
	add := func(topic, key, tenant string, body map[string]any) *outbox.Message {
		payload, _ := json.Marshal(body) // a map of plain values
		all = append(all, outbox.Message{
			Topic: topic, Key: key, TenantID: tenant, Payload: payload,
			Headers: map[string]string{"source": "shop-api", "schema": "https://schemas.example/" + topic},
		})
		return &all[len(all)-1]
	}
	tenants := []string{"acme", "globex", "initech"}
	for i := range 160 {
		add("shop.order.placed.v1", fmt.Sprintf("order-%d", 1000+i), tenants[i%3], map[string]any{"order": 1000 + i, "total": 1999})
		if i%2 == 0 {
			add("shop.order.paid.v1", fmt.Sprintf("order-%d", 1000+i), tenants[i%3], map[string]any{"order": 1000 + i, "method": "card"})
		}
	}
	for i := range Invoices {
		m := add("billing.invoice.issued.v1", fmt.Sprintf("invoice-%d", 5200+i), tenants[i%3], map[string]any{
			"invoice": 5200 + i, "customer": map[string]any{"id": 8800 + i, "email": "kim@example.com"}, "total": "1999", "currency": "EUR",
		})
		if i == 0 {
			m.EventID, m.TraceParent = DeadInvoice, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
		}
	}
	for i := range followers {
		add("billing.invoice.paid.v1", "invoice-5200", "acme", map[string]any{"invoice": 5200, "part": i})
	}
	for i := range Stock {
		add("shop.stock.reserved.v1", fmt.Sprintf("sku-%d", 300+i), tenants[i%3], map[string]any{"sku": 300 + i, "pieces": 2})
	}
	for i := range Unrouted {
		add("legacy.price.changed.v1", "", "acme", map[string]any{"sku": 300 + i})
	}
	for i := range 24 {
		add("shop.shipment.requested.v1", fmt.Sprintf("order-%d", 1000+i), tenants[i%3], map[string]any{"order": 1000 + i})
	}
	for i := range 6 {
		add("shop.customer.updated.v1", fmt.Sprintf("customer-%d", 8841+i), tenants[i%3], map[string]any{"customer": 8841 + i})
	}
	for i := range 5 {
		m := add("shop.order.reminder.v1", fmt.Sprintf("order-%d", 1100+i), tenants[i%3], map[string]any{"order": 1100 + i})
		m.AvailableAt = time.Now().Add(6 * time.Hour)
	}
	return all
}
