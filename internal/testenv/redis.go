package testenv

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	redisVariable = "OUTBOX_TEST_REDIS" // host:port of the shared server, set by `testenv run`

	// redisDatabases is how many tests may use the shared server at the same time,
	// and one more: database 0 counts them.
	redisDatabases = 1024
)

var redis = Backend{
	Name:     "redis",
	packages: []string{"redis-server"},
	find: func() error {
		if os.Getenv(redisVariable) != "" {
			return nil
		}
		_, err := exec.LookPath("redis-server")
		return err
	},
	start: func() (*Shared, error) {
		if os.Getenv(redisVariable) != "" {
			return nil, nil // the tests see the same variable
		}
		s, err := newRedisServer(volatileRedis...)
		if err != nil {
			return nil, err
		}
		return &Shared{Variable: redisVariable, Address: s.addr(), process: s.process}, nil
	},
}

// RedisDB is a Redis database that one test owns. Redis makes it; it is safe for
// concurrent use.
type RedisDB struct {
	addr   string
	number int
}

// Addr returns host:port of the server.
func (r *RedisDB) Addr() string { return r.addr }

// URL returns the address of the database.
func (r *RedisDB) URL() string { return fmt.Sprintf("redis://%s/%d", r.addr, r.number) }

// Redis returns an empty logical database for t and empties it when t ends. The
// server is shared and keeps nothing on disk: a test that kills servers or changes
// their settings wants PrivateRedis.
func Redis(t testing.TB) *RedisDB {
	t.Helper()
	redis.need(t)
	addr, err := sharedRedis()
	if err != nil {
		redis.missing(t, err)
	}
	taken, err := redisCall(addr, "INCR taken")
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(taken)
	if err != nil {
		t.Fatalf("INCR answered %q", taken)
	}
	db := &RedisDB{addr: addr, number: 1 + n%(redisDatabases-1)}
	db.empty(t)
	t.Cleanup(func() { db.empty(t) })
	return db
}

func (r *RedisDB) empty(t testing.TB) {
	t.Helper()
	if _, err := redisCall(r.addr, "SELECT "+strconv.Itoa(r.number), "FLUSHDB"); err != nil {
		t.Error(err)
	}
}

// RedisServer is a Redis server that one test owns and may kill, stop for a while and
// start again; its address survives, and what was acknowledged does too unless a
// setting says otherwise. PrivateRedis makes it. Its methods are not safe for
// concurrent use with each other.
type RedisServer struct {
	t      testing.TB
	server *redisServer
}

// PrivateRedis starts a server for t and removes it when t ends. It writes every
// command to disk before it answers. Settings are "name value" pairs of redis.conf,
// such as "maxmemory 1mb".
func PrivateRedis(t testing.TB, settings ...string) *RedisServer {
	t.Helper()
	redis.need(t)
	if _, err := exec.LookPath("redis-server"); err != nil {
		redis.missing(t, err)
	}
	s, err := newRedisServer(append(durableRedis[:len(durableRedis):len(durableRedis)], settings...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		discard(t, s.process)
		os.RemoveAll(s.dir) // in case the test left it dead
	})
	return &RedisServer{t: t, server: s}
}

// Addr returns host:port of the server. It stays the same over Kill and Start.
func (r *RedisServer) Addr() string { return r.server.addr() }

// URL returns the address of database 0.
func (r *RedisServer) URL() string { return "redis://" + r.Addr() + "/0" }

// Kill ends the server as a crash would.
func (r *RedisServer) Kill() {
	r.t.Helper()
	if err := r.server.process.signal("KILL"); err != nil {
		r.t.Fatal(err)
	}
}

// Start starts a killed server with its data and address, and waits until it has
// loaded them.
func (r *RedisServer) Start() {
	r.t.Helper()
	if err := r.server.start(); err != nil {
		r.t.Fatal(err)
	}
}

// Pause makes the server answer nothing: the kernel still accepts connections for it.
// Resume before the test ends.
func (r *RedisServer) Pause() { r.t.Helper(); pausePid(r.t, r.server.pidFile()) }

// Resume ends a Pause.
func (r *RedisServer) Resume() { r.t.Helper(); signalPid(r.t, r.server.pidFile(), syscall.SIGCONT) }

