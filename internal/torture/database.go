package torture

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"modernc.org/sqlite"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/store/pgstore"
	"github.com/go-outbox/outbox/store/sqlitestore"
)

// A Driver is a kind of database.
type Driver string

// The drivers.
const (
	SQLite   Driver = "sqlite"
	Postgres Driver = "postgres"
)

// remote: processes reach it over a network, which can be broken.
func (d Driver) remote() bool { return d != SQLite }

// A Place is where a database is, in a form that child processes can be told.
type Place struct {
	Driver Driver
	// DSN is an address, or the path of a file.
	DSN string
}

// A Database is one process's way to a database with an outbox, a business table and a
// witness.
type Database interface {
	Store() outbox.Store
	// Create makes the tables and the witness.
	Create(ctx context.Context) error
	// Begin opens a business transaction.
	Begin(ctx context.Context) (Tx, error)
	// SQL reads what the run left behind.
	SQL() *sql.DB
	Close()
}

// A Tx is a business transaction. Rollback after Commit does nothing.
type Tx interface {
	Business(ctx context.Context, id string) error
	Enqueue(ctx context.Context, msg outbox.Message) error
	EnqueueMany(ctx context.Context, msgs []outbox.Message) error
	// Savepoint marks the present state, RollbackTo undoes what was done since.
	Savepoint(ctx context.Context) error
	RollbackTo(ctx context.Context) error
	Commit(ctx context.Context) error
	Rollback(ctx context.Context) error
}

// Open opens the database for the process of this name. It does no I/O, so that a
// process may start while the database is down.
func Open(p Place, name string) (Database, error) {
	switch p.Driver {
	case SQLite:
		return openSQLite(p.DSN, name)
	case Postgres:
		return openPostgres(p.DSN, name)
	case MySQL:
		return openMySQL(p.DSN, name)
	}
	return nil, fmt.Errorf("open database: no driver %q", p.Driver)
}

const table = "outbox"

const (
	savepoint  = `SAVEPOINT torture`
	rollbackTo = `ROLLBACK TO SAVEPOINT torture`
)

type sqliteDB struct {
	db    *sql.DB
	store *sqlitestore.Store
}

// writer names the process for SQLite's trigger, as application_name does for
// PostgreSQL's. A program has one database/sql driver, hence one name.
var (
	writer         atomic.Pointer[string]
	registerWriter = sync.OnceFunc(func() {
		sqlite.MustRegisterScalarFunction("torture_writer", 0,
			func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) { return *writer.Load(), nil })
	})
)

func openSQLite(path, name string) (*sqliteDB, error) {
	writer.Store(&name)
	registerWriter()
	db, err := sql.Open("sqlite", "file:"+path+
		"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return nil, err
	}
	store, err := sqlitestore.New(db, sqlitestore.Config{Table: table})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &sqliteDB{db: db, store: store}, nil
}

func (d *sqliteDB) Store() outbox.Store { return d.store }
func (d *sqliteDB) SQL() *sql.DB        { return d.db }
func (d *sqliteDB) Close()              { _ = d.db.Close() }

func (d *sqliteDB) Create(ctx context.Context) error {
	if err := sqlitestore.Prepare(ctx, d.db); err != nil {
		return err
	}
	if _, err := d.store.Migrate(ctx); err != nil {
		return err
	}
	_, err := d.db.ExecContext(ctx, businessTable+sqliteWitness)
	return err
}

func (d *sqliteDB) Begin(ctx context.Context) (Tx, error) {
	tx, err := d.db.BeginTx(ctx, nil)
	return &sqliteTx{d.store, tx}, err
}

type sqliteTx struct {
	store *sqlitestore.Store
	tx    *sql.Tx
}

func (t *sqliteTx) Business(ctx context.Context, id string) error {
	_, err := t.tx.ExecContext(ctx, `INSERT INTO torture_business (id) VALUES (?)`, id)
	return err
}

func (t *sqliteTx) Enqueue(ctx context.Context, msg outbox.Message) error {
	_, err := t.store.Enqueue(ctx, t.tx, msg)
	return err
}

func (t *sqliteTx) EnqueueMany(ctx context.Context, msgs []outbox.Message) error {
	_, err := t.store.EnqueueMany(ctx, t.tx, msgs)
	return err
}

func (t *sqliteTx) Savepoint(ctx context.Context) error {
	_, err := t.tx.ExecContext(ctx, savepoint)
	return err
}

func (t *sqliteTx) RollbackTo(ctx context.Context) error {
	_, err := t.tx.ExecContext(ctx, rollbackTo)
	return err
}

func (t *sqliteTx) Commit(context.Context) error   { return t.tx.Commit() }
func (t *sqliteTx) Rollback(context.Context) error { return t.tx.Rollback() }

type postgresDB struct {
	pool  *pgxpool.Pool
	db    *sql.DB
	store *pgstore.Store
}

// maxConnections is the size of each process's pool.
const maxConnections = 8

// connections is how many of a process its server may count.
func (d Driver) connections() int {
	if d == MySQL {
		// It keeps one that was closed in the middle of a statement until that has
		// ended, and cancelling closes.
		return 2 * maxConnections
	}
	return maxConnections
}

func openPostgres(dsn, name string) (*postgresDB, error) {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	cfg.ConnConfig.RuntimeParams["application_name"] = name
	cfg.MaxConns = maxConnections
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		return nil, err
	}
	store, err := pgstore.New(pool, pgstore.Config{Table: table})
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &postgresDB{pool: pool, db: stdlib.OpenDBFromPool(pool), store: store}, nil
}

func (d *postgresDB) Store() outbox.Store { return d.store }
func (d *postgresDB) SQL() *sql.DB        { return d.db }

func (d *postgresDB) Close() {
	_ = d.db.Close()
	d.pool.Close()
}

func (d *postgresDB) Create(ctx context.Context) error {
	if _, err := d.store.Migrate(ctx); err != nil {
		return err
	}
	_, err := d.pool.Exec(ctx, businessTable+postgresWitness, pgx.QueryExecModeSimpleProtocol)
	return err
}

func (d *postgresDB) Begin(ctx context.Context) (Tx, error) {
	tx, err := d.pool.Begin(ctx)
	return &postgresTx{d.store, tx}, err
}

type postgresTx struct {
	store *pgstore.Store
	tx    pgx.Tx
}

func (t *postgresTx) Business(ctx context.Context, id string) error {
	_, err := t.tx.Exec(ctx, `INSERT INTO torture_business (id) VALUES ($1)`, id)
	return err
}

func (t *postgresTx) Enqueue(ctx context.Context, msg outbox.Message) error {
	_, err := t.store.Enqueue(ctx, t.tx, msg)
	return err
}

func (t *postgresTx) EnqueueMany(ctx context.Context, msgs []outbox.Message) error {
	_, err := t.store.EnqueueMany(ctx, t.tx, msgs)
	return err
}

func (t *postgresTx) Savepoint(ctx context.Context) error {
	_, err := t.tx.Exec(ctx, savepoint)
	return err
}

func (t *postgresTx) RollbackTo(ctx context.Context) error {
	_, err := t.tx.Exec(ctx, rollbackTo)
	return err
}

func (t *postgresTx) Commit(ctx context.Context) error   { return t.tx.Commit(ctx) }
func (t *postgresTx) Rollback(ctx context.Context) error { return t.tx.Rollback(ctx) }
