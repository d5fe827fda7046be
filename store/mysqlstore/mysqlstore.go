// Package mysqlstore keeps an outbox in MariaDB 10.6 or later, or in MySQL 8.0.16 or
// later.
//
// The application opens the *sql.DB with github.com/go-sql-driver/mysql. Enqueue writes
// into the application's own transaction: the message exists if and only if that
// transaction commits. The relay side locks the lease row first in every write, works in
// READ COMMITTED, touches messages by primary key only and rolls back on any error, so
// that it takes no gap locks and producers do not wait for it. A deadlock or a lock
// timeout is repeated where no transaction of the caller is at stake; inside of one it is
// the caller's, who alone can repeat it.
//
// All times are the server's, in UTC with microseconds, whatever time_zone, parseTime and
// loc say. Sequences are taken before they are committed, so messages can appear late; a
// number that nobody has is looked for during a minute and then left to the sweep.
//
// # What it does not do
//
// Sequences of a multi-writer Galera cluster are not ordered across writers: use one
// writer. The relay must reach the primary, not a read/write splitter that sends its
// reads to a replica. A restore from a backup is not noticed. It is tested with MariaDB;
// MySQL has the same SQL and is unproven.
package mysqlstore

import (
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"sync/atomic"

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

// Config describes one outbox table. The zero value is ready to use.
type Config struct {
	// Table is the outbox, as `name` or `database.name`. Defaults to "outbox". Without
	// a database, it is in the one the connection has chosen.
	Table string
	// Gate admits messages before any SQL.
	Gate outbox.Gate
}

// A Store is one outbox table. Make it with New. It is safe for concurrent use and needs
// no closing: it borrows connections of db and returns them as they were.
type Store struct {
	db         *sql.DB
	cfg        Config
	database   string // "" is the connection's
	name       string
	sql        statements
	many       []chunk
	migrations migrate.Set
	checked    atomic.Bool // the schema was found right once
	purge      purgePosition
	countCap   int // outbox.CountCap, less in tests
}

//go:embed sql/*.sql
var sqlFiles embed.FS

// New makes a Store on a database that the caller has opened. It does no I/O: a missing
// table is reported by the first use, or by CheckSchema.
func New(db *sql.DB, cfg Config) (*Store, error) {
	s, err := newStore(cfg)
	if db == nil {
		err = errors.Join(outbox.ErrInvalidConfig.With("db", "is required"), err)
	}
	if err != nil {
		return nil, fmt.Errorf("new mysql store: %w", err)
	}
	s.db = db
	return s, nil
}

func newStore(cfg Config) (*Store, error) {
	if cfg.Table == "" {
		cfg.Table = "outbox"
	}
	database, name, ok, reason := sqlfile.ParseTable(cfg.Table)
	if !ok {
		return nil, outbox.ErrInvalidTable.With("table", reason)
	}
	s := &Store{cfg: cfg, database: database, name: name, countCap: outbox.CountCap}
	vars := variables(database, name)
	if err := sqlfile.Render(sqlFiles, "sql", vars, &s.sql); err != nil {
		return nil, err
	}
	s.many = chunks(s.sql.Enqueue)
	var err error
	s.migrations, err = migrate.Load(Migrations, ".", cfg.Table, vars)
	return s, err
}

// Table names the outbox as it was configured.
func (s *Store) Table() string { return s.cfg.Table }
