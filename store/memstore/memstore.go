// Package memstore is an outbox store in memory, for tests, examples and programs
// that can afford to lose their events.
//
// It keeps the whole contract of a store: transactions with savepoints, sequences
// that are given out before they are committed, leases, fencing, crash accounting,
// shards, replays. It works inside a testing/synctest bubble, so that an engine can
// be tested on it with virtual time.
//
// It is not durable: what is in it ends with the process. And its transactions cover
// the outbox only; there is no business row that they could be atomic with.
package memstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/bulk"
)

var (
	_ outbox.Store     = (*Store)(nil)
	_ outbox.Fleet     = (*Store)(nil)
	_ outbox.Purger    = (*Store)(nil)
	_ outbox.Inspector = (*Store)(nil)
	_ outbox.Operator  = (*Store)(nil)
	_ outbox.Recorder  = (*Store)(nil)
)

// Config describes a Store. The zero value is ready to use.
type Config struct {
	// Table names the store. Defaults to "outbox".
	Table string
	// Gate admits messages.
	Gate outbox.Gate
	// Shards is the initial number of shards, 1 to 256. Defaults to 1.
	Shards int
	// Gapless makes writers wait for one another, as in SQLite: sequence order
	// is then commit order. Otherwise transactions run side by side, as in
	// PostgreSQL, and a lower sequence may become visible after a higher one.
	Gapless bool
}

// A Store is an outbox table in memory. Make it with New. It is safe for concurrent
// use.
type Store struct {
	cfg  Config
	turn chan struct{} // held by the one writer of a gapless store

	// mu guards everything below. It is held for short computations only, never
	// while waiting: a goroutine that waits for a mutex stops virtual time.
	mu       sync.Mutex
	clock    clock
	sequence int64
	next     uint64 // the next transaction's number
	running  map[uint64]*Tx
	events   map[uuid.UUID]*row // committed or not
	indexes
	leases  []*leaseRow
	members map[string]member
	paused  map[string]outbox.PausedRoute
	audit   []outbox.AuditEntry
	jobs    []*bulk.Job
}

// New makes an empty store.
func New(cfg Config) (*Store, error) {
	if cfg.Table == "" {
		cfg.Table = "outbox"
	}
	if cfg.Shards == 0 {
		cfg.Shards = 1
	}
	if err := checkShards(cfg.Shards); err != nil {
		return nil, fmt.Errorf("new memory store: %w", err)
	}
	return &Store{
		cfg:     cfg,
		turn:    make(chan struct{}, 1),
		next:    1,
		running: make(map[uint64]*Tx),
		events:  make(map[uuid.UUID]*row),
		indexes: newIndexes(),
		leases:  newLeases(cfg.Shards),
		members: make(map[string]member),
		paused:  make(map[string]outbox.PausedRoute),
	}, nil
}

// Table names the store.
func (s *Store) Table() string { return s.cfg.Table }

// clock is the database's clock. It has microseconds, as databases have, and under
// virtual time it can stand still.
type clock struct{ floor time.Time }

func (c *clock) now() time.Time {
	now := time.Now().UTC().Truncate(time.Microsecond)
	if now.Before(c.floor) {
		return c.floor
	}
	return now
}

// after is now, or the first instant later than t. It pushes a clock that stands
// still, so that what is available "now, but after t" is so for the next read.
func (c *clock) after(now, t time.Time) time.Time {
	if now.After(t) {
		return now
	}
	c.floor = t.Add(time.Microsecond)
	return c.floor
}

// enter locks the store for an operation, unless ctx has ended.
func (s *Store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	s.mu.Lock()
	return nil
}

var errTxDone = errors.New("transaction has already been committed or rolled back")
