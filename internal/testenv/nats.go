package testenv

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	natsVariable = "OUTBOX_TEST_NATS" // URL of the shared server, set by `testenv run`
	natsModule   = "github.com/nats-io/nats-server/v2"
)

// nats is built from the module that go.mod names, because distributions have old
// versions only. It is a program of its own and not part of the test process, so that
// it can be killed and no test links it.
var nats = Backend{
	Name:     "nats",
	packages: []string{"golang-go"},
	find: func() error {
		if os.Getenv(natsVariable) != "" {
			return nil
		}
		_, err := exec.LookPath("go")
		return err
	},
	start: func() (*Shared, error) {
		if os.Getenv(natsVariable) != "" {
			return nil, nil // the tests see the same variable
		}
		s, err := newNATSServer()
		if err != nil {
			return nil, err
		}
		return &Shared{Variable: natsVariable, Address: s.url(), process: s.process}, nil
	},
}

// NATS returns the URL of a NATS server with JetStream. The server is shared: a test
// makes streams of its own, with subjects that start with its own word, and deletes
// them. A test that kills servers wants PrivateNATS.
func NATS(t testing.TB) string {
	t.Helper()
	nats.need(t)
	if url := os.Getenv(natsVariable); url != "" {
		return url
	}
	s, err := ownNATS()
	if err != nil {
		nats.missing(t, err)
	}
	return s.url()
}

// ownNATS has no matching stop: the supervisor sees this process exit.
var ownNATS = sync.OnceValues(func() (*natsServer, error) { return newNATSServer() })

// NATSServer is a NATS server that one test owns and may kill, stop for a while and
// start again; its streams and its address survive. Its methods are not safe for
// concurrent use with each other.
type NATSServer struct {
	t      testing.TB
	server *natsServer
}

// PrivateNATS starts a server for t and removes it when t ends. Settings are lines of
// its configuration file, such as "max_payload: 64KB".
func PrivateNATS(t testing.TB, settings ...string) *NATSServer {
	t.Helper()
	needNATS(t)
	s, err := newNATSServer(settings...)
	if err != nil {
		t.Fatal(err)
	}
	return ownedNATS(t, s)
}

// NATSCluster starts three servers that form a cluster. They accept connections when
// it returns; electing their leaders takes them another second or two.
func NATSCluster(t testing.TB) []*NATSServer {
	t.Helper()
	needNATS(t)
	const size = 3
	var routes []string
	for range size {
		port, err := freePort()
		if err != nil {
			t.Fatal(err)
		}
		routes = append(routes, fmt.Sprintf("127.0.0.1:%d", port))
	}
	cluster := make([]*NATSServer, size)
	for i, listen := range routes {
		s, err := newNATSServer(fmt.Sprintf("cluster { name: test, listen: %q, routes: [%s] }",
			listen, "nats://"+strings.Join(routes, ", nats://")))
		if err != nil {
			t.Fatal(err)
		}
		cluster[i] = ownedNATS(t, s)
	}
	return cluster
}

func needNATS(t testing.TB) {
	t.Helper()
	nats.need(t)
	if _, err := natsProgram(); err != nil {
		nats.missing(t, err)
	}
}

func ownedNATS(t testing.TB, s *natsServer) *NATSServer {
	t.Cleanup(func() {
		discard(t, s.process)
		os.RemoveAll(s.dir) // in case the test left it dead
	})
	return &NATSServer{t: t, server: s}
}

// URL returns the server's address. It stays the same over Kill and Start.
func (n *NATSServer) URL() string { return n.server.url() }

// Addr returns host:port of the server.
func (n *NATSServer) Addr() string { return n.server.addr() }

// Name is what the server calls itself in a cluster.
func (n *NATSServer) Name() string { return n.server.name() }

// Kill ends the server as a crash would.
func (n *NATSServer) Kill() {
	n.t.Helper()
	if err := n.server.process.signal("KILL"); err != nil {
		n.t.Fatal(err)
	}
}

// Start starts a killed server with its streams and address.
func (n *NATSServer) Start() {
	n.t.Helper()
	if err := n.server.start(); err != nil {
		n.t.Fatal(err)
	}
}

