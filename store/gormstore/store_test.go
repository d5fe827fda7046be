package gormstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glebarez/sqlite"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"
	"gorm.io/driver/mysql"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/store/gormstore"
	"github.com/go-outbox/outbox/store/mysqlstore"
	"github.com/go-outbox/outbox/store/pgstore"
	"github.com/go-outbox/outbox/store/sqlitestore"
	"github.com/go-outbox/outbox/store/storetest"
)

func TestMain(m *testing.M) {
	// GORM's cache of prepared statements never ends its goroutine.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("gorm.io/gorm/internal/lru.NewLRU[...].func1"))
}

// A backend is a database with GORM on it and the native store beside.
type backend struct {
	db     *gorm.DB
	sql    *sql.DB // GORM's pool
	table  string
	store  nativeStore
	reopen func(t *testing.T) outbox.Store
	// producer is Enqueue and CheckSchema of another table.
	producer func(t *testing.T, table string) (enqueue func(*gorm.DB, outbox.Message) error, check func(context.Context) error)
	// enqueue and enqueueMany are the producer's side through GORM.
	enqueue     func(ctx context.Context, tx *gorm.DB, msg outbox.Message) (int64, error)
	enqueueMany func(ctx context.Context, tx *gorm.DB, msgs []outbox.Message) ([]int64, error)
	// ago is the SQL of a time column, made older by a number of microseconds.
	ago      func(column string, micros int64) string
	features storetest.Features
}

type nativeStore interface {
	outbox.Store
	outbox.Inspector
	outbox.Operator
	EnqueueAutocommit(ctx context.Context, msg outbox.Message) (int64, error)
	CheckSchema(ctx context.Context) error
}

// An opener makes an empty outbox at each call.
type opener func(t *testing.T, cfg gorm.Config) *backend

// backends are the three databases, each new, by name.
var backends = map[string]opener{
	"sqlite":   sqliteBackend,
	"postgres": func(t *testing.T, cfg gorm.Config) *backend { return postgresBackends(t)(t, cfg) },
	"mysql":    func(t *testing.T, cfg gorm.Config) *backend { return mysqlBackends(t)(t, cfg) },
}

func onEachBackend(t *testing.T, test func(t *testing.T, b *backend)) {
	for name, open := range backends {
		for _, prepare := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/prepare=%v", name, prepare), func(t *testing.T) {
				test(t, open(t, gorm.Config{PrepareStmt: prepare}))
			})
		}
	}
}

func TestStoreOnSQLite(t *testing.T)   { runContract(t, sqliteBackend) }
func TestStoreOnPostgres(t *testing.T) { runContract(t, postgresBackends(t)) }
func TestStoreOnMySQL(t *testing.T)    { runContract(t, mysqlBackends(t)) }

func runContract(t *testing.T, open opener) {
	t.Parallel() // three databases; the waits are theirs
	for _, prepare := range []bool{false, true} {
		t.Run(fmt.Sprintf("prepare=%v", prepare), func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) storetest.Harness {
				return open(t, gorm.Config{PrepareStmt: prepare}).harness()
			})
		})
	}
}

var tables atomic.Int64

func newTable() string { return fmt.Sprintf("t%d_outbox", tables.Add(1)) }

