package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestPostgresGivesEveryTestItsOwnEmptyDatabase(t *testing.T) {
	first, second := Postgres(t), Postgres(t)

	mustExec(t, first.DSN(), "CREATE TABLE mine (id int)")

	if got := queryInt(t, second.DSN(), "SELECT count(*) FROM pg_tables WHERE tablename = 'mine'"); got != 0 {
		t.Error("the second database sees the first one's table")
	}
	if pool := first.Pool(t); pool.Ping(t.Context()) != nil {
		t.Error("the pool does not reach the database")
	}
}

func TestPostgresDropsTheDatabaseUnderOpenConnections(t *testing.T) {
	outer := t
	var dsn string
	t.Run("owner", func(t *testing.T) {
		dsn = Postgres(t).DSN()
		conn, err := pgx.Connect(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		outer.Cleanup(func() { conn.Close(outer.Context()) }) // after the drop
	})
	if dsn == "" {
		t.Skip("no database")
	}

	if err := pgExec(dsn, "SELECT 1"); err == nil || !strings.Contains(err.Error(), "3D000") {
		t.Errorf("the database outlived its test: %v", err)
	}
}

func TestPrivatePostgresKeepsDataAndAddressOverStopAndStart(t *testing.T) {
	server := PrivatePostgres(t)
	dsn := server.DSN()
	mustExec(t, dsn, "CREATE TABLE kept (id int)")

	for i, mode := range []StopMode{Fast, Immediate} {
		mustExec(t, dsn, "INSERT INTO kept VALUES (1)")
		server.Stop(mode)
		if pgExec(dsn, "SELECT 1") == nil {
			t.Fatalf("%s: the stopped server answers", mode)
		}
		server.Start()
		if got := queryInt(t, dsn, "SELECT count(*) FROM kept"); got != i+1 {
			t.Fatalf("%s: %d committed rows survived, want %d", mode, got, i+1)
		}
	}
}

func TestPrivatePostgresStartsAgainAfterAKill(t *testing.T) {
	server := PrivatePostgres(t)

	if err := syscall.Kill(server.Pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	server.Start()

	mustExec(t, server.DSN(), "SELECT 1")
}

func TestPrivatePostgresAcceptsSettings(t *testing.T) {
	server := PrivatePostgres(t, "wal_level=logical", "max_connections=17")

	if got := queryInt(t, server.DSN(), "SELECT current_setting('max_connections')::int"); got != 17 {
		t.Errorf("max_connections = %d, want 17", got)
	}
}

func TestPrivatePostgresLeavesNothingBehind(t *testing.T) {
	var dir string
	var pid int
	t.Run("owner", func(t *testing.T) {
		server := PrivatePostgres(t)
		dir, pid = server.server.dir, server.Pid()
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

// The test starts itself as the process that dies.
func TestServerDiesWithAKilledTestProcess(t *testing.T) {
	if os.Getenv("TESTENV_VICTIM") != "" {
		server := PrivatePostgres(t)
		os.Stdout.WriteString(server.server.dir + " " + strconv.Itoa(server.Pid()) + "\n")
		select {} // until we are killed
	}
	postgres.need(t)
	if _, err := postgresBin(); err != nil {
		postgres.missing(t, err)
	}

	victim := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	victim.Env = append(os.Environ(), "TESTENV_VICTIM=1")
	out, err := victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 512)
	n, _ := out.Read(line)
	dir, pidText, _ := strings.Cut(strings.TrimSpace(string(line[:n])), " ")
	pid, err := strconv.Atoi(pidText)
	if err != nil {
		t.Fatalf("victim said %q", line[:n])
	}

	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = victim.Wait()

	eventually(t, "the server is gone", func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH })
	eventually(t, "its files are gone", func() bool {
		_, err := os.Stat(dir)
		return os.IsNotExist(err)
	})
}

func TestServerThatCannotStartSaysWhy(t *testing.T) {
	postgres.need(t)
	if _, err := postgresBin(); err != nil {
		postgres.missing(t, err)
	}

	_, err := newPGServer("no_such_setting=1")

	if err == nil || !strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("error does not quote the server's log: %v", err)
	}
}

func TestWithDatabaseUnderstandsBothFormsOfDSN(t *testing.T) {
	tests := []struct{ name, dsn, want string }{
		{"url", "postgres://u:p@h:1/a?sslmode=disable", "postgres://u:p@h:1/b?sslmode=disable"},
		{"url without database", "postgres://u@h", "postgres://u@h/b"},
		{"keywords", "host=h dbname=a", "host=h dbname=a dbname=b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := withDatabase(tt.dsn, "b")
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if c, err := pgx.ParseConfig(got); err != nil || c.Database != "b" {
				t.Errorf("pgx reads database %q, %v", c.Database, err)
			}
		})
	}
}

func TestPostgresBinPrefersTheVariable(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("OUTBOX_TEST_PG_BIN", dir)
	if _, err := postgresBin(); err == nil {
		t.Error("a directory without initdb was accepted")
	}

	if err := os.WriteFile(filepath.Join(dir, "initdb"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := postgresBin(); got != dir || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func mustExec(t *testing.T, dsn, sql string) {
	t.Helper()
	if err := pgExec(dsn, sql); err != nil {
		t.Fatal(err)
	}
}

func queryInt(t *testing.T, dsn, sql string) int {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var n int
	if err := conn.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// eventually waits for what another process does, which nothing can announce.
func eventually(t *testing.T, claim string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(20 * time.Second)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("after 20s it is not true that %s", claim)
		}
	}
}
