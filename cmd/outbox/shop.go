package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/eventbus"
	"github.com/go-outbox/outbox/sink/bussink"
	"github.com/go-outbox/outbox/store/sqlitestore"
)

const (
	shopTable   = "shop_outbox"
	placedTopic = "shop.order.placed.v1"
	customers   = 50
)

// An orderPlaced is the demo's event.
type orderPlaced struct {
	Order    int `json:"order"`
	Customer int `json:"customer"`
	Cents    int `json:"cents"`
}

// A shop is the demo's application: it sells, and its warehouse handles the events.
type shop struct {
	db    *sql.DB
	store *sqlitestore.Store
	sink  *bussink.Sink
	sold  func() // called after each commit
	dice  *rand.Rand

	warehouse warehouse
	sales     sales
}

// sales counts what the shop did.
type sales struct {
	mu                    sync.Mutex
	committed, rolledBack int
}

func openShop(ctx context.Context, path string) (_ *shop, err error) {
	db, err := sql.Open("sqlite", sqliteDSN(path, true))
	if err != nil {
		return nil, fmt.Errorf("open shop: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.Close())
		}
	}()
	store, err := sqlitestore.New(db, sqlitestore.Config{Table: shopTable})
	if err != nil {
		return nil, err
	}
	if _, err := store.Migrate(ctx); err != nil {
		return nil, err
	}
	const orders = `CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, cents INTEGER, event_id TEXT)`
	if _, err := db.ExecContext(ctx, orders); err != nil {
		return nil, fmt.Errorf("open shop: %w", err)
	}
	sh := &shop{
		db: db, store: store, sold: func() {},
		dice:      rand.New(rand.NewPCG(1, 2)), // the same shop every time
		warehouse: warehouse{got: make(map[uuid.UUID]int), last: make(map[int]int)},
	}
	err = sh.connect()
	return sh, err
}

// connect subscribes the warehouse to the events.
func (sh *shop) connect() error {
	bus := eventbus.New()
	if _, err := bus.Subscribe(sh.warehouse.handle); err != nil {
		return err
	}
	sh.sink = bussink.New(bus)
	return bussink.Register[orderPlaced](sh.sink, placedTopic)
}

func (sh *shop) close() { _ = sh.db.Close() } // the file is deleted next

// errChangedMind is why a transaction is rolled back.
var errChangedMind = errors.New("the customer changed their mind")

// sell places n orders, fewer if ctx ends. The one in the middle is poison: no
// warehouse can handle it.
func (sh *shop) sell(ctx context.Context, n int) error {
	for i := 0; i < n && ctx.Err() == nil; i++ {
		e := orderPlaced{Order: i + 1, Customer: sh.dice.IntN(customers), Cents: 100 + sh.dice.IntN(9900)}
		poison := i == n/2
		if poison {
			// A dead message holds the later ones of its key, so this
			// customer has no others.
			e.Customer, e.Cents = customers, -1
		}
		if err := sh.place(ctx, e, !poison && sh.dice.IntN(10) == 0); err != nil {
			return err
		}
		rest(ctx, demoPace)
	}
	return nil
}

// demoPace is between two orders. SQLite does not queue writers: one that never
// rests keeps the others waiting.
const demoPace = 300 * time.Microsecond

func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// sellSlowly goes on selling until ctx ends. Its numbers begin above all others.
func (sh *shop) sellSlowly(ctx context.Context) error {
	for i := 1_000_000_000; ; i++ {
		rest(ctx, 20*time.Millisecond)
		if ctx.Err() != nil {
			return nil
		}
		e := orderPlaced{Order: i, Customer: sh.dice.IntN(customers), Cents: 100 + sh.dice.IntN(9900)}
		if err := sh.place(ctx, e, sh.dice.IntN(10) == 0); err != nil {
			return err
		}
	}
}

