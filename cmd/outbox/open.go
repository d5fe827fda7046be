package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "modernc.org/sqlite" // the driver of sqlite: DSNs

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/config"
	"github.com/go-outbox/outbox/inbox"
	"github.com/go-outbox/outbox/inbox/pginbox"
	"github.com/go-outbox/outbox/store/pgstore"
	"github.com/go-outbox/outbox/store/sqlitestore"
)

// connectTimeout bounds the first contact with a database.
const connectTimeout = 10 * time.Second

// A store is what the commands need of an outbox table.
type store interface {
	outbox.Store
	outbox.Purger
	outbox.Inspector
	outbox.Operator
	migrator
}

// A database is an opened DSN. Close it.
type database struct {
	// embedded: the database is a file that belongs to this program's user, so
	// the daemon may create its schema unasked.
	embedded bool

	table   func(name string) (store, error)
	inbox   func(name string) (inboxTable, error)
	scratch func(context.Context) (*scratch, error)
	ping    func(context.Context) error
	close   func()
}

// openDatabase picks the store by the DSN's scheme. It does no I/O beyond looking
// for a file; create says that a SQLite file may be made.
func openDatabase(ctx context.Context, dsn string, create bool) (*database, error) {
	scheme, rest, ok := strings.Cut(dsn, ":")
	switch {
	case dsn == "":
		return nil, usagef("no database: use --dsn, or set OUTBOX_DSN or DATABASE_URL")
	case !ok:
		return nil, usagef("the DSN has no scheme: use sqlite:FILE, postgres://… or mysql://…")
	}
	switch scheme {
	case "sqlite":
		return openSQLite(strings.TrimPrefix(rest, "//"), create)
	case "postgres", "postgresql":
		return openPostgres(ctx, dsn)
	case "mysql", "mariadb":
		return openMySQL(dsn)
	}
	return nil, usagef("unknown scheme %q in the DSN: use sqlite:FILE, postgres://… or mysql://…", scheme)
}

func openSQLite(path string, create bool) (*database, error) {
	if path == "" || strings.Contains(path, ":memory:") {
		return nil, usagef("the DSN names no file: use sqlite:FILE")
	}
	if !create {
		if err := haveFile(path); err != nil {
			return nil, err
		}
	}
	db, err := sql.Open("sqlite", sqliteDSN(path, create))
	if err != nil {
		return nil, fmt.Errorf("open sqlite:%s: %w", path, err)
	}
	return &database{
		embedded: true,
		table: func(name string) (store, error) {
			return sqlitestore.New(db, sqlitestore.Config{Table: name})
		},
		inbox: func(name string) (inboxTable, error) {
			return inbox.New(db, inbox.SQLite, inbox.Config{Table: name})
		},
		scratch: func(ctx context.Context) (*scratch, error) { return sqliteScratch(ctx, path) },
		ping: func(ctx context.Context) error {
			// A ping opens the file but does not read it.
			if _, err := db.ExecContext(ctx, "SELECT count(*) FROM sqlite_master"); err != nil {
				return fmt.Errorf("open sqlite:%s: %w\ncheck --dsn, and that the file is an SQLite database", path, err)
			}
			return nil
		},
		close: func() { _ = db.Close() }, // nothing is written here that was not committed
	}, nil
}

// haveFile tells a missing file, which is like an empty database, from a path that
// cannot be one. SQLite would create either silently, or fail with "out of memory".
func haveFile(path string) error {
	_, err := os.Stat(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return fmt.Errorf("open sqlite:%s: %w\ncheck --dsn", path, err)
	}
	return outbox.ErrSchema.With("sqlite:"+path,
		"the file does not exist: check --dsn, or run `outbox migrate up` to create it")
}

// sqliteDSN opens a file so that writers wait for each other and a commit is on disk
// when it returns. WAL is a property of the file: only who may create it sets it.
func sqliteDSN(path string, create bool) string {
	query := url.Values{
		"_txlock": {"immediate"},
		"_pragma": {"busy_timeout(10000)", "synchronous(FULL)"},
		"mode":    {"rw"},
	}
	if create {
		query["_pragma"] = append(query["_pragma"], "journal_mode(WAL)")
		query.Set("mode", "rwc")
	}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + query.Encode()
}

func openPostgres(ctx context.Context, dsn string) (*database, error) {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, usagef("the DSN %s cannot be read: want postgres://USER:PASSWORD@HOST:PORT/DATABASE", config.Redact(dsn))
	}
	if _, ok := cfg.ConnConfig.RuntimeParams["application_name"]; !ok {
		cfg.ConnConfig.RuntimeParams["application_name"] = "outbox"
	}
	// Nothing connects before the first use.
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), cfg)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", config.Redact(dsn), err)
	}
	return &database{
		table: func(name string) (store, error) {
			return pgstore.New(pool, pgstore.Config{Table: name})
		},
		inbox: func(name string) (inboxTable, error) {
			return pginbox.New(pool, pginbox.Config{Table: name})
		},
		scratch: func(ctx context.Context) (*scratch, error) { return postgresScratch(ctx, pool) },
		ping: func(ctx context.Context) error {
			if err := pool.Ping(ctx); err != nil {
				return fmt.Errorf("connect to %s: %w\ncheck --dsn, and that the server can be reached", config.Redact(dsn), err)
			}
			return nil
		},
		close: pool.Close,
	}, nil
}

// openTables opens the DSN, makes sure that the database answers, and returns the
// store of every table.
func openTables(ctx context.Context, cfg *config.Config, names []string, create bool) (*database, []store, error) {
	db, err := openDatabase(ctx, cfg.DSN, create)
	if err != nil {
		return nil, nil, err
	}
	stores, err := db.tables(ctx, names)
	if err != nil {
		db.close()
		return nil, nil, err
	}
	return db, stores, nil
}

func (db *database) tables(ctx context.Context, names []string) ([]store, error) {
	stores := make([]store, len(names))
	for i, name := range names {
		s, err := db.table(name)
		if err != nil {
			return nil, err
		}
		stores[i] = s
	}
	return stores, db.answers(ctx)
}

// answers waits for the database for as long as a person would.
func (db *database) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, connectTimeout, fmt.Errorf("no answer within %s", connectTimeout))
	defer cancel()
	return db.ping(ctx)
}

// checked is openTables for commands that need the schema in place.
func checked(ctx context.Context, cfg *config.Config, names []string) (*database, []store, error) {
	db, stores, err := openTables(ctx, cfg, names, false)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range stores {
		if err := s.CheckSchema(ctx); err != nil {
			db.close()
			return nil, nil, err
		}
	}
	return db, stores, nil
}
