package testenv

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The address of a PostgreSQL server whose user may create databases.
const (
	pgVariable  = "OUTBOX_TEST_PG"  // set by `testenv run`
	dsnVariable = "OUTBOX_TEST_DSN" // set by people who bring their own server
)

var postgres = Backend{
	Name:     "postgres",
	packages: []string{"postgresql-15"},
	find: func() error {
		if externalPostgres() != "" {
			return nil
		}
		_, err := postgresBin()
		return err
	},
	start: func() (*Shared, error) {
		if externalPostgres() != "" {
			return nil, nil // the tests see the same variable
		}
		s, err := newPGServer()
		if err != nil {
			return nil, err
		}
		return &Shared{Variable: pgVariable, Address: s.dsn("postgres"), process: s.process}, nil
	},
}

// PG is a PostgreSQL database that one test owns. Postgres makes it; it is safe
// for concurrent use.
type PG struct{ dsn string }

// DSN returns the address of the database, as a URL when testenv runs the
// server. Its user is a superuser of that server.
func (p *PG) DSN() string { return p.dsn }

// Pool opens a pool on the database and closes it when the test ends.
func (p *PG) Pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), p.dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// Postgres returns a new, empty database for t and drops it when t ends, with
// whatever is still connected to it. The server is shared: a test that stops
// servers or changes their settings wants PrivatePostgres.
func Postgres(t testing.TB) *PG {
	t.Helper()
	postgres.need(t)
	admin, err := sharedPostgres()
	if err != nil {
		postgres.missing(t, err)
	}

	name := databaseName(t)
	quoted := pgx.Identifier{name}.Sanitize()
	// template1 may have a visitor, and then cannot be copied.
	if err := pgExec(admin, "CREATE DATABASE "+quoted+" TEMPLATE template0"); err != nil {
		t.Fatalf("create database: %v", err)
	}
	t.Cleanup(func() {
		if err := pgExec(admin, "DROP DATABASE IF EXISTS "+quoted+" WITH (FORCE)"); err != nil {
			t.Errorf("drop database: %v", err)
		}
	})
	return &PG{dsn: withDatabase(admin, name)}
}

// A StopMode is how a private server ends.
type StopMode string

const (
	// Fast rolls back open transactions, disconnects clients and shuts down
	// cleanly.
	Fast StopMode = "fast"

	// Immediate ends at once, as in a crash; the next start recovers.
	Immediate StopMode = "immediate"
)

// PGServer is a PostgreSQL server that one test owns and may stop, kill and
// start again; its data and its address survive. PrivatePostgres makes it. Stop
// and Start are not safe for concurrent use with each other.
type PGServer struct {
	t      testing.TB
	server *pgServer
}

// PrivatePostgres starts a server for t and removes it when t ends. It takes
// about a second. It always runs the programs found on this machine, even when
// the shared server is somewhere else. Settings are "name=value" pairs, such as
// "wal_level=logical".
func PrivatePostgres(t testing.TB, settings ...string) *PGServer {
	t.Helper()
	postgres.need(t)
	if _, err := postgresBin(); err != nil {
		postgres.missing(t, err)
	}
	s, err := newPGServer(settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		discard(t, s.process)
		os.RemoveAll(s.dir) // in case the test left it stopped
	})
	return &PGServer{t: t, server: s}
}

// DSN returns the address of the server's only database. It stays the same
// over Stop and Start.
func (p *PGServer) DSN() string { return p.server.dsn("postgres") }

