package mysqlstore_test

import (
	"bytes"
	"context"
	"database/sql"
	"net"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/go-outbox/outbox/internal/testenv"
)

// breaking is a connection that is gone when a statement is sent on it, while there are
// breaks left.
type breaking struct {
	net.Conn
	statement []byte
	left      *atomic.Int64
}

func (b breaking) Write(p []byte) (int, error) {
	if bytes.Contains(p, b.statement) && b.left.Add(-1) >= 0 {
		b.Close() // the answer never comes
		return len(p), nil
	}
	return b.Conn.Write(p)
}

// openBreaking opens a database whose connections break so often at a statement.
func openBreaking(t *testing.T, statement string, breaks int64) *sql.DB {
	t.Helper()
	cfg, err := mysql.ParseDSN(testenv.MySQL(t).DSN())
	if err != nil {
		t.Fatal(err)
	}
	var left atomic.Int64
	left.Store(breaks)
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return breaking{conn, []byte(statement), &left}, err
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	return db
}

func TestAMigrationBeginsAnewWhenItsConnectionBreaks(t *testing.T) {
	for _, statement := range []string{"SELECT version, name", "GET_LOCK", "CREATE TABLE", "INSERT INTO"} {
		t.Run(statement, func(t *testing.T) {
			store := newStore(t, openBreaking(t, statement, 1))
			if versions, err := store.Migrate(t.Context()); err != nil || len(versions) != 1 {
				t.Fatalf("applied %v, %v", versions, err)
			}
			if err := store.CheckSchema(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAMigrationGivesUpOnAConnectionThatBreaksAgainAndAgain(t *testing.T) {
	store := newStore(t, openBreaking(t, "SELECT version, name", 100))
	if _, err := store.Migrate(t.Context()); err == nil {
		t.Error("it succeeded without a connection")
	}
}
