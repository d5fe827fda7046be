package transactions

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"github.com/glebarez/sqlite"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/jmoiron/sqlx"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/examples/transactions/ent"
	"github.com/go-outbox/outbox/examples/transactions/sqlcdb"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/store/mysqlstore"
	"github.com/go-outbox/outbox/store/pgstore"
	"github.com/go-outbox/outbox/store/sqlitestore"
)

var errCheck = errors.New("the customer has no credit")

// A place is a Place… function with its handle bound to it.
type place func(ctx context.Context, customer string, check func() error) error

func TestTheEventIsRolledBackWithTheOrder(t *testing.T) {
	for name, bind := range map[string]func(*sql.DB, *sqlitestore.Store) place{
		"database/sql Tx":   func(db *sql.DB, s *sqlitestore.Store) place { return bound(PlaceWithSQLTx, db, s) },
		"database/sql Conn": func(db *sql.DB, s *sqlitestore.Store) place { return bound(PlaceWithSQLConn, db, s) },
		"sqlx":              func(db *sql.DB, s *sqlitestore.Store) place { return bound(PlaceWithSqlx, sqlx.NewDb(db, "sqlite"), s) },
		"bun": func(db *sql.DB, s *sqlitestore.Store) place {
			return bound(PlaceWithBun, bun.NewDB(db, sqlitedialect.New()), s)
		},
		"ent": func(db *sql.DB, s *sqlitestore.Store) place {
			return bound(PlaceWithEnt, ent.NewClient(ent.Driver(entsql.OpenDB(dialect.SQLite, db))), s)
		},
		"ent over database/sql": func(db *sql.DB, s *sqlitestore.Store) place { return bound(PlaceWithEntOverSQLTx, db, s) },
		"sqlc": func(db *sql.DB, s *sqlitestore.Store) place {
			return func(ctx context.Context, customer string, check func() error) error {
				return PlaceWithSqlc(ctx, db, sqlcdb.New(db), s, customer, check)
			}
		},
		"gorm":                          func(db *sql.DB, s *sqlitestore.Store) place { return bound(PlaceWithGORM, openGORM(t, db, false), s) },
		"gorm with prepared statements": func(db *sql.DB, s *sqlitestore.Store) place { return bound(PlaceWithGORM, openGORM(t, db, true), s) },
	} {
		t.Run(name, func(t *testing.T) {
			db, store := openSQLite(t)
			rollsBack(t, bind(db, store), store, func() (n int) {
				ok(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM orders").Scan(&n))
				return n
			})
		})
	}
}

func TestTheEventIsRolledBackWithTheOrderInPgx(t *testing.T) {
	pool, store := openPostgres(t)
	rollsBack(t, bound(PlaceWithPgx, pool, store), store, func() (n int) {
		ok(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM orders").Scan(&n))
		return n
	})
}

// rollsBack places two orders, of which the first fails.
func rollsBack(t *testing.T, place place, store outbox.Inspector, orders func() int) {
	t.Helper()
	expect := func(want int) {
		t.Helper()
		list, err := store.List(t.Context(), outbox.Filter{})
		ok(t, err)
		if got := orders(); got != want || len(list.Records) != want {
			t.Errorf("%d orders and %d messages, want %d of each", got, len(list.Records), want)
		}
	}
	// Both rows are written when the check fails, so there is something to undo.
	if err := place(t.Context(), "Eve", func() error { return errCheck }); !errors.Is(err, errCheck) {
		t.Fatalf("got %v", err)
	}
	expect(0)
	ok(t, place(t.Context(), "Ada", func() error { return nil }))
	expect(1)
}

func bound[H, S any](f func(context.Context, H, S, string, func() error) error, handle H, store S) place {
	return func(ctx context.Context, customer string, check func() error) error {
		return f(ctx, handle, store, customer, check)
	}
}

// A bun.Tx has the methods of a transaction, so the compiler cannot help. On PostgreSQL
// the mistake shows at the first call: the server gets a statement without arguments.
func TestABunTxInsteadOfItsSQLTxFailsAndWritesNothing(t *testing.T) {
	pool, store := openPostgres(t)
	sqlDB := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { ok(t, sqlDB.Close()) })
	db := bun.NewDB(sqlDB, pgdialect.New())

	err := db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
		_, err := store.EnqueueSQL(ctx, tx, orderPlaced("Eve"))
		return err
	})
	if err == nil {
		t.Error("a bun.Tx was accepted")
	}
	ok(t, db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
		_, err := store.EnqueueSQL(ctx, tx.Tx, orderPlaced("Ada"))
		return err
	}))

	list, err := store.List(t.Context(), outbox.Filter{})
	ok(t, err)
	if len(list.Records) != 1 || list.Records[0].Key != "Ada" {
		t.Errorf("got %d messages, want Ada's", len(list.Records))
	}
}

