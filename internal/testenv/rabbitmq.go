package testenv

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// The address of a RabbitMQ whose user guest may do anything in the vhost /.
const rabbitVariable = "OUTBOX_TEST_RABBITMQ" // host:port, set by `testenv run`

// rabbitBin has the programs themselves: those on the PATH insist on the user
// rabbitmq and on its one server.
const rabbitBin = "/usr/lib/rabbitmq/bin"

// RabbitMaxMessage is the size from which on these brokers refuse messages. It
// is small, so that tests can be refused.
const RabbitMaxMessage = 1 << 20

var rabbitmq = Backend{
	Name:     "rabbitmq",
	packages: []string{"rabbitmq-server"},
	find: func() error {
		if os.Getenv(rabbitVariable) != "" {
			return nil
		}
		return findRabbit()
	},
	start: func() (*Shared, error) {
		if os.Getenv(rabbitVariable) != "" {
			return nil, nil // the tests see the same variable
		}
		s, err := newRabbitServer()
		if err != nil {
			return nil, err
		}
		return &Shared{Variable: rabbitVariable, Address: s.address(), process: s.process}, nil
	},
}

func findRabbit() error {
	_, err := os.Stat(filepath.Join(rabbitBin, "rabbitmq-server"))
	return err
}

// Rabbit is a part of a RabbitMQ broker: the exchanges and queues whose names it
// gives out. RabbitMQ makes it.
type Rabbit struct{ address, prefix string }

// RabbitMQ returns a part of the shared broker for t. Exchanges and queues
// should expire or be deleted by the test; they go with the broker at the
// latest. A test that stops brokers or changes their settings wants
// PrivateRabbitMQ.
func RabbitMQ(t testing.TB) *Rabbit {
	t.Helper()
	rabbitmq.need(t)
	address := os.Getenv(rabbitVariable)
	if address == "" {
		s, err := ownRabbit()
		if err != nil {
			rabbitmq.missing(t, err)
		}
		address = s.address()
	}
	return &Rabbit{address: address, prefix: databaseName(t)}
}

// Addr is the address of the broker, "127.0.0.1:port".
func (r *Rabbit) Addr() string { return r.address }

// URL is the same with the user in it.
func (r *Rabbit) URL() string { return rabbitURL(r.address) }

// Name returns the name of an exchange or queue that no other test uses.
func (r *Rabbit) Name(what string) string { return r.prefix + "." + what }

func rabbitURL(address string) string { return "amqp://guest:guest@" + address + "/" }

// RabbitServer is a RabbitMQ broker that one test owns and may kill and start
// again; its durable messages and its address survive. PrivateRabbitMQ makes it.
// It is not safe for concurrent use.
type RabbitServer struct {
	t      testing.TB
	server *rabbitServer
}

// PrivateRabbitMQ starts a broker for t and removes it when t ends. It takes
// about five seconds. Settings are lines of rabbitmq.conf, such as
// "heartbeat = 5".
func PrivateRabbitMQ(t testing.TB, settings ...string) *RabbitServer {
	t.Helper()
	rabbitmq.need(t)
	if err := findRabbit(); err != nil {
		rabbitmq.missing(t, err)
	}
	s, err := newRabbitServer(settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		discard(t, s.process)
		os.RemoveAll(s.dir) // in case the test left it dead
	})
	return &RabbitServer{t: t, server: s}
}

// Addr is the address of the broker, "127.0.0.1:port". It stays the same.
func (r *RabbitServer) Addr() string { return r.server.address() }

// URL is the same with the user in it.
func (r *RabbitServer) URL() string { return rabbitURL(r.server.address()) }

// Kill ends the broker as kill -9 does, and returns when it is gone.
func (r *RabbitServer) Kill() {
	r.t.Helper()
	if err := r.server.process.signal("TERM"); err != nil {
		r.t.Fatal(err)
	}
}

// Start starts a broker that was killed, and returns when it takes connections.
func (r *RabbitServer) Start() {
	r.t.Helper()
	if err := r.server.start(); err != nil {
		r.t.Fatal(err)
	}
}

// Control runs rabbitmqctl.
func (r *RabbitServer) Control(args ...string) {
	r.t.Helper()
	cmd := exec.Command("/bin/sh", append([]string{"-c", r.server.environment() + `exec "$@"`, "rabbitmqctl", filepath.Join(rabbitBin, "rabbitmqctl")}, args...)...)
	cmd.Dir = r.server.dir
	cmd.SysProcAttr = sysProcAttr() // the Erlang cookie is the server's user's
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Fatalf("rabbitmqctl %v: %v\n%s", args, err, out)
	}
}

