package inbox_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	_ "modernc.org/sqlite"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/contract"
	"github.com/go-outbox/outbox/inbox"
	"github.com/go-outbox/outbox/relay"
	"github.com/go-outbox/outbox/sink/webhooksink"
	"github.com/go-outbox/outbox/store/sqlitestore"
	"github.com/go-outbox/outbox/webhook"
)

// Billing is a consumer: a database, an inbox in it, and a handler that knows the newest
// version of an event only.
type Billing struct {
	db        *sql.DB
	box       *inbox.Inbox
	upcasters contract.Upcasters
}

func NewBilling(ctx context.Context, db *sql.DB) (*Billing, error) {
	box, err := inbox.New(db, inbox.SQLite, inbox.Config{})
	if err != nil {
		return nil, err
	}
	if _, err := box.Migrate(ctx); err != nil {
		return nil, err
	}
	b := &Billing{db: db, box: box}
	return b, b.upcasters.Add("shop.order.placed.v1", centsFromEuros)
}

// centsFromEuros lifts {"total": 12} to the {"cents": 1200} of version 2.
func centsFromEuros(payload []byte) ([]byte, error) {
	var v1 struct{ Total int }
	if err := json.Unmarshal(payload, &v1); err != nil {
		return nil, err
	}
	return json.Marshal(map[string]int{"cents": 100 * v1.Total})
}

// Handle has its effect once, however often the event is delivered. A nil error means that
// it may be acknowledged.
func (b *Billing) Handle(ctx context.Context, msg outbox.DispatchedMessage) error {
	event, err := b.upcasters.Upcast(msg.Meta.Topic, msg.Meta.EventVersion, msg.Payload)
	if err != nil {
		return outbox.Permanent(err)
	}
	var placed struct{ Cents int }
	if err := json.Unmarshal(event.Payload, &placed); err != nil {
		return outbox.Permanent(err)
	}

	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	_, err = b.box.Once(ctx, tx, "billing", msg.Meta.EventID, func() error {
		_, err := tx.ExecContext(ctx, `INSERT INTO invoice (cents) VALUES (?)`, placed.Cents)
		return err
	})
	if err != nil {
		return err
	}
	return tx.Commit()
}

// An event goes from a table through the relay and a signed webhook to a consumer that
// handles it once, lifted to the version that it knows.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "inbox")
	check(err)
	defer os.RemoveAll(dir)
	shop, billing := database(dir, "shop.db"), database(dir, "billing.db")
	defer shop.Close()
	defer billing.Close()
	_, err = billing.ExecContext(ctx, `CREATE TABLE invoice (cents integer)`)
	check(err)

	// The consumer.
	consumer, err := NewBilling(ctx, billing)
	check(err)
	secret := webhook.NewSecret()
	verifier, err := webhook.NewVerifier(webhook.Config{Secrets: []webhook.Secret{secret}})
	check(err)
	server := httptest.NewServer(verifier.Receive(consumer.Handle))
	defer server.Close()

	// The producer.
	store, err := sqlitestore.New(shop, sqlitestore.Config{Table: "shop_outbox"})
	check(err)
	_, err = store.Migrate(ctx)
	check(err)
	for _, m := range []outbox.Message{
		{Topic: "shop.order.placed.v1", Payload: []byte(`{"total": 12}`)},
		{Topic: "shop.order.placed.v2", Payload: []byte(`{"cents": 999}`)},
	} {
		_, err = store.EnqueueAutocommit(ctx, m)
		check(err)
	}

	// The relay, with a network that delivers everything twice.
	sink, err := webhooksink.New(local(server.URL, secret))
	check(err)
	defer sink.Close()
	twice := outbox.DispatcherFunc(func(ctx context.Context, msg outbox.DispatchedMessage) error {
		if err := sink.Dispatch(ctx, msg); err != nil {
			return err
		}
		return sink.Dispatch(ctx, msg)
	})
	r, err := relay.New(store, twice, relay.Config{})
	check(err)
	published, err := r.PublishPending(ctx)
	check(err)

	var invoices, cents int
	check(billing.QueryRowContext(ctx, `SELECT count(*), sum(cents) FROM invoice`).Scan(&invoices, &cents))
	fmt.Printf("%d events published, %d invoices of %d cents\n", published, invoices, cents)
	// Output: 2 events published, 2 invoices of 2199 cents
}

func database(dir, name string) *sql.DB {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, name)+"?_txlock=immediate&_pragma=busy_timeout(10000)")
	check(err)
	return db
}

// local allows the sink to post to this machine.
func local(address string, secret webhook.Secret) webhooksink.Config {
	u, err := url.Parse(address)
	check(err)
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	check(err)
	return webhooksink.Config{
		URL: address, Secrets: []webhook.Secret{secret},
		Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Ports: []uint16{uint16(port)},
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
