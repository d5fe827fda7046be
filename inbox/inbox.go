package inbox

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/inbox/internal/mark"
	"github.com/go-outbox/outbox/internal/migrate"
)

// A Dialect is a kind of database.
type Dialect string

// The dialects. MySQL is MariaDB's, too.
const (
	PostgreSQL Dialect = "postgres"
	MySQL      Dialect = "mysql"
	SQLite     Dialect = "sqlite"
)

// Config configures an Inbox. The zero value works.
type Config struct {
	// Table is the name of the inbox: "name" or "schema.name". One table serves any
	// number of consumers. Defaults to "inbox".
	Table string
}

// An Inbox records which events were handled. Create it with New; the zero value is not
// usable. It is safe for concurrent use.
type Inbox struct {
	db         *sql.DB
	dialect    Dialect
	table      string
	sql        mark.Statements
	mysql      mark.MySQL
	migrations migrate.Set
}

// New makes an inbox. It does no I/O; db is what Migrate, CheckSchema and Clean use.
func New(db *sql.DB, dialect Dialect, cfg Config) (*Inbox, error) {
	switch dialect {
	case PostgreSQL, MySQL, SQLite:
	default:
		return nil, outbox.ErrInvalidConfig.With("dialect", fmt.Sprintf("is %q, want %s, %s or %s", dialect, PostgreSQL, MySQL, SQLite))
	}
	if db == nil {
		return nil, outbox.ErrInvalidConfig.With("db", "is nil")
	}
	b := &Inbox{db: db, dialect: dialect, table: cfg.Table}
	if b.table == "" {
		b.table = mark.DefaultTable
	}
	var vars map[string]string
	var err error
	if b.sql, vars, err = mark.Load(string(dialect), b.table); err != nil {
		return nil, err
	}
	if b.mysql, err = mark.LoadMySQL(vars); err != nil {
		return nil, err
	}
	b.migrations, err = migrate.Load(migrationFiles, "migrations/"+string(dialect), b.table, vars)
	return b, err
}

// A Tx is a transaction of the caller: *sql.Tx, *sqlx.Tx and what wraps them. A *sql.DB
// is none: the mark would be committed before its effect.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	Commit() error
	Rollback() error
}

// Once calls fn, unless consumer has handled event before, and reports whether it did.
// fn makes its changes in tx. Neither happens before the caller commits tx; acknowledge
// the delivery after that, and also when Once returned false and nil.
//
// When fn fails or panics, Once rolls tx back, so that the mark cannot be committed
// without the effect, and returns fn's error or goes on panicking. An error of the
// database that comes before fn leaves tx to the caller, to roll back. Either way the
// delivery is not to be acknowledged: it comes again.
//
// Call it first in tx. Concurrent deliveries of one event wait in it for each other, and
// a transaction that has locked other rows by then may deadlock, as with any lock. For
// several events in one transaction use OnceMany, which takes its locks in order.
func (b *Inbox) Once(ctx context.Context, tx Tx, consumer string, event uuid.UUID, fn func() error) (bool, error) {
	if err := mark.Check(consumer, event); err != nil {
		return false, err
	}
	fresh, err := b.mark(ctx, tx, consumer, event)
	if err != nil {
		return false, fmt.Errorf("mark event %s: %w", event, err)
	}
	if !fresh {
		return false, nil
	}
	err = mark.Effect(tx.Rollback, fn)
	return err == nil, err
}

// OnceMany is Once for several events in one transaction: fn is called with those that
// consumer has not handled yet, each once and in the order given, and not at all when
// there are none. It returns how many there were. The marks of all are made before fn
// runs, and all are undone when it fails.
func (b *Inbox) OnceMany(ctx context.Context, tx Tx, consumer string, events []uuid.UUID, fn func(fresh []uuid.UUID) error) (int, error) {
	if err := mark.Check(consumer, events...); err != nil {
		return 0, err
	}
	fresh, err := b.markMany(ctx, tx, consumer, mark.Sorted(events))
	if err != nil {
		return 0, fmt.Errorf("mark %d events: %w", len(events), err)
	}
	if len(fresh) == 0 {
		return 0, nil
	}
	fresh = mark.InOrder(events, fresh)
	if err := mark.Effect(tx.Rollback, func() error { return fn(fresh) }); err != nil {
		return 0, err
	}
	return len(fresh), nil
}

// cleanChunk is how many marks one statement of Clean deletes.
const cleanChunk = 1000

// Clean deletes the marks that are older than retention, by the database's clock, and
// returns how many. It does so in short transactions of its own, and neither waits for
// consumers nor holds them up. Call it now and then, from any number of processes.
//
// An event that is delivered again after its mark is gone is handled again. Weeks are
// cheap: a mark is some 60 bytes.
func (b *Inbox) Clean(ctx context.Context, retention time.Duration) (int64, error) {
	if retention <= 0 {
		return 0, outbox.ErrInvalidConfig.With("retention", fmt.Sprintf("is %s, must be positive: it is how long duplicates are recognised", retention))
	}
	var total int64
	for {
		n, err := b.cleanSome(ctx, retention)
		total += n
		if err != nil {
			return total, fmt.Errorf("clean %s: %w", b.table, err)
		}
		if n < cleanChunk {
			return total, nil
		}
	}
}

func (b *Inbox) cleanSome(ctx context.Context, retention time.Duration) (int64, error) {
	tx, err := b.db.BeginTx(ctx, b.cleanOptions())
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }()
	res, err := tx.ExecContext(ctx, b.sql.Clean, retention.Microseconds(), cleanChunk)
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	if err != nil {
		return 0, err
	}
	return n, tx.Commit()
}

// cleanOptions: on MySQL the default isolation would lock the gaps between the marks,
// and with them the consumers.
func (b *Inbox) cleanOptions() *sql.TxOptions {
	if b.dialect == MySQL {
		return &sql.TxOptions{Isolation: sql.LevelReadCommitted}
	}
	return nil
}
