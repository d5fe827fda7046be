// Package testenv gives tests real servers: a PostgreSQL database of their own,
// a PgBouncer in front of it, a private server to stop and kill.
//
// A test that asks for a backend gets a fresh, empty one that no other test
// sees, and everything is gone when the test ends, even when the test process
// is killed. A backend that cannot be had is never silent: the test is skipped
// with the command that provides it, or fails when the backend is required.
//
// The servers listen on loopback without passwords and are tuned for tests, so
// nothing measured on them says how a production server performs. Nothing here
// installs software during a test; only Install does, and only as root.
package testenv

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
)

// A Backend is one kind of server that tests may ask for. Each lives in a file
// of its own; to add one, write that file and list it in Backends.
type Backend struct {
	// Name is what OUTBOX_REQUIRE calls it.
	Name string

	// packages are the Debian packages that provide it.
	packages []string

	// find returns nil when the backend's programs are on this machine.
	find func() error

	// fetch provides what no package holds, as any user. Nil for nothing.
	fetch func(w io.Writer) error

	// start starts a server that the tests of many packages share, and says
	// how they find it. Nil for a backend that every test starts for itself.
	start func() (*Shared, error)
}

// Shared is a running server that several test processes use. Stop it once.
type Shared struct {
	// Variable and Address are what the test processes need in their
	// environment.
	Variable, Address string

	process *process
}

// Stop stops the server and removes its files.
func (s *Shared) Stop() error { return s.process.discard() }

// Backends lists every backend there is.
func Backends() []Backend {
	return []Backend{postgres, pgbouncer, mysql, nats, redis, kafka, rabbitmq, chromium, prometheus, python, node}
}

// Installed returns nil when the backend's programs are on this machine.
func (b Backend) Installed() error { return b.find() }

// Start starts the server that test processes share. It returns nil, nil when
// there is nothing to start: every test starts its own, or the environment names
// a server already.
func (b Backend) Start() (*Shared, error) {
	if b.start == nil {
		return nil, nil
	}
	return b.start()
}

// Required reports whether a missing backend is a failure: it is named in the
// comma-separated OUTBOX_REQUIRE, or CI is "true".
func (b Backend) Required() bool {
	return os.Getenv("CI") == "true" ||
		slices.Contains(strings.Split(os.Getenv("OUTBOX_REQUIRE"), ","), b.Name)
}

// need ends the test unless the backend may be used: -short means "no
// services", unless the backend is required.
func (b Backend) need(t testing.TB) {
	t.Helper()
	if testing.Short() && !b.Required() {
		t.Skipf("needs %s; run without -short", b.Name)
	}
}

// missing ends the test: it fails when the backend is required and is skipped
// with instructions otherwise.
func (b Backend) missing(t testing.TB, why error) {
	t.Helper()
	report := fmt.Sprintf("needs %s: %v\n%s", b.Name, why, b.remedy())
	if b.Required() {
		t.Fatal(report)
	}
	t.Skip(report)
}

func (b Backend) remedy() string {
	return fmt.Sprintf("provide it with: sudo apt-get install %s   (`make test` as root does that)",
		strings.Join(b.packages, " "))
}