func sqliteBackend(t *testing.T, cfg gorm.Config) *backend {
	file := filepath.Join(t.TempDir(), "outbox.db")
	dial := func(t *testing.T) (*gorm.DB, *sql.DB) {
		return connect(t, sqlite.Open("file:"+file+"?_pragma=busy_timeout(20000)&_pragma=synchronous(OFF)"), cfg)
	}
	db, pool := dial(t)
	ok(t, sqlitestore.Prepare(t.Context(), pool))
	table := newTable()
	open := func(pool *sql.DB) *sqlitestore.Store {
		store, err := sqlitestore.New(pool, sqlitestore.Config{Table: table})
		ok(t, err)
		return store
	}
	store := open(pool)
	_, err := store.Migrate(t.Context())
	ok(t, err)
	return &backend{
		db: db, sql: pool, table: table, store: store,
		reopen: func(t *testing.T) outbox.Store { _, pool := dial(t); return open(pool) },
		producer: func(t *testing.T, table string) (func(*gorm.DB, outbox.Message) error, func(context.Context) error) {
			store, err := sqlitestore.New(pool, sqlitestore.Config{Table: table})
			ok(t, err)
			return bind(t, store.Enqueue), store.CheckSchema
		},
		enqueue: func(ctx context.Context, tx *gorm.DB, msg outbox.Message) (int64, error) {
			return gormstore.Enqueue(ctx, tx, store.Enqueue, msg)
		},
		enqueueMany: func(ctx context.Context, tx *gorm.DB, msgs []outbox.Message) ([]int64, error) {
			conn, err := gormstore.Tx(tx)
			ok(t, err)
			return store.EnqueueMany(ctx, conn, msgs)
		},
		ago:      func(column string, micros int64) string { return fmt.Sprintf("%s - %d", column, micros) },
		features: storetest.Features{Savepoints: true, Binary: true},
	}
}

// mysqlBackends are outboxes in one database.
func mysqlBackends(t *testing.T) opener {
	env := testenv.MySQL(t)
	return func(t *testing.T, cfg gorm.Config) *backend { return mysqlBackend(t, env, cfg) }
}

func mysqlBackend(t *testing.T, env *testenv.MySQLDB, cfg gorm.Config) *backend {
	// GORM's own documentation recommends loc=Local, which may be anywhere.
	db, pool := connect(t, mysql.Open(env.DSN("parseTime=true", "loc=America%2FNew_York")), cfg)
	table := newTable()
	open := func(pool *sql.DB) *mysqlstore.Store {
		store, err := mysqlstore.New(pool, mysqlstore.Config{Table: table})
		ok(t, err)
		return store
	}
	store := open(pool)
	_, err := store.Migrate(t.Context())
	ok(t, err)
	return &backend{
		db: db, sql: pool, table: table, store: store,
		reopen: func(t *testing.T) outbox.Store { return open(env.Open(t)) },
		producer: func(t *testing.T, table string) (func(*gorm.DB, outbox.Message) error, func(context.Context) error) {
			store, err := mysqlstore.New(pool, mysqlstore.Config{Table: table})
			ok(t, err)
			return bind(t, store.Enqueue), store.CheckSchema
		},
		enqueue: func(ctx context.Context, tx *gorm.DB, msg outbox.Message) (int64, error) {
			return gormstore.Enqueue(ctx, tx, store.Enqueue, msg)
		},
		enqueueMany: func(ctx context.Context, tx *gorm.DB, msgs []outbox.Message) ([]int64, error) {
			conn, err := gormstore.Tx(tx)
			ok(t, err)
			return store.EnqueueMany(ctx, conn, msgs)
		},
		ago: func(column string, micros int64) string {
			return fmt.Sprintf("%s - INTERVAL %d MICROSECOND", column, micros)
		},
		features: storetest.Features{Savepoints: true, Shards: true, LateCommit: true, Binary: true},
	}
}

// postgresBackends are outboxes in one database. GORM is on pgx's stdlib and the relay on
// a pool of pgx, as in an application: one database, two ways in.
func postgresBackends(t *testing.T) opener {
	env := testenv.Postgres(t)
	pool := env.Pool(t)
	return func(t *testing.T, cfg gorm.Config) *backend { return postgresBackend(t, env.DSN(), pool, cfg) }
}