// ownRabbit has no matching stop: the supervisor sees this process exit.
var ownRabbit = sync.OnceValues(func() (*rabbitServer, error) { return newRabbitServer() })

// rabbitServer is a broker with a directory and ports of its own.
type rabbitServer struct {
	dir                  string
	port, distPort, epmd int
	settings             []string
	process              *process
}

func newRabbitServer(settings ...string) (*rabbitServer, error) {
	if err := findRabbit(); err != nil {
		return nil, err
	}
	var err error
	for range 3 { // another process may take a port first
		var s *rabbitServer
		if s, err = tryRabbitServer(settings); err == nil {
			return s, nil
		}
	}
	return nil, err
}

func tryRabbitServer(settings []string) (*rabbitServer, error) {
	dir, err := serverDir("rabbitmq")
	if err != nil {
		return nil, err
	}
	s := &rabbitServer{dir: dir, settings: settings}
	for _, port := range []*int{&s.port, &s.distPort, &s.epmd} {
		if err == nil {
			*port, err = freePort()
		}
	}
	if err == nil {
		err = s.configure()
	}
	if err == nil {
		err = s.start()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// rabbitConfig keeps the broker from blocking publishers on a small disk.
const rabbitConfig = `max_message_size = %d
disk_free_limit.absolute = 1MB
log.file = false
log.console = true
log.console.level = warning
`

// rabbitScript runs the broker and the port mapper it cannot do without, so that
// both end together. RabbitMQ takes its time for an orderly end; nobody wants
// what it would save.
const rabbitScript = `#!/bin/sh
%s
epmd -address 127.0.0.1 -port "$ERL_EPMD_PORT" & epmd=$!
%s/rabbitmq-server -noinput & broker=$!
trap 'kill -KILL $broker' TERM
wait $broker # until it ends or the trap interrupts
wait $broker
kill $epmd
`

func (s *rabbitServer) configure() error {
	config := fmt.Sprintf(rabbitConfig, RabbitMaxMessage) + strings.Join(s.settings, "\n") + "\n"
	return errors.Join(
		os.WriteFile(filepath.Join(s.dir, "rabbitmq.conf"), []byte(config), 0o644),
		os.WriteFile(filepath.Join(s.dir, "plugins"), []byte("[].\n"), 0o644),
		os.WriteFile(filepath.Join(s.dir, "rabbitmq"), fmt.Appendf(nil, rabbitScript, s.environment(), rabbitBin), 0o755),
	)
}

// environment is what the programs need to stay among themselves, for a shell.
func (s *rabbitServer) environment() string {
	return fmt.Sprintf(`
export HOME='%[1]s' ERL_EPMD_PORT=%[4]d RABBITMQ_NODENAME=outbox@localhost
export RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_NODE_PORT=%[2]d RABBITMQ_DIST_PORT=%[3]d
export RABBITMQ_CONFIG_FILE='%[1]s/rabbitmq.conf' RABBITMQ_ENABLED_PLUGINS_FILE='%[1]s/plugins' RABBITMQ_CONF_ENV_FILE=/dev/null
export RABBITMQ_MNESIA_BASE='%[1]s/mnesia' RABBITMQ_LOG_BASE='%[1]s/log' RABBITMQ_SCHEMA_DIR='%[1]s/schema'
export RABBITMQ_ALLOW_INPUT=1 # run as the process that was started, not as its child
export RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='+S 2:2 -kernel inet_dist_use_interface {127,0,0,1}'
`, s.dir, s.port, s.distPort, s.epmd)
}

func (s *rabbitServer) start() error {
	process, err := spawn(s.dir, "TERM", filepath.Join(s.dir, "rabbitmq"))
	if err != nil {
		return err
	}
	s.process = process
	err = process.awaitReady(s.greet)
	if err != nil && errors.Is(process.exited(0), errStillRunning) {
		err = process.awaitReady(s.greet) // five seconds become many on a busy machine
	}
	if err != nil {
		return errors.Join(err, process.signal("TERM"))
	}
	return nil
}

func (s *rabbitServer) address() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// greet says hello in AMQP and waits for the first byte of an answer.
func (s *rabbitServer) greet() error {
	conn, err := net.Dial("tcp", s.address())
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("AMQP\x00\x00\x09\x01")); err != nil {
		return err
	}
	_, err = io.ReadFull(conn, make([]byte, 1))
	return err
}
