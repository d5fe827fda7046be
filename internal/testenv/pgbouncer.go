package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
)

var pgbouncer = Backend{
	Name:     "pgbouncer",
	packages: []string{"pgbouncer"},
	find: func() error {
		_, err := pgbouncerPath()
		return err
	},
}

// PgBouncer starts a PgBouncer in transaction mode in front of the database at
// dsn, stops it when t ends, and returns the address to use instead. Clients
// need no password; PgBouncer logs in with the one in dsn.
func PgBouncer(t testing.TB, dsn string) string {
	t.Helper()
	pgbouncer.need(t)
	path, err := pgbouncerPath()
	if err != nil {
		pgbouncer.missing(t, err)
	}
	target, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := serverDir("pgbouncer")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })

	for range 3 { // another process may take the port first
		var p *process
		var front string
		if p, front, err = startPgBouncer(path, dir, target); err == nil {
			t.Cleanup(func() { discard(t, p) })
			return front
		}
	}
	t.Fatal(err)
	return ""
}

func startPgBouncer(path, dir string, target *pgx.ConnConfig) (*process, string, error) {
	port, err := freePort()
	if err != nil {
		return nil, "", err
	}
	config := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(config, []byte(pgbouncerConfig(port, target)), 0o600); err != nil {
		return nil, "", err
	}
	if err := handOver(config); err != nil {
		return nil, "", err
	}
	p, err := spawn(dir, "TERM", path, config)
	if err != nil {
		return nil, "", err
	}
	front := fmt.Sprintf("postgres://%s@127.0.0.1:%d/%s?sslmode=disable", target.User, port, target.Database)
	// Simple protocol: before 1.21 a prepared statement is lost with its backend.
	probe := front + "&default_query_exec_mode=simple_protocol"
	if err := p.awaitReady(func() error { return pgExec(probe, "SELECT 1") }); err != nil {
		return nil, "", errors.Join(err, p.signal("TERM"))
	}
	return p, front, nil
}

func pgbouncerConfig(port int, target *pgx.ConnConfig) string {
	password := ""
	if target.Password != "" {
		password = " password='" + target.Password + "'"
	}
	return fmt.Sprintf(`[databases]
%s = host=%s port=%d dbname=%s user=%s%s

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_client_conn = 300
default_pool_size = 20
ignore_startup_parameters = extra_float_digits
`, target.Database, target.Host, target.Port, target.Database, target.User, password, port)
}

// pgbouncerPath looks in /usr/sbin too, which is not on everybody's PATH.
func pgbouncerPath() (string, error) {
	path, err := exec.LookPath("pgbouncer")
	if err == nil {
		return path, nil
	}
	const debian = "/usr/sbin/pgbouncer"
	if _, statErr := os.Stat(debian); statErr == nil {
		return debian, nil
	}
	return "", err
}