// What commits by itself is no transaction, whichever library it is of.
func TestNoPoolIsTakenForATransaction(t *testing.T) {
	for name, handle := range map[string]any{
		"*sql.DB": (*sql.DB)(nil), "*sql.Conn": (*sql.Conn)(nil), "*sqlx.DB": (*sqlx.DB)(nil), "*sqlx.Conn": (*sqlx.Conn)(nil),
		"*bun.DB": (*bun.DB)(nil), "bun.Conn": bun.Conn{}, "*ent.Client": (*ent.Client)(nil), "*gorm.DB": (*gorm.DB)(nil),
		"*gorm.PreparedStmtDB": (*gorm.PreparedStmtDB)(nil), "*pgxpool.Pool": (*pgxpool.Pool)(nil), "*pgx.Conn": (*pgx.Conn)(nil),
	} {
		_, forSQLite := handle.(sqlitestore.Tx)
		_, forMySQL := handle.(mysqlstore.Tx)
		_, forSQL := handle.(pgstore.SQLTx)
		_, forPgx := handle.(pgx.Tx)
		if forSQLite || forMySQL || forSQL || forPgx {
			t.Errorf("%s is taken for a transaction", name)
		}
	}
	for name, tx := range map[string]any{
		"*sql.Tx": (*sql.Tx)(nil), "*sqlx.Tx": (*sqlx.Tx)(nil), "*ent.Tx": (*ent.Tx)(nil), "*gorm.PreparedStmtTX": (*gorm.PreparedStmtTX)(nil),
	} {
		_, forSQLite := tx.(sqlitestore.Tx)
		_, forMySQL := tx.(mysqlstore.Tx)
		_, forSQL := tx.(pgstore.SQLTx)
		if !forSQLite || !forMySQL || !forSQL {
			t.Errorf("%s is not taken for a transaction", name)
		}
	}
}

func openSQLite(t *testing.T) (*sql.DB, *sqlitestore.Store) {
	t.Helper()
	db, err := sql.Open(sqlite.DriverName, "file:"+filepath.Join(t.TempDir(), "shop.db")+"?_pragma=busy_timeout(10000)&_pragma=foreign_keys(1)")
	ok(t, err)
	t.Cleanup(func() { ok(t, db.Close()) })
	ok(t, sqlitestore.Prepare(t.Context(), db))
	_, err = db.ExecContext(t.Context(), "CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT, customer TEXT NOT NULL)")
	ok(t, err)
	store, err := sqlitestore.New(db, sqlitestore.Config{Table: "shop_outbox"})
	ok(t, err)
	_, err = store.Migrate(t.Context())
	ok(t, err)
	return db, store
}

func openGORM(t *testing.T, db *sql.DB, prepare bool) *gorm.DB {
	t.Helper()
	g, err := gorm.Open(&sqlite.Dialector{Conn: db}, &gorm.Config{PrepareStmt: prepare, Logger: logger.Discard})
	ok(t, err)
	return g
}

func openPostgres(t *testing.T) (*pgxpool.Pool, *pgstore.Store) {
	t.Helper()
	pool := testenv.Postgres(t).Pool(t)
	_, err := pool.Exec(t.Context(), "CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer text NOT NULL)")
	ok(t, err)
	store, err := pgstore.New(pool, pgstore.Config{Table: "shop_outbox"})
	ok(t, err)
	_, err = store.Migrate(t.Context())
	ok(t, err)
	return pool, store
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
