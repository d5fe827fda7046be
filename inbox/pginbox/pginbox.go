// Package pginbox is package inbox for pgx: it makes the effect of an event happen once,
// in the consumer's own pgx transaction. What the inbox guarantees, and what it does not,
// is in the comment of package inbox.
package pginbox

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/inbox"
	"github.com/go-outbox/outbox/inbox/internal/mark"
)

// Config configures an Inbox. The zero value works.
type Config = inbox.Config

// An Inbox records which events were handled. Create it with New; the zero value is not
// usable. It is safe for concurrent use.
type Inbox struct {
	pool *pgxpool.Pool
	cfg  Config
	sql  mark.Statements
}

// New makes an inbox. It does no I/O; pool is what Migrate, CheckSchema and Clean use.
func New(pool *pgxpool.Pool, cfg Config) (*Inbox, error) {
	if pool == nil {
		return nil, outbox.ErrInvalidConfig.With("pool", "is nil")
	}
	if cfg.Table == "" {
		cfg.Table = mark.DefaultTable
	}
	statements, _, err := mark.Load(string(inbox.PostgreSQL), cfg.Table)
	if err != nil {
		return nil, err
	}
	return &Inbox{pool: pool, cfg: cfg, sql: statements}, nil
}

// Once calls fn, unless consumer has handled event before, and reports whether it did.
// fn makes its changes in tx. Neither happens before the caller commits tx; acknowledge
// the delivery after that, and also when Once returned false and nil.
//
// When fn fails or panics, Once rolls tx back, so that the mark cannot be committed
// without the effect, and returns fn's error or goes on panicking. In a nested
// transaction that is back to its savepoint. An error of the database that comes before
// fn leaves tx to the caller, to roll back. Either way the delivery is not to be
// acknowledged: it comes again.
//
// Call it first in tx. Concurrent deliveries of one event wait in it for each other, and
// a transaction that has locked other rows by then may deadlock, as with any lock. Under
// REPEATABLE READ and SERIALIZABLE the one that waited fails with 40001 instead of being
// skipped, and is skipped when it comes again.
func (b *Inbox) Once(ctx context.Context, tx pgx.Tx, consumer string, event uuid.UUID, fn func() error) (bool, error) {
	if err := mark.Check(consumer, event); err != nil {
		return false, err
	}
	tag, err := tx.Exec(ctx, b.sql.Mark, consumer, event.String())
	if err != nil {
		return false, fmt.Errorf("mark event %s: %w", event, err)
	}
	if tag.RowsAffected() == 0 {
		return false, nil
	}
	err = mark.Effect(rollback(ctx, tx), fn)
	return err == nil, err
}

// OnceMany is Once for several events in one transaction and one statement: fn is called
// with those that consumer has not handled yet, each once and in the order given, and not
// at all when there are none. It returns how many there were. The marks of all are made
// before fn runs, and all are undone when it fails.
func (b *Inbox) OnceMany(ctx context.Context, tx pgx.Tx, consumer string, events []uuid.UUID, fn func(fresh []uuid.UUID) error) (int, error) {
	if err := mark.Check(consumer, events...); err != nil {
		return 0, err
	}
	if len(events) == 0 {
		return 0, nil
	}
	fresh, err := b.markMany(ctx, tx, consumer, mark.Sorted(events))
	if err != nil {
		return 0, fmt.Errorf("mark %d events: %w", len(events), err)
	}
	if len(fresh) == 0 {
		return 0, nil
	}
	fresh = mark.InOrder(events, fresh)
	if err := mark.Effect(rollback(ctx, tx), func() error { return fn(fresh) }); err != nil {
		return 0, err
	}
	return len(fresh), nil
}

func (b *Inbox) markMany(ctx context.Context, tx pgx.Tx, consumer string, events []uuid.UUID) ([]uuid.UUID, error) {
	rows, err := tx.Query(ctx, b.sql.MarkMany, consumer, mark.Array(events))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (id uuid.UUID, err error) {
		var text string
		if err := row.Scan(&text); err != nil {
			return id, err
		}
		return uuid.Parse(text)
	})
}

// rollback ends tx. When ctx has ended, pgx closes the connection, which ends it, too.
func rollback(ctx context.Context, tx pgx.Tx) func() error {
	return func() error { return tx.Rollback(ctx) }
}

// Clean deletes the marks that are older than retention; see [inbox.Inbox.Clean].
func (b *Inbox) Clean(ctx context.Context, retention time.Duration) (n int64, err error) {
	err = b.plain(func(p *inbox.Inbox) error { n, err = p.Clean(ctx, retention); return err })
	return n, err
}

// Migrate creates the inbox or brings it to this program's version, and returns the
// versions it applied. Any number of processes may call it at once.
func (b *Inbox) Migrate(ctx context.Context) (applied []int, err error) {
	err = b.plain(func(p *inbox.Inbox) error { applied, err = p.Migrate(ctx); return err })
	return applied, err
}

// PrintMigrations writes the statements that lead from one version to another as sql or
// goose; see [inbox.Inbox.PrintMigrations].
func (b *Inbox) PrintMigrations(w io.Writer, format string, from, to int) error {
	return b.plain(func(p *inbox.Inbox) error { return p.PrintMigrations(w, format, from, to) })
}

// LatestMigration is the version that this program was built with.
func (b *Inbox) LatestMigration() (version int) {
	// The name was checked in New, and nothing else can fail.
	_ = b.plain(func(p *inbox.Inbox) error { version = p.LatestMigration(); return nil })
	return version
}

// CheckSchema returns ErrSchema unless the inbox has the version that this program was
// built with. Call it at start: without the table every delivery fails.
func (b *Inbox) CheckSchema(ctx context.Context) error {
	return b.plain(func(p *inbox.Inbox) error { return p.CheckSchema(ctx) })
}

// plain calls fn with the same inbox over database/sql, for what needs no transaction of
// the caller. The handle has a goroutine, so it lives only that long; its connections are
// the pool's.
func (b *Inbox) plain(fn func(*inbox.Inbox) error) error {
	db := stdlib.OpenDBFromPool(b.pool)
	defer db.Close()
	p, err := inbox.New(db, inbox.PostgreSQL, b.cfg)
	if err != nil {
		return err
	}
	return fn(p)
}
