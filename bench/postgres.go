package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// settings are those of the measurements: durable, with room. synchronous_commit
// is the default, on.
var settings = []string{
	"fsync=on",
	"shared_buffers=1GB",
	"max_wal_size=4GB",
	"max_connections=200",
	"listen_addresses=127.0.0.1",
	"unix_socket_directories=",
	"timezone=UTC",
	"log_min_messages=warning",
}

// A server is a private PostgreSQL.
type server struct {
	*process
	admin *pgxpool.Pool
	made  int // databases
}

// startServer starts a server with these settings and some more.
func startServer(ctx context.Context, more ...string) (*server, error) {
	bin, err := postgresBin()
	if err != nil {
		return nil, err
	}
	p, err := newProcess()
	if err != nil {
		return nil, err
	}
	s := &server{process: p}
	if err := s.start(ctx, bin, slices.Concat(settings, more)); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

func (s *server) start(ctx context.Context, bin string, settings []string) (err error) {
	data := filepath.Join(s.dir, "data")
	err = s.prepare(ctx, filepath.Join(bin, "initdb"), "--pgdata="+data, "--username=postgres", "--auth=trust",
		"--encoding=UTF8", "--locale=C", "--no-sync")
	if err != nil {
		return err
	}
	if s.admin, err = pgxpool.New(ctx, s.dsn("postgres")); err != nil {
		return err
	}
	argv := []string{filepath.Join(bin, "postgres"), "-D", data, "-c", "port=" + strconv.Itoa(s.port)}
	for _, setting := range settings {
		argv = append(argv, "-c", setting)
	}
	return s.process.start(ctx, "INT", argv, s.admin.Ping)
}

// stop returns when the server and its files are gone.
func (s *server) stop() error {
	if s.admin != nil {
		s.admin.Close()
	}
	return s.process.stop()
}

func (s *server) dsn(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", s.port, database)
}

func (s *server) version(ctx context.Context) (v string, err error) {
	return v, s.admin.QueryRow(ctx, "SHOW server_version").Scan(&v)
}

// A database is what one cell of the measurement owns.
type database struct {
	*pgxpool.Pool
	server *server
	name   string
	dsn    string
}

// poolSize is enough for 16 producers or 16 workers that hold a connection each.
const poolSize = 40

func (s *server) database(ctx context.Context) (*database, error) {
	s.made++
	name := fmt.Sprintf("bench_%d", s.made)
	if _, err := s.admin.Exec(ctx, "CREATE DATABASE "+name+" TEMPLATE template0"); err != nil {
		return nil, err
	}
	d := &database{server: s, name: name, dsn: s.dsn(name)}
	var err error
	d.Pool, err = newPool(ctx, d.dsn)
	return d, err
}

func newPool(ctx context.Context, dsn string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = poolSize
	return pgxpool.NewWithConfig(ctx, cfg)
}

func (d *database) drop(ctx context.Context) error {
	if d.Pool != nil {
		d.Close()
	}
	_, err := d.server.admin.Exec(context.WithoutCancel(ctx), "DROP DATABASE "+d.name+" WITH (FORCE)")
	return err
}

// script runs statements one by one, because VACUUM wants no transaction.
func (d *database) script(ctx context.Context, statements ...string) error {
	for _, statement := range statements {
		if _, err := d.Exec(ctx, statement, pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("%.60s: %w", statement, err)
		}
	}
	return nil
}

// settle brings the tables into the state of a server at rest: vacuumed, with
// statistics, and just after a checkpoint, so that the first change of each page is
// logged as a whole page for everybody alike.
func (d *database) settle(ctx context.Context) error {
	var tables string
	err := d.QueryRow(ctx, `SELECT string_agg(relid::regclass::text, ', ') FROM pg_stat_user_tables`).Scan(&tables)
	if err != nil {
		return err
	}
	return d.script(ctx, "VACUUM ANALYZE "+tables, "CHECKPOINT")
}

// written is the position of the write-ahead log, in bytes.
func (d *database) written(ctx context.Context) (n float64, err error) {
	return n, d.QueryRow(ctx, "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8").Scan(&n)
}

// postgresBin is the directory of initdb and postgres: OUTBOX_TEST_PG_BIN, the
// newest Debian version, or what the PATH has.
func postgresBin() (string, error) {
	if dir := os.Getenv("OUTBOX_TEST_PG_BIN"); dir != "" {
		return dir, nil
	}
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb"); len(found) > 0 {
		version := func(path string) int {
			v, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path)))) // 0 sorts first
			return v
		}
		return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })), nil
	}
	path, err := exec.LookPath("initdb")
	if err != nil {
		return "", fmt.Errorf("PostgreSQL is not installed and OUTBOX_TEST_PG_BIN is not set: %w", err)
	}
	return filepath.Dir(path), nil
}
