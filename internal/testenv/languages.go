package testenv

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The producers in other languages are tested with their usual drivers.
var (
	python = Backend{
		Name:     "python",
		packages: []string{"python3", "python3-psycopg2"},
		find:     func() error { _, err := pythonPath(); return err },
	}
	node = Backend{
		Name:     "node",
		packages: []string{"npm"},
		find:     func() error { return run(nodePath(), "-e", "require('node:sqlite'); require('pg')") },
		fetch:    fetchNode,
	}
)

// Python returns a Python that has psycopg2 and sqlite3.
func Python(t testing.TB) string {
	t.Helper()
	python.need(t)
	path, err := pythonPath()
	if err != nil {
		python.missing(t, err)
	}
	return path
}

// Debian's modules are those of Debian's Python, which need not be the first one.
func pythonPath() (path string, err error) {
	for _, path = range []string{"python3", "/usr/bin/python3"} {
		if err = run(path, "-c", "import psycopg2, sqlite3"); err == nil {
			return path, nil
		}
	}
	return "", err
}

// Node returns a command with Node that has node:sqlite (22.5 and later) and pg.
func Node(t testing.TB) *exec.Cmd {
	t.Helper()
	node.need(t)
	if err := node.find(); err != nil {
		node.missing(t, err)
	}
	return command(nodePath())
}

const nodeModules = "node-24"

func nodeDir() string {
	dir, err := cached(nodeModules)
	if err != nil {
		return filepath.Join(os.TempDir(), nodeModules)
	}
	return dir
}

func nodePath() string { return filepath.Join(nodeDir(), "node_modules", ".bin", "node") }

// fetchNode installs Node and its driver for PostgreSQL from npm: Debian's Node is too
// old.
func fetchNode(w io.Writer) error {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return err
	}
	fmt.Fprintln(w, "fetching Node and pg")
	dir := nodeDir()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return run(npm, "install", "--prefix", dir, "--no-audit", "--no-fund", "node@24", "pg@8")
}

func command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(nodeDir(), "node_modules"))
	return cmd
}

func run(name string, args ...string) error {
	if out, err := command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(name), err, out)
	}
	return nil
}
