package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/glebarez/sqlite"
	"gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/store/gormstore"
	"github.com/go-outbox/outbox/store/mysqlstore"
	"github.com/go-outbox/outbox/store/sqlitestore"
)

const table = "archive_outbox"

// gate lets topics be what the mapper says.
var gate = outbox.Gate{Topics: outbox.AnyTopic}

// A Database is GORM, the outbox beside it, and the way from one into the other.
type Database struct {
	*gorm.DB
	outbox  Outbox
	enqueue func(ctx context.Context, tx *gorm.DB, msg outbox.Message) (int64, error)
}

// An Outbox is what the service uses of a store.
type Outbox interface {
	outbox.Store
	outbox.Inspector
	outbox.Operator
	Migrate(ctx context.Context) ([]int, error)
}

// openDatabase opens MariaDB when there is a DSN, and the SQLite file otherwise.
func openDatabase(ctx context.Context, dsn, file string) (*Database, error) {
	if dsn != "" {
		return openMySQL(ctx, dsn)
	}
	return openSQLite(ctx, file)
}

func openMySQL(ctx context.Context, dsn string) (*Database, error) {
	db, pool, err := connect(mysql.Open(dsn))
	if err != nil {
		return nil, err
	}
	store, err := mysqlstore.New(pool, mysqlstore.Config{Table: table, Gate: gate})
	if err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	return prepare(ctx, &Database{DB: db, outbox: store, enqueue: func(ctx context.Context, tx *gorm.DB, msg outbox.Message) (int64, error) {
		return gormstore.Enqueue(ctx, tx, store.Enqueue, msg)
	}})
}

func openSQLite(ctx context.Context, file string) (*Database, error) {
	db, pool, err := connect(sqlite.Open("file:" + file + "?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=synchronous(FULL)"))
	if err != nil {
		return nil, err
	}
	store, err := sqlitestore.New(pool, sqlitestore.Config{Table: table, Gate: gate})
	if err == nil {
		err = sqlitestore.Prepare(ctx, pool)
	}
	if err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	return prepare(ctx, &Database{DB: db, outbox: store, enqueue: func(ctx context.Context, tx *gorm.DB, msg outbox.Message) (int64, error) {
		return gormstore.Enqueue(ctx, tx, store.Enqueue, msg)
	}})
}

func connect(d gorm.Dialector) (*gorm.DB, *sql.DB, error) {
	db, err := gorm.Open(d, &gorm.Config{PrepareStmt: true, Logger: logger.Discard})
	if err != nil {
		return nil, nil, fmt.Errorf("connect: %w", err)
	}
	pool, err := db.DB()
	return db, pool, err
}

// prepare creates the tables. The service's own are GORM's; the outbox has versioned
// migrations, which in production run before the deploy: `outbox migrate up`.
func prepare(ctx context.Context, db *Database) (*Database, error) {
	_, err := db.outbox.Migrate(ctx)
	if err == nil {
		err = db.WithContext(ctx).AutoMigrate(&Archive{})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create tables: %w", err), db.Close())
	}
	return db, nil
}

// Close closes the pool that GORM and the outbox share.
func (d *Database) Close() error {
	pool, err := d.DB.DB()
	if err != nil {
		return err
	}
	return pool.Close()
}