// Pause makes the server answer nothing: the kernel still accepts connections for it.
// Resume before the test ends.
func (n *NATSServer) Pause() { n.t.Helper(); pausePid(n.t, n.server.pidFile()) }

// Resume ends a Pause.
func (n *NATSServer) Resume() { n.t.Helper(); signalPid(n.t, n.server.pidFile(), syscall.SIGCONT) }

// natsServer is a server with a directory of its own.
type natsServer struct {
	dir      string
	port     int
	settings []string
	process  *process
}

func newNATSServer(settings ...string) (*natsServer, error) {
	dir, err := serverDir("nats")
	if err != nil {
		return nil, err
	}
	s := &natsServer{dir: dir, settings: settings}
	if err := anywhere(&s.port, s.start); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

func (s *natsServer) start() error {
	program, err := natsProgram()
	if err != nil {
		return err
	}
	config := filepath.Join(s.dir, "nats.conf")
	if err := os.WriteFile(config, []byte(s.config()), 0o600); err != nil {
		return err
	}
	if err := handOver(config); err != nil {
		return err
	}
	os.Remove(s.pidFile()) // of a killed server
	if s.process, err = spawn(s.dir, "TERM", program, "-c", config); err != nil {
		return err
	}
	if err := s.process.awaitReady(s.ready); err != nil {
		return errors.Join(err, s.process.signal("TERM"))
	}
	return nil
}

func (s *natsServer) config() string {
	return fmt.Sprintf("server_name: %s\nlisten: %q\npid_file: %q\njetstream { store_dir: %q, max_file_store: 4GB }\n%s\n",
		s.name(), s.addr(), s.pidFile(), s.dir, strings.Join(s.settings, "\n"))
}

// ready asks on the client port. A pid file says that it is our server that answers.
func (s *natsServer) ready() error {
	if _, err := os.Stat(s.pidFile()); err != nil {
		return err
	}
	conn, err := net.DialTimeout("tcp", s.addr(), time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	answers := bufio.NewReader(conn)
	if _, err := fmt.Fprint(conn, "CONNECT {\"verbose\":false}\r\nPING\r\n"); err != nil {
		return err
	}
	for {
		line, err := answers.ReadString('\n')
		switch {
		case err != nil:
			return err
		case strings.HasPrefix(line, "PONG"), strings.HasPrefix(line, "-ERR 'Authorization"):
			return nil
		case strings.HasPrefix(line, "INFO") && strings.Contains(line, `"tls_required":true`):
			return nil // it answers, and says no more without a handshake
		case strings.HasPrefix(line, "-ERR"):
			return errors.New(strings.TrimSpace(line))
		}
	}
}

func (s *natsServer) name() string    { return filepath.Base(s.dir) }
func (s *natsServer) addr() string    { return fmt.Sprintf("127.0.0.1:%d", s.port) }
func (s *natsServer) url() string     { return "nats://" + s.addr() }
func (s *natsServer) pidFile() string { return filepath.Join(s.dir, "nats.pid") }

// natsProgram builds the server once for each version and machine, which takes half a
// minute, and returns its path.
var natsProgram = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", natsModule).Output()
	if err != nil {
		return "", fmt.Errorf("find %s: %w", natsModule, err)
	}
	dir, err := programCache()
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "nats-server-"+strings.TrimSpace(string(out)))
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	// Several test processes may be here at once; the last one's rename counts.
	unfinished := fmt.Sprintf("%s.%d", program, os.Getpid())
	defer os.Remove(unfinished)
	if out, err := exec.Command("go", "build", "-o", unfinished, natsModule).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", natsModule, err, out)
	}
	if err := os.Chmod(unfinished, 0o755); err != nil {
		return "", err
	}
	return program, os.Rename(unfinished, program)
})

// programCache is a directory that the servers' user can read: not root's own.
func programCache() (string, error) {
	dir := "/var/cache/outbox"
	if os.Geteuid() != 0 {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(cache, "outbox")
	}
	return dir, os.MkdirAll(dir, 0o755)
}
