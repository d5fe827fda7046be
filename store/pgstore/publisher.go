package pgstore

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/go-outbox/outbox"
)

// A Publisher enqueues into any number of tables, for applications that name the
// table with each call. Make it with NewPublisher; it is safe for concurrent use.
// With one table, Store.Enqueue is the shorter way.
type Publisher struct {
	gate   outbox.Gate
	stores sync.Map // string → *Store
}

// PublisherConfig configures a Publisher.
type PublisherConfig struct {
	// Gate validates messages before SQL.
	Gate outbox.Gate
}

// NewPublisher makes a publisher.
func NewPublisher(cfg PublisherConfig) *Publisher { return &Publisher{gate: cfg.Gate} }

// Enqueue writes msg into table in tx and returns its sequence. The table is
// {name} or {schema, name}; the schema defaults to public. See Store.Enqueue.
func (p *Publisher) Enqueue(ctx context.Context, tx pgx.Tx, table pgx.Identifier, msg outbox.Message) (sequence int64, err error) {
	s, err := p.store(table)
	if err != nil {
		return 0, err
	}
	return s.enqueue(ctx, tx, msg)
}

// store renders the statements of a table once.
func (p *Publisher) store(table pgx.Identifier) (*Store, error) {
	if len(table) < 1 || len(table) > 2 {
		return nil, outbox.ErrInvalidTable.With("table", fmt.Sprintf("%q: want {name} or {schema, name}", []string(table)))
	}
	key := strings.Join(table, ".")
	if s, ok := p.stores.Load(key); ok {
		return s.(*Store), nil
	}
	n, err := parseName(key)
	if err != nil {
		return nil, err
	}
	base, err := newLayout(n, traits{payload: JSON})
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: Config{Table: key, Gate: p.gate, Payload: JSON}, name: n, mode: pgx.QueryExecModeCacheDescribe, base: base}
	kept, _ := p.stores.LoadOrStore(key, s)
	return kept.(*Store), nil
}
