package mysqlstore_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/store/mysqlstore"
	"github.com/go-outbox/outbox/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const table = "shop_outbox"

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness { return harness(t, testenv.MySQL(t)) })
}

// What the DSN says is the application's business and must not change what is stored.
func TestStoreWithTheOddestConnection(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		return harness(t, testenv.MySQL(t), "parseTime=true", "loc=America%2FNew_York", "time_zone=%27%2B05%3A30%27",
			"clientFoundRows=true", "interpolateParams=true", "tx_isolation=%27SERIALIZABLE%27", "sql_mode=%27ANSI%2CNO_BACKSLASH_ESCAPES%27")
	})
}

func harness(t *testing.T, m *testenv.MySQLDB, params ...string) storetest.Harness {
	db := m.Open(t, params...)
	store := newStore(t, db)
	migrated(t, store)
	return storetest.Harness{
		Store:      store,
		Reopen:     func(t *testing.T) outbox.Store { return newStore(t, m.Open(t, params...)) },
		Begin:      func(t *testing.T) storetest.Tx { return begin(t, db, store) },
		Autocommit: store.EnqueueAutocommit,
		Shift:      func(t *testing.T, d time.Duration) { shift(t, db, d) },
		InsertRaw:  func(t *testing.T, topic, key, payload string) int64 { return insertRaw(t, db, topic, key, payload) },
		Features:   storetest.Features{Savepoints: true, Shards: true, LateCommit: true, Binary: true},
	}
}

func newStore(t testing.TB, db *sql.DB) *mysqlstore.Store {
	t.Helper()
	store, err := mysqlstore.New(db, mysqlstore.Config{Table: table})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func migrated(t testing.TB, store *mysqlstore.Store) {
	t.Helper()
	if _, err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// newMigrated is a store in a new database.
func newMigrated(t testing.TB, params ...string) (*mysqlstore.Store, *sql.DB) {
	t.Helper()
	db := testenv.MySQL(t).Open(t, params...)
	store := newStore(t, db)
	migrated(t, store)
	return store, db
}

type callerTx struct {
	*sql.Tx
	store *mysqlstore.Store
}

func begin(t *testing.T, db *sql.DB, store *mysqlstore.Store) storetest.Tx {
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
	for _, c := range []struct {
		table   string
		columns []string
	}{
		{table, []string{"created_at", "available_at", "published_at", "dead_at"}},
		{table + "_lease", []string{"expires_at"}},
		{table + "_batch", []string{"recorded_at", "beat"}},
		{table + "_relay", []string{"seen_at"}},
		{table + "_attempt", []string{"at"}},
		{"outbox_job", []string{"cut", "next_at", "driven_at"}},
	} {
		set := ""
		args := []any{}
		for i, column := range c.columns {
			if i > 0 {
				set += ", "
			}
			set += column + " = " + column + " - INTERVAL ? MICROSECOND"
			args = append(args, d.Microseconds())
		}
		mustExec(t, db, "UPDATE "+c.table+" SET "+set, args...)
	}
}

func mustExec(t testing.TB, db *sql.DB, query string, args ...any) sql.Result {
	t.Helper()
	res, err := db.ExecContext(t.Context(), query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return res
}

func insertRaw(t testing.TB, db *sql.DB, topic, key, payload string) (sequence int64) {
	t.Helper()
	sequence, err := mustExec(t, db, "INSERT INTO "+table+" (topic, msg_key, payload) VALUES (?, ?, ?)", topic, key, payload).LastInsertId()
	if err != nil {
		t.Fatal(err)
	}
	return sequence
}

func message(key string) outbox.Message {
	return outbox.Message{Topic: "shop.order.placed.v1", Key: key, Payload: []byte(`{"n":1}`)}
}

func acquire(t testing.TB, store outbox.Store, instance string) outbox.Lease {
	t.Helper()
	lease, err := store.Acquire(t.Context(), outbox.LeaseRequest{Instance: instance, TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func read(t testing.TB, lease outbox.Lease, req outbox.ReadRequest) outbox.Page {
	t.Helper()
	page, err := lease.Read(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return page
}
