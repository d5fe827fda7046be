package migrate_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/go-outbox/outbox/internal/migrate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// database is the smallest honest dialect: a real SQLite file, whose
// immediate transaction is the lock.
type database struct {
	db    *sql.DB
	table string

	// beforeLock, when set, may refuse the nth lock.
	beforeLock func(n int) error
	locks      int
}

var _ migrate.Database = (*database)(nil)

// open returns a handle of its own, as another process would have. It leaves
// the journal mode alone: handles that switch a new file to WAL at the same
// time get SQLITE_BUSY at once, whatever the busy timeout.
func open(t testing.TB, file, table string) *database {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate&_pragma=busy_timeout(20000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return &database{db: db, table: table}
}

func newFile(t testing.TB) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "outbox.db")
}

func (d *database) Applied(ctx context.Context) ([]migrate.Record, error) {
	return applied(ctx, d.db, d.table)
}

func (d *database) Locked(ctx context.Context, fn func(context.Context, migrate.Tx) error) error {
	d.locks++
	if d.beforeLock != nil {
		if err := d.beforeLock(d.locks); err != nil {
			return err
		}
	}
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := fn(ctx, sqliteTx{tx, d.table}); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

type sqliteTx struct {
	tx    *sql.Tx
	table string
}

func (x sqliteTx) Applied(ctx context.Context) ([]migrate.Record, error) {
	return applied(ctx, x.tx, x.table)
}

func (x sqliteTx) Pending(ctx context.Context) (n int64, err error) {
	query := fmt.Sprintf(`SELECT count(*) FROM %q WHERE published_at IS NULL`, x.table)
	err = x.tx.QueryRowContext(ctx, query).Scan(&n)
	return n, err
}

func (x sqliteTx) Exec(ctx context.Context, statement string) error {
	_, err := x.tx.ExecContext(ctx, statement)
	return err
}

type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func applied(ctx context.Context, q querier, table string) ([]migrate.Record, error) {
	var exists bool
	const lookup = `SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'outbox_migration'`
	if err := q.QueryRowContext(ctx, lookup).Scan(&exists); err != nil || !exists {
		return nil, err
	}
	rows, err := q.QueryContext(ctx,
		`SELECT version, name, applied_at FROM outbox_migration WHERE table_name = ? ORDER BY version`, table)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []migrate.Record
	for rows.Next() {
		var r migrate.Record
		var seconds int64
		if err := rows.Scan(&r.Version, &r.Name, &seconds); err != nil {
			return nil, err
		}
		r.AppliedAt = time.Unix(seconds, 0)
		list = append(list, r)
	}
	return list, rows.Err()
}

func (d *database) exec(t testing.TB, statement string) {
	t.Helper()
	if _, err := d.db.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// schema lists everything in the file, so that tests can compare two.
func (d *database) schema(t testing.TB) []string {
	t.Helper()
	rows, err := d.db.QueryContext(t.Context(), `SELECT type || ' ' || name FROM sqlite_master ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var list []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		list = append(list, s)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}
