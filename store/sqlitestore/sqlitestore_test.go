package sqlitestore_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/store/sqlitestore"
	"github.com/go-outbox/outbox/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const table = "shop_outbox"

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		file := newFile(t)
		db := open(t, file)
		store := newStore(t, db)
		migrated(t, db, store)
		return storetest.Harness{
			Store:      store,
			Reopen:     func(t *testing.T) outbox.Store { return newStore(t, open(t, file)) },
			Begin:      func(t *testing.T) storetest.Tx { return begin(t, db, store) },
			Autocommit: store.EnqueueAutocommit,
			Shift:      func(t *testing.T, d time.Duration) { shift(t, db, d) },
			InsertRaw:  func(t *testing.T, topic, key, payload string) int64 { return insertRaw(t, db, topic, key, payload) },
			Features:   storetest.Features{Savepoints: true, Binary: true},
		}
	})
}

func newFile(t testing.TB) string { return filepath.Join(t.TempDir(), "outbox.db") }

// open returns a handle of its own, as another process would have.
func open(t testing.TB, file string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(20000)&_pragma=synchronous(FULL)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func newStore(t testing.TB, db *sql.DB) *sqlitestore.Store {
	t.Helper()
	store, err := sqlitestore.New(db, sqlitestore.Config{Table: table})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// migrated puts the file of a store into WAL mode and creates the schema.
func migrated(t testing.TB, db *sql.DB, store *sqlitestore.Store) {
	t.Helper()
	if err := sqlitestore.Prepare(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// newMigrated is a store on a new file.
func newMigrated(t testing.TB) (*sqlitestore.Store, *sql.DB) {
	t.Helper()
	db := open(t, newFile(t))
	store := newStore(t, db)
	migrated(t, db, store)
	return store, db
}

type callerTx struct {
	*sql.Tx
	store *sqlitestore.Store
}

func begin(t *testing.T, db *sql.DB, store *sqlitestore.Store) storetest.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() }) // an error after Commit
	return callerTx{tx, store}
}

func (x callerTx) Enqueue(ctx context.Context, msg outbox.Message) (int64, error) {
	return x.store.Enqueue(ctx, x.Tx, msg)
}

func (x callerTx) EnqueueMany(ctx context.Context, msgs []outbox.Message) ([]int64, error) {
	return x.store.EnqueueMany(ctx, x.Tx, msgs)
}

func (x callerTx) Savepoint(name string) error {
	_, err := x.Exec("SAVEPOINT " + name)
	return err
}

func (x callerTx) RollbackTo(name string) error {
	_, err := x.Exec("ROLLBACK TO " + name)
	return err
}

func shift(t *testing.T, db *sql.DB, d time.Duration) {
	t.Helper()
	for _, c := range []struct{ table, columns string }{
		{table, "created_at = created_at - ?1, available_at = available_at - ?1, published_at = published_at - ?1, dead_at = dead_at - ?1"},
		{table + "_lease", "expires_at = expires_at - ?1"},
		{table + "_batch", "recorded_at = recorded_at - ?1, beat = beat - ?1"},
		{table + "_relay", "seen_at = seen_at - ?1"},
		{table + "_attempt", "at = at - ?1"},
		{"outbox_job", "cut = cut - ?1, next_at = next_at - ?1, driven_at = driven_at - ?1"},
	} {
		mustExec(t, db, "UPDATE "+c.table+" SET "+c.columns, d.Microseconds())
	}
}

func mustExec(t testing.TB, db *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func insertRaw(t *testing.T, db *sql.DB, topic, key, payload string) (sequence int64) {
	t.Helper()
	err := db.QueryRowContext(t.Context(),
		"INSERT INTO "+table+" (topic, msg_key, payload) VALUES (?, ?, ?) RETURNING sequence", topic, key, payload).Scan(&sequence)
	if err != nil {
		t.Fatal(err)
	}
	return sequence
}
