package testenv

import (
	"database/sql"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestMySQLGivesEveryTestItsOwnEmptyDatabase(t *testing.T) {
	first, second := MySQL(t).Open(t), MySQL(t).Open(t)

	mysqlMust(t, first, "CREATE TABLE mine (id int)")

	if got := mysqlInt(t, second, "SELECT count(*) FROM information_schema.tables WHERE table_schema = database()"); got != 0 {
		t.Error("the second database sees the first one's table")
	}
}

func TestMySQLDropsTheDatabaseUnderOpenConnections(t *testing.T) {
	outer := t
	var dsn string
	t.Run("owner", func(t *testing.T) {
		m := MySQL(t)
		dsn = m.DSN()
		db := m.Open(outer)
		mysqlMust(t, db, "CREATE TABLE kept (id int)")
		tx, err := db.BeginTx(outer.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		outer.Cleanup(func() { _ = tx.Rollback() }) // after the drop: the connection is gone
		if _, err := tx.ExecContext(t.Context(), "INSERT INTO kept VALUES (1)"); err != nil {
			t.Fatal(err)
		}
	})
	if dsn == "" {
		t.Skip("no database")
	}

	if err := mysqlExec(dsn, "SELECT 1"); err == nil || !strings.Contains(err.Error(), "1049") {
		t.Errorf("the database outlived its test: %v", err)
	}
}

func TestPrivateMySQLKeepsDataAndAddress(t *testing.T) {
	server := PrivateMySQL(t)
	db := server.Open(t)
	mysqlMust(t, db, "CREATE TABLE kept (id int)")

	for i, end := range []func(){server.Stop, server.Kill} {
		mysqlMust(t, db, "INSERT INTO kept VALUES (1)")
		end()
		if mysqlExec(server.DSN(), "SELECT 1") == nil {
			t.Fatalf("%d: the stopped server answers", i)
		}
		server.Start()
		if got := mysqlInt(t, db, "SELECT count(*) FROM kept"); got != i+1 {
			t.Fatalf("%d committed rows survived, want %d", got, i+1)
		}
	}
}

func TestPrivateMySQLAcceptsSettingsAndLeavesNothingBehind(t *testing.T) {
	var dir string
	var pid int
	t.Run("owner", func(t *testing.T) {
		server := PrivateMySQL(t, "max-connections=17")
		dir, pid = server.server.dir, server.Pid()
		if got := mysqlInt(t, server.Open(t), "SELECT @@max_connections"); got != 17 {
			t.Errorf("max_connections = %d, want 17", got)
		}
	})
	if dir == "" {
		t.Skip("no server")
	}

	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the data directory is still there: %v", err)
	}
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
		t.Errorf("the server is still there: %v", err)
	}
}

func TestMySQLServerThatCannotStartSaysWhy(t *testing.T) {
	mysql.need(t)
	if _, err := mysqlPrograms(); err != nil {
		mysql.missing(t, err)
	}

	_, err := newMySQLServer("no-such-setting=1")

	if err == nil || !strings.Contains(err.Error(), "no-such-setting") {
		t.Errorf("error does not quote the server's log: %v", err)
	}
}

func TestMySQLAddressesTakeParameters(t *testing.T) {
	for _, tt := range []struct{ dsn, want string }{
		{"root@tcp(h:1)/d", "root@tcp(h:1)/d?a=1&b=2"},
		{"root@tcp(h:1)/d?z=0", "root@tcp(h:1)/d?z=0&a=1&b=2"},
	} {
		if got := withParams(tt.dsn, []string{"a=1", "b=2"}); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
}

func mysqlMust(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

func mysqlInt(t *testing.T, db *sql.DB, query string) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
