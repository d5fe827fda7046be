package testenv

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// supervise runs a server until its standard input says how to end. A word is
// the signal to stop it with. End of file means that the process that wanted
// the server is gone, however it died: stop it and remove its files.
// Descriptor 3 stays open in the server and its children only.
const supervise = `
dir=$1 stop=$2
shift 2
"$@" </dev/null &
server=$!
exec 3>&-
if read -r signal; then
	kill -s "$signal" "$server"
	wait "$server"
else
	kill -s "$stop" "$server"
	wait "$server"
	rm -rf "$dir"
fi
`

// errStillRunning is what exited returns for a server that is alive.
var errStillRunning = errors.New("still running")

// A process is one running server under a small shell supervisor that outlives
// us if it must. It costs no goroutine, so leak checks stay quiet.
type process struct {
	name    string
	dir     string
	log     string
	cmd     *exec.Cmd
	control *os.File // tells the supervisor to stop the server
	life    *os.File // reads end of file once the server and its children are gone
	stopped bool     // both files are closed
}

// spawn starts argv in dir. A process that is never stopped is stopped with
// signal stop when we exit.
func spawn(dir, stop string, argv ...string) (*process, error) {
	p := &process{name: filepath.Base(argv[0]), dir: dir}
	p.log = logFile(dir, p.name)
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	defer log.Close()

	input, control, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	defer input.Close()
	life, alive, err := os.Pipe()
	if err != nil {
		control.Close()
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	defer alive.Close()
	p.control, p.life = control, life

	p.cmd = exec.Command("/bin/sh", append([]string{"-c", supervise, "supervise", dir, stop}, argv...)...)
	p.cmd.Dir = dir
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = input, log, log
	p.cmd.ExtraFiles = []*os.File{alive}
	p.cmd.SysProcAttr = sysProcAttr()
	if err := p.cmd.Start(); err != nil {
		p.close()
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	return p, nil
}

// awaitReady calls ready until it succeeds, the server exits or patience ends.
func (p *process) awaitReady(ready func() error) error {
	deadline := time.Now().Add(30 * time.Second)
	for {
		err := ready()
		if err == nil {
			return nil
		}
		if p.exited(50*time.Millisecond) == nil {
			return fmt.Errorf("%s exited at start:\n%s", p.name, p.logTail())
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s is not ready after 30s: %w\n%s", p.name, err, p.logTail())
		}
	}
}

// exited waits for the server and all its children to be gone.
func (p *process) exited(patience time.Duration) error {
	if err := p.life.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err := p.life.Read(make([]byte, 1))
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errStillRunning
	default:
		return err
	}
}

// signal stops the server with the named signal and keeps its files. It is
// fine if the server is dead already.
func (p *process) signal(name string) error {
	if p.stopped {
		return nil
	}
	if _, err := p.control.WriteString(name + "\n"); err != nil {
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	return p.reap()
}

// discard stops the server and removes its files, unless it was stopped before.
func (p *process) discard() error {
	if p.stopped {
		return nil
	}
	p.control.Close()
	return p.reap()
}

func (p *process) reap() error {
	err := p.exited(30 * time.Second)
	if err == nil {
		_ = p.cmd.Wait() // the supervisor's status repeats the server's; the signal makes it non-zero
	}
	p.close()
	if err != nil {
		return fmt.Errorf("stop %s: %w\n%s", p.name, err, p.logTail())
	}
	return nil
}

func (p *process) close() {
	p.stopped = true
	p.control.Close()
	p.life.Close()
}

// logTail returns the end of the server's log, for error messages.
func (p *process) logTail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// logFile puts logs where a failed run keeps them, or beside the server's data.
func logFile(dir, name string) string {
	if logs := os.Getenv("OUTBOX_TEST_LOGS"); logs != "" {
		return filepath.Join(logs, filepath.Base(dir)+"-"+name+".log")
	}
	return filepath.Join(dir, name+".log")
}

// serverDir makes a directory that the server's user owns.
func serverDir(backend string) (string, error) {
	dir, err := os.MkdirTemp("", "outbox-"+backend+"-")
	if err != nil {
		return "", err
	}
	return dir, handOver(dir)
}

// handOver gives a file to the server's user.
func handOver(path string) error {
	if c := serverUser(); c != nil {
		return os.Chown(path, int(c.Uid), int(c.Gid))
	}
	return nil
}

// serverUser is whom servers run as. They refuse to run as root, so root
// borrows postgres or nobody; everyone else stays who they are.
func serverUser() *syscall.Credential {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, _ := strconv.ParseUint(u.Uid, 10, 32)
			gid, _ := strconv.ParseUint(u.Gid, 10, 32)
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		}
	}
	return nil
}

// sysProcAttr makes a server an unprivileged session leader: Ctrl-C in the
// terminal reaches us, not the server.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Credential: serverUser()}
}

// freePort returns a loopback port that nobody listens on. Somebody may take it
// before the server does; callers start over with another when that happens.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// anywhere starts a server on a free port. Losing a race for it is worth a second try.
func anywhere(port *int, start func() error) (err error) {
	for range 3 {
		if *port, err = freePort(); err != nil {
			return err
		}
		if err = start(); err == nil {
			return nil
		}
	}
	return err
}

// cached is where this user keeps what tests have fetched.
func cached(name string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "outbox-test", name), nil
}

// discard stops a test's own server and, when the test failed, shows its log.
func discard(t testing.TB, p *process) {
	t.Helper()
	if t.Failed() {
		t.Logf("end of %s:\n%s", p.log, p.logTail())
	}
	if err := p.discard(); err != nil {
		t.Error(err)
	}
}
