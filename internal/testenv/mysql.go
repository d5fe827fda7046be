package testenv

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"
)

// The address of a MariaDB or MySQL server whose user may create databases, in the
// form of github.com/go-sql-driver/mysql.
const (
	mysqlVariable    = "OUTBOX_TEST_MYSQL"     // set by `testenv run`
	mysqlDSNVariable = "OUTBOX_TEST_MYSQL_DSN" // set by people who bring their own server
)

var mysql = Backend{
	Name:     "mysql",
	packages: []string{"mariadb-server"},
	find: func() error {
		if externalMySQL() != "" {
			return nil
		}
		_, err := mysqlPrograms()
		return err
	},
	start: func() (*Shared, error) {
		if externalMySQL() != "" {
			return nil, nil // the tests see the same variable
		}
		s, err := newMySQLServer(careless...)
		if err != nil {
			return nil, err
		}
		return &Shared{Variable: mysqlVariable, Address: s.dsn(), process: s.process}, nil
	},
}

// careless are the settings of the server that tests share: none of them looks at
// what survives a crash of it.
var careless = []string{
	"innodb-flush-method=nosync",
	"innodb-flush-log-at-trx-commit=0",
	"skip-innodb-doublewrite",
}

// MySQLDB is a database that one test owns on a MariaDB or MySQL server. MySQL makes
// it; it is safe for concurrent use.
type MySQLDB struct{ dsn string }

// MySQL returns a new, empty database for t and drops it when t ends, with whatever
// is still connected to it. The server is shared: a test that stops servers or
// changes their settings wants PrivateMySQL.
func MySQL(t testing.TB) *MySQLDB {
	t.Helper()
	mysql.need(t)
	admin, err := sharedMySQL()
	if err != nil {
		mysql.missing(t, err)
	}

	name := databaseName(t)
	if err := mysqlExec(admin, "CREATE DATABASE "+name); err != nil {
		t.Fatalf("create database: %v", err)
	}
	t.Cleanup(func() {
		if err := dropMySQL(admin, name); err != nil {
			t.Errorf("drop database: %v", err)
		}
	})
	cfg, err := driver.ParseDSN(admin)
	if err != nil {
		t.Fatal(err)
	}
	cfg.DBName = name
	return &MySQLDB{dsn: cfg.FormatDSN()}
}

// DSN returns the address of the database with some parameters more, such as
// "parseTime=true". Its user may do everything.
func (m *MySQLDB) DSN(params ...string) string { return withParams(m.dsn, params) }

// Open opens a pool on the database and closes it when the test ends.
func (m *MySQLDB) Open(t testing.TB, params ...string) *sql.DB {
	t.Helper()
	return openMySQL(t, m.DSN(params...))
}

// MySQLServer is a MariaDB server that one test owns and may stop, kill and start
// again; its data and its address survive. PrivateMySQL makes it. Stop, Kill and
// Start are not safe for concurrent use with each other.
type MySQLServer struct {
	t      testing.TB
	server *mysqlServer
}

// PrivateMySQL starts a durable server for t and removes it when t ends. It takes a
// few seconds. It always runs the programs found on this machine, even when the
// shared server is somewhere else. Settings are "name=value" pairs as on the command
// line of the server, such as "max-connections=20".
func PrivateMySQL(t testing.TB, settings ...string) *MySQLServer {
	t.Helper()
	mysql.need(t)
	if _, err := mysqlPrograms(); err != nil {
		mysql.missing(t, err)
	}
	s, err := newMySQLServer(settings...)
	if err == nil {
		err = mysqlExec(s.dsn(), "CREATE DATABASE private")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		discard(t, s.process)
		os.RemoveAll(s.dir) // in case the test left it stopped
	})
	return &MySQLServer{t: t, server: s}
}

// DSN returns the address of the server's only database with some parameters more.
// It stays the same over Stop and Start.
func (m *MySQLServer) DSN(params ...string) string {
	return withParams(strings.Replace(m.server.dsn(), "/?", "/private?", 1), params)
}

// Open opens a pool on the database and closes it when the test ends.
func (m *MySQLServer) Open(t testing.TB, params ...string) *sql.DB {
	t.Helper()
	return openMySQL(t, m.DSN(params...))
}

