// Package sqlitestore keeps an outbox in a SQLite file.
//
// The application opens the *sql.DB, with any driver for SQLite 3.38 or later; this
// package imports none. Enqueue writes into the application's own transaction: the
// message exists if and only if that transaction commits. The relay side runs every
// write in BEGIN IMMEDIATE and repeats the whole transaction when the file is busy,
// so that SQLITE_BUSY reaches neither the relay nor EnqueueAutocommit.
//
// SQLite has one writer at a time. Sequence order is therefore commit order, and one
// relay works the table while others stand by. Several processes may share a file on
// one machine; a file on a network file system is not supported, because its locks
// are not reliable.
//
// # What the opener decides
//
// Use WAL ([Prepare] sets it), so that readers and the writer do not block each
// other, and synchronous=FULL, without which a power failure can undo a commit that
// was confirmed: then neither the business row nor the event is lost alone, but a
// settled event can be delivered twice. Give connections a busy_timeout, and start
// the application's writing transactions with BEGIN IMMEDIATE (with modernc.org/sqlite:
// _txlock=immediate): a transaction that reads first and writes later fails with
// SQLITE_BUSY, whatever the timeout, when somebody else has written in between. That
// error belongs to the application's transaction; only it can repeat it.
package sqlitestore

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/migrate"
	"github.com/go-outbox/outbox/internal/sqlfile"
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
	// Table names the outbox. Defaults to "outbox". SQLite has no schemas, so
	// it is a plain name.
	Table string
	// Gate admits messages.
	Gate outbox.Gate
	// Now replaces the clock in tests. The database runs inside this process,
	// so the clock of the process is the clock of the database.
	Now func() time.Time
}

// A Store is one outbox in a SQLite file. Make it with New. It is safe for
// concurrent use and needs no closing: it borrows connections of db and returns
// them.
type Store struct {
	db         *sql.DB
	cfg        Config
	sql        statements
	list       map[bool]lists // by Filter.OldestFirst
	many       []chunk
	migrations migrate.Set
	checked    atomic.Bool // the schema was found right once
	countCap   int         // outbox.CountCap, less in tests
}

//go:embed sql/*.sql sql/list/*.sql
var sqlFiles embed.FS

// New makes a Store on a database that the caller has opened. It does no I/O.
func New(db *sql.DB, cfg Config) (*Store, error) {
	if cfg.Table == "" {
		cfg.Table = "outbox"
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	vars, err := variables(cfg.Table)
	if db == nil {
		err = errors.Join(outbox.ErrInvalidConfig.With("db", "is required"), err)
	}
	if err != nil {
		return nil, fmt.Errorf("new sqlite store: %w", err)
	}
	s := &Store{db: db, cfg: cfg, list: make(map[bool]lists, 2), countCap: outbox.CountCap}
	if err := s.render(vars); err != nil {
		return nil, fmt.Errorf("new sqlite store: %w", err)
	}
	return s, nil
}

func (s *Store) render(vars map[string]string) error {
	if err := sqlfile.Render(sqlFiles, "sql", vars, &s.sql); err != nil {
		return err
	}
	for oldestFirst, order := range map[bool]string{true: "ASC", false: "DESC"} {
		var l lists
		vars := maps.Clone(vars)
		vars["order"] = order
		if err := sqlfile.Render(sqlFiles, "sql/list", vars, &l); err != nil {
			return err
		}
		s.list[oldestFirst] = l
	}
	s.many = chunks(s.sql.EnqueueMany)
	set, err := migrate.Load(Migrations, ".", s.cfg.Table, vars)
	s.migrations = set
	return err
}

// Table names the outbox.
func (s *Store) Table() string { return s.cfg.Table }

// now is the time in microseconds. Writers read it after they have the write lock,
// so that the times of two transactions are in the order of the transactions.
func (s *Store) now() int64 { return s.cfg.Now().UnixMicro() }

// Prepare puts the file into WAL mode, which it then stays in. It waits for others
// that have the file open at this moment.
func Prepare(ctx context.Context, db *sql.DB) error {
	err := untilFree(ctx, func() error {
		var mode string
		return db.QueryRowContext(ctx, "PRAGMA journal_mode=WAL").Scan(&mode)
	})
	if err != nil {
		return fmt.Errorf("set journal mode: %w", err)
	}
	return nil
}
