package mysqlstore

import (
	"context"
	"sync"

	"github.com/go-outbox/outbox"
)

// A Publisher enqueues into any number of tables, for applications that name the table
// with each call. Make it with NewPublisher; it is safe for concurrent use. With one
// table, Store.Enqueue is the shorter way.
type Publisher struct {
	gate   outbox.Gate
	stores sync.Map // string → *Store
}

// PublisherConfig configures a Publisher.
type PublisherConfig struct {
	// Gate admits messages before any SQL.
	Gate outbox.Gate
}

// NewPublisher makes a publisher.
func NewPublisher(cfg PublisherConfig) *Publisher { return &Publisher{gate: cfg.Gate} }

// Enqueue writes msg into table, `name` or `database.name`, in tx and returns its
// sequence. See Store.Enqueue.
func (p *Publisher) Enqueue(ctx context.Context, tx Tx, table string, msg outbox.Message) (sequence int64, err error) {
	s, err := p.store(table)
	if err != nil {
		return 0, err
	}
	return s.Enqueue(ctx, tx, msg)
}

// store renders the statements of a table once. It never uses a connection of its own.
func (p *Publisher) store(table string) (*Store, error) {
	if s, ok := p.stores.Load(table); ok {
		return s.(*Store), nil
	}
	if table == "" {
		return nil, outbox.ErrInvalidTable.With("table", "is required")
	}
	s, err := newStore(Config{Table: table, Gate: p.gate})
	if err != nil {
		return nil, err
	}
	kept, _ := p.stores.LoadOrStore(table, s)
	return kept.(*Store), nil
}