// Pid returns the process id of the running server.
func (m *MySQLServer) Pid() int {
	m.t.Helper()
	text, err := os.ReadFile(m.server.pidFile())
	if err != nil {
		m.t.Fatalf("is the server running? %v", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		m.t.Fatalf("pid file: %v", err)
	}
	return pid
}

// Stop shuts the server down and returns when it is gone.
func (m *MySQLServer) Stop() {
	m.t.Helper()
	if err := m.server.process.signal("TERM"); err != nil {
		m.t.Fatal(err)
	}
}

// Kill ends the server at once, as a power failure would; the next start recovers.
func (m *MySQLServer) Kill() {
	m.t.Helper()
	if err := m.server.process.signal("KILL"); err != nil {
		m.t.Fatal(err)
	}
}

// Start starts a server that was stopped or killed, with its data and address.
func (m *MySQLServer) Start() {
	m.t.Helper()
	if old := m.server.process; !old.stopped {
		if err := old.exited(10 * time.Second); err != nil {
			m.t.Fatalf("start %s: %v", old.name, err)
		}
		m.Kill()
	}
	if err := m.server.start(); err != nil {
		m.t.Fatal(err)
	}
}

// sharedMySQL returns the admin address of the server that the tests of this process
// share, and starts one when the environment names none.
func sharedMySQL() (string, error) {
	if dsn := externalMySQL(); dsn != "" {
		return dsn, nil
	}
	s, err := ownMySQL()
	if err != nil {
		return "", err
	}
	return s.dsn(), nil
}

// ownMySQL has no matching stop: the supervisor sees this process exit.
var ownMySQL = sync.OnceValues(func() (*mysqlServer, error) { return newMySQLServer(careless...) })

func externalMySQL() string {
	for _, name := range []string{mysqlVariable, mysqlDSNVariable} {
		if dsn := os.Getenv(name); dsn != "" {
			return dsn
		}
	}
	return ""
}

// programs are what a server of its own needs.
type programs struct{ server, install string }

// mysqlPrograms looks in /usr/sbin too, which is not on everybody's PATH.
func mysqlPrograms() (programs, error) {
	var p programs
	var err error
	if p.install, err = exec.LookPath("mariadb-install-db"); err != nil {
		return p, fmt.Errorf("%w, and %s is not set", err, mysqlDSNVariable)
	}
	if p.server, err = exec.LookPath("mariadbd"); err == nil {
		return p, nil
	}
	p.server = "/usr/sbin/mariadbd"
	if _, statErr := os.Stat(p.server); statErr != nil {
		return p, err
	}
	return p, nil
}

// mysqlServer is a server with a data directory of its own.
type mysqlServer struct {
	programs
	dir      string
	port     int
	settings []string
	process  *process
}

func newMySQLServer(settings ...string) (*mysqlServer, error) {
	p, err := mysqlPrograms()
	if err != nil {
		return nil, err
	}
	dir, err := serverDir("mysql")
	if err != nil {
		return nil, err
	}
	s := &mysqlServer{programs: p, dir: dir, settings: settings}
	err = s.install()
	if err == nil {
		err = anywhere(&s.port, s.start)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

func (s *mysqlServer) data() string    { return filepath.Join(s.dir, "data") }
func (s *mysqlServer) pidFile() string { return filepath.Join(s.dir, "mariadbd.pid") }

func (s *mysqlServer) install() error {
	cmd := exec.Command(s.programs.install, "--no-defaults", "--datadir="+s.data(), "--tmpdir="+s.dir, "--skip-test-db",
		"--auth-root-authentication-method=normal", "--innodb-flush-method=nosync", "--innodb-log-file-size=64M")
	cmd.Dir = s.dir
	cmd.SysProcAttr = sysProcAttr()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mariadb-install-db: %w\n%s", err, out)
	}
	return nil
}

// start gives the server a directory for temporary files of its own: one that starts
// deletes those it finds.
func (s *mysqlServer) start() error {
	argv := []string{
		s.server, "--no-defaults", "--tmpdir=" + s.dir,
		"--datadir=" + s.data(), "--pid-file=" + s.pidFile(), "--socket=" + filepath.Join(s.dir, "socket"),
		"--bind-address=127.0.0.1", "--port=" + strconv.Itoa(s.port), "--skip-name-resolve",
		"--max-connections=300", "--innodb-buffer-pool-size=128M", "--innodb-log-file-size=64M",
	}
	for _, setting := range s.settings {
		argv = append(argv, "--"+setting)
	}
	process, err := spawn(s.dir, "KILL", argv...)
	if err != nil {
		return err
	}
	s.process = process
	if err := process.awaitReady(func() error { return mysqlExec(s.dsn(), "SELECT 1") }); err != nil {
		return errors.Join(err, process.signal("KILL"))
	}
	return nil
}

// dsn keeps the driver silent: a server that is killed is part of the test.
func (s *mysqlServer) dsn() string {
	return fmt.Sprintf("root@tcp(127.0.0.1:%d)/?timeout=10s", s.port)
}

func withParams(dsn string, params []string) string {
	for _, p := range params {
		separator := "?"
		if strings.Contains(dsn, "?") {
			separator = "&"
		}
		dsn += separator + p
	}
	return dsn
}

// quiet drops what the driver says about connections that broke.
var quiet = sync.OnceValue(func() error { return driver.SetLogger(&driver.NopLogger{}) })

func openMySQL(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	if err := quiet(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("mysql", dsn)
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

// dropMySQL drops a database under open connections: their transactions would keep
// it for as long as they like.
func dropMySQL(dsn, name string) error {
	return withMySQL(dsn, func(ctx context.Context, db *sql.DB) error {
		rows, err := db.QueryContext(ctx, "SELECT id FROM information_schema.processlist WHERE db = ?", name)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id int64
			if err := rows.Scan(&id); err != nil {
				return err
			}
			_, _ = db.ExecContext(ctx, "KILL "+strconv.FormatInt(id, 10)) // it may have ended meanwhile
		}
		if err := rows.Err(); err != nil {
			return err
		}
		_, err = db.ExecContext(ctx, "DROP DATABASE IF EXISTS "+name)
		return err
	})
}

func mysqlExec(dsn, statement string) error {
	return withMySQL(dsn, func(ctx context.Context, db *sql.DB) error {
		_, err := db.ExecContext(ctx, statement)
		return err
	})
}

func withMySQL(dsn string, fn func(context.Context, *sql.DB) error) error {
	if err := quiet(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return err
	}
	return errors.Join(fn(ctx, db), db.Close())
}