// place writes an order and its event in one transaction: this is the pattern. It is
// not interrupted, so that the shop knows what it has sold.
func (sh *shop) place(ctx context.Context, e orderPlaced, changeMind bool) error {
	ctx = context.WithoutCancel(ctx)
	err := sh.inTx(ctx, func(tx *sql.Tx) error {
		payload, err := json.Marshal(e)
		if err != nil {
			return err
		}
		id, err := uuid.NewV7()
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO orders (id, customer, cents, event_id) VALUES (?, ?, ?, ?)`,
			e.Order, e.Customer, e.Cents, id.String())
		if err != nil {
			return err
		}
		_, err = sh.store.Enqueue(ctx, tx, outbox.Message{
			Topic: placedTopic, Key: fmt.Sprintf("customer-%d", e.Customer), EventID: id, Payload: payload,
		})
		if err == nil && changeMind {
			return errChangedMind
		}
		return err
	})

	sh.sales.mu.Lock()
	defer sh.sales.mu.Unlock()
	switch {
	case errors.Is(err, errChangedMind):
		sh.sales.rolledBack++
		return nil
	case err != nil:
		return fmt.Errorf("place order %d: %w", e.Order, err)
	}
	sh.sales.committed++
	sh.sold()
	return nil
}

func (sh *shop) inTx(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := sh.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // does nothing after the commit
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// awaitDelivery returns when nothing is pending any more.
func (sh *shop) awaitDelivery(ctx context.Context) error {
	deadline := time.NewTimer(demoPatience)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		stats, err := sh.store.Stats(ctx)
		if err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		if stats.Pending == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return fmt.Errorf("%d messages are not delivered after %s", stats.Pending, demoPatience)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// A warehouse handles events, badly at first.
type warehouse struct {
	mu         sync.Mutex
	got        map[uuid.UUID]int // deliveries by event
	last       map[int]int       // highest order by customer
	failures   int
	overtaken  int
	duplicates int
}

// handle is the event handler. It is idempotent, as every handler must be: an event
// it has already is counted and otherwise ignored.
func (w *warehouse) handle(meta *outbox.Meta, e *orderPlaced) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case e.Cents < 0:
		return outbox.Permanent(fmt.Errorf("order %d has a negative price", e.Order))
	case meta.Attempts == 1 && e.Order%20 == 13:
		w.failures++
		return errors.New("the warehouse is busy")
	}
	w.got[meta.EventID]++
	if w.got[meta.EventID] > 1 {
		w.duplicates++
		return nil
	}
	if e.Order < w.last[e.Customer] {
		w.overtaken++
	}
	w.last[e.Customer] = e.Order
	return nil
}

type progress struct{ committed, rolledBack, delivered, failures int }

func (sh *shop) progress() progress {
	sh.sales.mu.Lock()
	defer sh.sales.mu.Unlock()
	sh.warehouse.mu.Lock()
	defer sh.warehouse.mu.Unlock()
	return progress{sh.sales.committed, sh.sales.rolledBack, len(sh.warehouse.got), sh.warehouse.failures}
}

// audit compares three records that know nothing of each other: the orders table,
// what the warehouse got, and the dead messages. problems is what broke a promise.
func (sh *shop) audit(ctx context.Context) (b books, problems, err error) {
	dead, err := sh.dead(ctx)
	if err != nil {
		return books{}, nil, err
	}
	ordered, err := sh.ordered(ctx)
	if err != nil {
		return books{}, nil, err
	}
	p := sh.progress()
	w := &sh.warehouse
	b = books{
		Committed: len(ordered), RolledBack: p.rolledBack, Delivered: p.delivered,
		Duplicates: w.duplicates, Dead: len(dead),
	}
	for id := range ordered {
		if w.got[id] == 0 && !dead[id] {
			b.Lost++
		}
	}
	phantoms := 0
	for id := range w.got {
		if !ordered[id] {
			phantoms++
		}
	}
	return b, errors.Join(
		broken(b.Lost, "committed orders were lost"),
		broken(phantoms, "events were delivered whose order does not exist"),
		broken(w.overtaken, "events overtook an earlier one of their customer"),
		broken(p.committed-b.Committed, "orders were confirmed that do not exist"),
	), nil
}

func broken(n int, what string) error {
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%d %s", n, what)
}

func (sh *shop) ordered(ctx context.Context) (map[uuid.UUID]bool, error) {
	rows, err := sh.db.QueryContext(ctx, `SELECT event_id FROM orders`)
	if err != nil {
		return nil, fmt.Errorf("read orders: %w", err)
	}
	defer rows.Close()
	ids := make(map[uuid.UUID]bool)
	for rows.Next() {
		var id uuid.UUID
		if err := rows.Scan(&id); err != nil {
			return nil, fmt.Errorf("read orders: %w", err)
		}
		ids[id] = true
	}
	return ids, rows.Err()
}

func (sh *shop) dead(ctx context.Context) (map[uuid.UUID]bool, error) {
	ids := make(map[uuid.UUID]bool)
	for f := (outbox.Filter{Status: outbox.StatusDead}); ; {
		page, err := sh.store.List(ctx, f)
		if err != nil {
			return nil, fmt.Errorf("list dead messages: %w", err)
		}
		for _, r := range page.Records {
			ids[r.EventID] = true
		}
		if page.Next == 0 {
			return ids, nil
		}
		f.Before = page.Next
	}
}
