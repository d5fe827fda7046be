package inbox_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/go-outbox/outbox/inbox"
	"github.com/go-outbox/outbox/inbox/pginbox"
	"github.com/go-outbox/outbox/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A fixture is one inbox in a database of its own, with a table of effects.
type fixture struct {
	box interface {
		Migrate(context.Context) ([]int, error)
		CheckSchema(context.Context) error
		Clean(context.Context, time.Duration) (int64, error)
	}
	begin func(context.Context) (work, error)
	db    *sql.DB // to look with
	age   string  // makes marks an hour older
}

// A work is one transaction of a consumer.
type work interface {
	once(ctx context.Context, consumer string, event uuid.UUID, fn func() error) (bool, error)
	many(ctx context.Context, consumer string, events []uuid.UUID, fn func([]uuid.UUID) error) (int, error)
	exec(ctx context.Context, statement string) error
	commit(ctx context.Context) error
	rollback(ctx context.Context) error
}

var backends = []struct {
	name string
	open func(t testing.TB) fixture
}{
	{"pgx", openPgx},
	{"postgres", func(t testing.TB) fixture { return openPostgres(t, "pgx") }},
	{"postgres with lib-pq", func(t testing.TB) fixture { return openPostgres(t, "postgres") }},
	{"mysql", func(t testing.TB) fixture { return openMySQL(t) }},
	{"mysql with found rows", func(t testing.TB) fixture { return openMySQL(t, "clientFoundRows=true", "interpolateParams=true") }},
	{"sqlite", openSQLite},
}

// each runs a claim on every database.
func each(t *testing.T, claim func(t *testing.T, f fixture)) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			f := b.open(t)
			if _, err := f.box.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			f.must(t, `CREATE TABLE effect (event_id varchar(36) NOT NULL)`)
			claim(t, f)
		})
	}
}

const agePostgres = `UPDATE inbox SET marked_at = marked_at - interval '1 hour'`

func openPgx(t testing.TB) fixture {
	db := testenv.Postgres(t)
	pool := db.Pool(t)
	box, err := pginbox.New(pool, pginbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return fixture{box: box, begin: beginPgx(pool, box), db: open(t, "pgx", db.DSN()), age: agePostgres}
}

func openPostgres(t testing.TB, driver string) fixture {
	return openSQL(t, driver, testenv.Postgres(t).DSN(), inbox.PostgreSQL, agePostgres)
}

func openMySQL(t testing.TB, params ...string) fixture {
	return openSQL(t, "mysql", testenv.MySQL(t).DSN(params...), inbox.MySQL,
		`UPDATE inbox SET marked_at = marked_at - INTERVAL 1 HOUR`)
}

func openSQLite(t testing.TB) fixture {
	file := filepath.Join(t.TempDir(), "inbox.db")
	dsn := "file:" + file + "?_txlock=immediate&_pragma=busy_timeout(60000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)"
	return openSQL(t, "sqlite", dsn, inbox.SQLite, `UPDATE inbox SET marked_at = marked_at - 3600000000`)
}

func openSQL(t testing.TB, driver, dsn string, dialect inbox.Dialect, age string) fixture {
	t.Helper()
	db := open(t, driver, dsn)
	box, err := inbox.New(db, dialect, inbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return fixture{box: box, begin: beginSQL(db, box), db: db, age: age}
}

func open(t testing.TB, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxIdleConns(16)
	t.Cleanup(func() { db.Close() })
	return db
}

type sqlWork struct {
	box *inbox.Inbox
	tx  inbox.Tx
}

func beginSQL(db *sql.DB, box *inbox.Inbox) func(context.Context) (work, error) {
	return func(ctx context.Context) (work, error) {
		tx, err := db.BeginTx(ctx, nil)
		return sqlWork{box, tx}, err
	}
}

func (w sqlWork) once(ctx context.Context, consumer string, event uuid.UUID, fn func() error) (bool, error) {
	return w.box.Once(ctx, w.tx, consumer, event, fn)
}

func (w sqlWork) many(ctx context.Context, consumer string, events []uuid.UUID, fn func([]uuid.UUID) error) (int, error) {
	return w.box.OnceMany(ctx, w.tx, consumer, events, fn)
}

func (w sqlWork) exec(ctx context.Context, statement string) error {
	_, err := w.tx.ExecContext(ctx, statement)
	return err
}

func (w sqlWork) commit(context.Context) error   { return w.tx.Commit() }
func (w sqlWork) rollback(context.Context) error { return w.tx.Rollback() }

type pgxWork struct {
	box *pginbox.Inbox
	tx  pgx.Tx
}

func beginPgx(pool *pgxpool.Pool, box *pginbox.Inbox) func(context.Context) (work, error) {
	return func(ctx context.Context) (work, error) {
		tx, err := pool.Begin(ctx)
		return pgxWork{box, tx}, err
	}
}

func (w pgxWork) once(ctx context.Context, consumer string, event uuid.UUID, fn func() error) (bool, error) {
	return w.box.Once(ctx, w.tx, consumer, event, fn)
}

func (w pgxWork) many(ctx context.Context, consumer string, events []uuid.UUID, fn func([]uuid.UUID) error) (int, error) {
	return w.box.OnceMany(ctx, w.tx, consumer, events, fn)
}

func (w pgxWork) exec(ctx context.Context, statement string) error {
	_, err := w.tx.Exec(ctx, statement)
	return err
}

func (w pgxWork) commit(ctx context.Context) error   { return w.tx.Commit(ctx) }
func (w pgxWork) rollback(ctx context.Context) error { return w.tx.Rollback(ctx) }

func (f fixture) must(t testing.TB, statement string) {
	t.Helper()
	if _, err := f.db.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func (f fixture) count(t testing.TB, query string) (n int) {
	t.Helper()
	if err := f.db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

func (f fixture) mustBegin(t testing.TB) work {
	t.Helper()
	w, err := f.begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// deliver is one delivery that goes well.
func (f fixture) deliver(t testing.TB, consumer string, event uuid.UUID) bool {
	t.Helper()
	w := f.mustBegin(t)
	ran, err := w.once(t.Context(), consumer, event, func() error { return w.exec(t.Context(), effect(event)) })
	if err != nil {
		t.Fatal(err)
	}
	if err := w.commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	return ran
}

func effect(event uuid.UUID) string { return `INSERT INTO effect VALUES ('` + event.String() + `')` }