// pausePid stops the process whose id is in a file, and returns when all its threads
// have stopped: the signal alone does not wait for those that run.
func pausePid(t testing.TB, file string) {
	t.Helper()
	pid := signalPid(t, file, syscall.SIGSTOP)
	for deadline := time.Now().Add(10 * time.Second); !stopped(pid); <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d does not stop", pid)
		}
	}
}

// stopped reads the state of every thread, the word after the name in parentheses.
func stopped(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, file := range threads {
		text, err := os.ReadFile(file)
		_, state, _ := strings.Cut(string(text), ") ")
		if err == nil && !strings.HasPrefix(state, "T") {
			return false
		}
	}
	return true
}

// signalPid sends a signal to the process whose id is in a file, and returns the id.
func signalPid(t testing.TB, file string, signal syscall.Signal) int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("is the server running? %v", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if err := syscall.Kill(pid, signal); err != nil {
		t.Fatal(err)
	}
	return pid
}

// sharedRedis returns the address of the server that the tests of this process share,
// and starts one when the environment names none.
func sharedRedis() (string, error) {
	if addr := os.Getenv(redisVariable); addr != "" {
		return addr, nil
	}
	s, err := ownRedis()
	if err != nil {
		return "", err
	}
	return s.addr(), nil
}

// ownRedis has no matching stop: the supervisor sees this process exit.
var ownRedis = sync.OnceValues(func() (*redisServer, error) { return newRedisServer(volatileRedis...) })

var (
	volatileRedis = []string{"appendonly no", "databases " + strconv.Itoa(redisDatabases)}
	durableRedis  = []string{"appendonly yes", "appendfsync always"}
)

// redisServer is a server with a directory of its own.
type redisServer struct {
	dir      string
	port     int
	settings []string
	process  *process
}

func newRedisServer(settings ...string) (*redisServer, error) {
	dir, err := serverDir("redis")
	if err != nil {
		return nil, err
	}
	s := &redisServer{dir: dir, settings: settings}
	if err := anywhere(&s.port, s.start); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

func (s *redisServer) start() error {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return err
	}
	config := filepath.Join(s.dir, "redis.conf")
	if err := os.WriteFile(config, []byte(s.config()), 0o600); err != nil {
		return err
	}
	if err := handOver(config); err != nil {
		return err
	}
	os.Remove(s.pidFile()) // of a killed server
	// A replica refuses to stop while it writes its first file; nobody needs it.
	if s.process, err = spawn(s.dir, "KILL", path, config); err != nil {
		return err
	}
	// A pid file says that it is our server that answers, and not somebody else's on
	// the same port.
	err = s.process.awaitReady(func() error {
		if _, err := os.Stat(s.pidFile()); err != nil {
			return err
		}
		_, err := redisCall(s.addr(), "PING")
		return err
	})
	if err != nil {
		return errors.Join(err, s.process.signal("KILL"))
	}
	return nil
}

func (s *redisServer) config() string {
	lines := append([]string{
		"bind 127.0.0.1",
		"port " + strconv.Itoa(s.port),
		"dir " + s.dir,
		"pidfile " + s.pidFile(),
		"daemonize no",
		`save ""`,
	}, s.settings...)
	return strings.Join(lines, "\n") + "\n"
}

func (s *redisServer) addr() string    { return fmt.Sprintf("127.0.0.1:%d", s.port) }
func (s *redisServer) pidFile() string { return filepath.Join(s.dir, "redis.pid") }

// redisCall sends commands, each a line, on a new connection and returns the last
// answer.
func redisCall(addr string, commands ...string) (string, error) {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return "", err
	}
	answers := bufio.NewReader(conn)
	answer := ""
	for _, command := range commands {
		if _, err := fmt.Fprintf(conn, "%s\r\n", command); err != nil {
			return "", err
		}
		line, err := answers.ReadString('\n')
		if err != nil {
			return "", err
		}
		answer = strings.TrimRight(line, "\r\n")
		if strings.HasPrefix(answer, "-") {
			return "", fmt.Errorf("redis %s: %s", command, answer[1:])
		}
	}
	return strings.TrimLeft(answer, ":+"), nil
}