// Pid returns the process id of the running server, for tests that send it
// signals.
func (p *PGServer) Pid() int {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join(p.server.data, "postmaster.pid"))
	if err != nil {
		p.t.Fatalf("is the server running? %v", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(line)
	if err != nil {
		p.t.Fatalf("postmaster.pid: %v", err)
	}
	return pid
}

// Stop stops the server and returns when all its processes are gone. It is fine
// if the server was killed before.
func (p *PGServer) Stop(mode StopMode) {
	p.t.Helper()
	signal := map[StopMode]string{Fast: "INT", Immediate: "QUIT"}[mode]
	if signal == "" {
		p.t.Fatalf("no stop mode %q", mode)
	}
	if err := p.server.process.signal(signal); err != nil {
		p.t.Fatal(err)
	}
}

// Start starts a server that was stopped or killed, with its data and address.
// After a kill it waits for the server's orphans first, because their shared
// memory keeps a new server from starting.
func (p *PGServer) Start() {
	p.t.Helper()
	if old := p.server.process; !old.stopped {
		if err := old.exited(10 * time.Second); err != nil {
			p.t.Fatalf("start %s: %v", old.name, err)
		}
		p.Stop(Immediate)
	}
	if err := p.server.start(); err != nil {
		p.t.Fatal(err)
	}
}

// sharedPostgres returns the admin address of the server that the tests of this
// process share, and starts one when the environment names none.
func sharedPostgres() (string, error) {
	if dsn := externalPostgres(); dsn != "" {
		return dsn, nil
	}
	s, err := ownPostgres()
	if err != nil {
		return "", err
	}
	return s.dsn("postgres"), nil
}

// ownPostgres has no matching stop: the supervisor sees this process exit.
var ownPostgres = sync.OnceValues(func() (*pgServer, error) { return newPGServer() })

func externalPostgres() string {
	for _, name := range []string{pgVariable, dsnVariable} {
		if dsn := os.Getenv(name); dsn != "" {
			return dsn
		}
	}
	return ""
}

// pgServer is a server with a data directory of its own.
type pgServer struct {
	bin      string
	dir      string
	data     string
	port     int
	settings []string
	process  *process
}

func newPGServer(settings ...string) (*pgServer, error) {
	bin, err := postgresBin()
	if err != nil {
		return nil, err
	}
	dir, err := serverDir("postgres")
	if err != nil {
		return nil, err
	}
	s := &pgServer{bin: bin, dir: dir, data: filepath.Join(dir, "data"), settings: settings}
	err = s.initdb()
	if err == nil {
		err = anywhere(&s.port, s.start)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

func (s *pgServer) initdb() error {
	cmd := exec.Command(filepath.Join(s.bin, "initdb"), "--pgdata="+s.data, "--username=postgres",
		"--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
	cmd.Dir = s.dir
	cmd.SysProcAttr = sysProcAttr()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return nil
}

func (s *pgServer) start() error {
	argv := []string{filepath.Join(s.bin, "postgres"), "-D", s.data}
	for _, setting := range append(s.defaults(), s.settings...) {
		argv = append(argv, "-c", setting)
	}
	process, err := spawn(s.dir, "QUIT", argv...)
	if err != nil {
		return err
	}
	s.process = process
	if err := process.awaitReady(func() error { return pgExec(s.dsn("postgres"), "SELECT 1") }); err != nil {
		return errors.Join(err, process.signal("QUIT"))
	}
	return nil
}

// defaults are the settings of every server: durable, because tests kill
// servers and look at what survived; otherwise small.
func (s *pgServer) defaults() []string {
	return []string{
		"listen_addresses=127.0.0.1",
		"port=" + strconv.Itoa(s.port),
		"unix_socket_directories=",
		"max_connections=300",
		"shared_buffers=64MB",
		"fsync=on",
		"timezone=UTC",
		"log_min_messages=warning",
		"log_line_prefix=%m [%p] %d ",
	}
}

func (s *pgServer) dsn(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", s.port, database)
}

// postgresBin returns the directory of initdb and postgres: OUTBOX_TEST_PG_BIN,
// the newest Debian version, or what the PATH has.
func postgresBin() (string, error) {
	if dir := os.Getenv("OUTBOX_TEST_PG_BIN"); dir != "" {
		_, err := os.Stat(filepath.Join(dir, "initdb"))
		return dir, err
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) > 0 {
		slices.SortFunc(found, func(a, b string) int { return debianVersion(a) - debianVersion(b) })
		return filepath.Dir(found[len(found)-1]), nil
	}
	path, err := exec.LookPath("initdb")
	if err != nil {
		return "", fmt.Errorf("%w, and neither %s nor OUTBOX_TEST_PG_BIN is set", err, dsnVariable)
	}
	return filepath.Dir(path), nil
}

// debianVersion reads 15 out of /usr/lib/postgresql/15/bin/initdb.
func debianVersion(path string) int {
	v, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return v
}

// databaseName says whose database it is, for a person who lists them.
func databaseName(t testing.TB) string {
	clean := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToLower(t.Name()))
	return fmt.Sprintf("t_%.30s_%d_%d", clean, os.Getpid(), time.Now().UnixNano())
}

// withDatabase returns dsn, a URL or "key=value" list, with another database.
func withDatabase(dsn, database string) string {
	u, err := url.Parse(dsn)
	if err != nil || u.Scheme == "" {
		return dsn + " dbname=" + database // the last one counts
	}
	u.Path = "/" + database
	return u.String()
}

func pgExec(dsn, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return err
}