func postgresBackend(t *testing.T, dsn string, pool *pgxpool.Pool, cfg gorm.Config) *backend {
	db, sqlPool := connect(t, postgres.Open(dsn), cfg)
	table := newTable()
	open := func(t *testing.T) *pgstore.Store {
		store, err := pgstore.New(pool, pgstore.Config{Table: table})
		ok(t, err)
		return store
	}
	store := open(t)
	_, err := store.Migrate(t.Context())
	ok(t, err)
	return &backend{
		db: db, sql: sqlPool, table: table, store: store,
		reopen: func(t *testing.T) outbox.Store { return open(t) },
		producer: func(t *testing.T, table string) (func(*gorm.DB, outbox.Message) error, func(context.Context) error) {
			store, err := pgstore.New(pool, pgstore.Config{Table: table})
			ok(t, err)
			return bind(t, store.EnqueueSQL), store.CheckSchema
		},
		enqueue: func(ctx context.Context, tx *gorm.DB, msg outbox.Message) (int64, error) {
			return gormstore.Enqueue(ctx, tx, store.EnqueueSQL, msg)
		},
		enqueueMany: func(ctx context.Context, tx *gorm.DB, msgs []outbox.Message) ([]int64, error) {
			conn, err := gormstore.Tx(tx)
			ok(t, err)
			return store.EnqueueManySQL(ctx, conn, msgs)
		},
		ago: func(column string, micros int64) string {
			return fmt.Sprintf("%s - interval '%d microseconds'", column, micros)
		},
		features: storetest.Features{Savepoints: true, Shards: true, LateCommit: true},
	}
}

func bind[T gormstore.SQLTx](t *testing.T, enqueue func(context.Context, T, outbox.Message) (int64, error)) func(*gorm.DB, outbox.Message) error {
	return func(tx *gorm.DB, msg outbox.Message) error {
		_, err := gormstore.Enqueue(t.Context(), tx, enqueue, msg)
		return err
	}
}

func connect(t *testing.T, d gorm.Dialector, cfg gorm.Config) (*gorm.DB, *sql.DB) {
	t.Helper()
	cfg.Logger = logger.Discard
	db, err := gorm.Open(d, &cfg)
	ok(t, err)
	pool, err := db.DB()
	ok(t, err)
	t.Cleanup(func() {
		if prepared, ok := db.ConnPool.(*gorm.PreparedStmtDB); ok {
			prepared.Close()
		}
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	return db, pool
}

func (b *backend) harness() storetest.Harness {
	return storetest.Harness{
		Store:  b.store,
		Reopen: b.reopen,
		Begin: func(t *testing.T) storetest.Tx {
			tx := b.db.WithContext(t.Context()).Begin()
			ok(t, tx.Error)
			t.Cleanup(func() { tx.Rollback() }) // an error after Commit
			return &gormTx{b, tx}
		},
		Autocommit: b.store.EnqueueAutocommit,
		Shift:      b.shift,
		Features:   b.features,
	}
}

// gormTx is a transaction of GORM with Enqueue bound to it.
type gormTx struct {
	b  *backend
	tx *gorm.DB
}

func (x *gormTx) Enqueue(ctx context.Context, msg outbox.Message) (int64, error) {
	return x.b.enqueue(ctx, x.tx, msg)
}

func (x *gormTx) EnqueueMany(ctx context.Context, msgs []outbox.Message) ([]int64, error) {
	return x.b.enqueueMany(ctx, x.tx, msgs)
}

func (x *gormTx) Commit() error                { return x.tx.Commit().Error }
func (x *gormTx) Rollback() error              { return x.tx.Rollback().Error }
func (x *gormTx) Savepoint(name string) error  { return x.tx.SavePoint(name).Error }
func (x *gormTx) RollbackTo(name string) error { return x.tx.RollbackTo(name).Error }

// shift makes every stored time older, so that time passes without waiting.
func (b *backend) shift(t *testing.T, d time.Duration) {
	t.Helper()
	for table, columns := range map[string][]string{
		b.table:            {"created_at", "available_at", "published_at", "dead_at"},
		b.table + "_lease": {"expires_at"},
		b.table + "_batch": {"recorded_at", "beat"},
		b.table + "_relay": {"seen_at"},
		"outbox_job":       {"cut", "next_at", "driven_at"},
	} {
		set := make([]string, len(columns))
		for i, c := range columns {
			set[i] = c + " = " + b.ago(c, d.Microseconds())
		}
		_, err := b.sql.ExecContext(t.Context(), "UPDATE "+table+" SET "+strings.Join(set, ", "))
		ok(t, err)
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
