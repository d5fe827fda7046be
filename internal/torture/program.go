package torture

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-outbox/outbox/internal/failpoint"
)

// A Program is the shipped binary, configured as a user configures it: what relays do
// is in a file, where the database is in the environment, how they log on the command
// line. It delivers to a Hook.
type Program struct {
	Path string
	// Hook is the address to deliver to, Secret the file with the key that signs.
	Hook, Secret string
	// SteppedClock: its wall clock can be set.
	SteppedClock bool
}

func (r *Relay) steppedClock() bool { return r.Program != nil && r.Program.SteppedClock }

// buildProgram builds cmd/outbox with failpoints. In a harness that has failpoints
// itself its wall clock can be set, too, which costs building the standard library.
func buildProgram(t testing.TB) Program {
	t.Helper()
	p := Program{Path: filepath.Join(t.TempDir(), "outbox"), SteppedClock: failpoint.Enabled}
	args := []string{"build", "-ldflags=-s -w", "-o", p.Path}
	if p.SteppedClock {
		overlay, err := clockOverlay(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, "-tags=failpoint,steppedclock", "-overlay="+overlay)
	} else {
		args = append(args, "-tags=failpoint")
	}
	build := exec.CommandContext(t.Context(), "go", append(args, "github.com/go-outbox/outbox/cmd/outbox")...)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v\n%s", err, out)
	}
	return p
}

// The one place where a Go program reads the wall clock, and what is put there.
const (
	readClock = "\tsec, nsec, mono := runtimeNow()\n"
	setClock  = readClock + "\tsec += wallStep\n"
	clockStep = "\n//go:linkname wallStep\nvar wallStep int64\n"
)

// clockOverlay writes an overlay for the go command in which package time adds a number
// of seconds to the wall clock, and only to that: what happens when somebody sets the
// clock of a machine. Time cannot be faked from outside of a Go program, because it
// does not ask the C library.
func clockOverlay(dir string) (string, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("find package time: %w", err)
	}
	source := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	text, err := os.ReadFile(source)
	if err != nil {
		return "", fmt.Errorf("find package time: %w", err)
	}
	if n := strings.Count(string(text), readClock); n != 1 {
		return "", fmt.Errorf("%s reads the clock in %d places, want 1: see clockOverlay", source, n)
	}
	changed, list := filepath.Join(dir, "time.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{source: changed}})
	return list, errors.Join(err,
		os.WriteFile(changed, []byte(strings.Replace(string(text), readClock, setClock, 1)+clockStep), 0o644),
		os.WriteFile(list, replace, 0o644))
}

// dispatchTimeout is how long the program waits for an answer: longer than any that is
// given on purpose.
const dispatchTimeout = 3 * time.Second

// command is how a process of the program is started. It writes the configuration.
func (p *Program) command(spec *Spec) (*exec.Cmd, error) {
	dsn, err := url.Parse(spec.Place.DSN)
	if err != nil {
		return nil, fmt.Errorf("configure %s: %w", spec.Name, err)
	}
	query := dsn.Query()
	query.Set("application_name", spec.Name) // as the trigger sees it
	query.Set("pool_max_conns", strconv.Itoa(maxConnections))
	dsn.RawQuery = query.Encode()
	file := spec.Journal + ".yaml"
	if err := os.WriteFile(file, []byte(p.configuration(spec)), 0o644); err != nil {
		return nil, fmt.Errorf("configure %s: %w", spec.Name, err)
	}
	cmd := exec.Command(p.Path, "relay", "--config", file, "--log-format", "json")
	cmd.Env = append(os.Environ(), "OUTBOX_DSN="+dsn.String())
	return cmd, nil
}

func (p *Program) configuration(spec *Spec) string {
	r := spec.Relay
	return fmt.Sprintf(`sink: %s/%s
webhook:
  secret_file: %s
  allow: 127.0.0.0/8
relay:
  tables: %s
  shards: %d
  lock_ttl: %s
  poll_interval: %s
  batch_size: %d
  max_attempts: %d
  retry_base: 20ms
  retry_max: %s
  dispatch_timeout: %s
  drain_timeout: 10s
  on_dead: skip
cleaner:
  enabled: %t
  interval: %s
  retention: %s
`, p.Hook, spec.Name, p.Secret, table, max(r.Shards, 1), r.Lease, r.Poll, r.Batch, r.MaxAttempts, maxBackoff, dispatchTimeout,
		r.Retention > 0, max(r.Retention/4, time.Second), max(r.Retention, time.Second))
}

// program reports whether this is a process of the shipped binary.
func (p *Process) program() bool { return p.Spec.Relay != nil && p.Spec.Relay.Program != nil }

// began: it has come so far that it can be asked to stop.
func (p *Process) began() bool {
	if !p.program() {
		return fileExists(p.Spec.Journal)
	}
	text, err := os.ReadFile(p.log)
	return err == nil && len(text) > 0
}

// failedToStart: a process of the program ended before it relayed anything, because the
// database did not answer or it was asked to stop. A service manager starts another, and
// so do we.
func (p *Process) failedToStart() bool {
	if !p.program() || !p.Ended() {
		return false
	}
	switch p.Status() {
	case exitFailure, exitInterrupted, -1: // a failure, an interruption, a signal before it listened
	default:
		return false
	}
	text, err := os.ReadFile(p.log)
	return err == nil && !strings.Contains(string(text), `"relaying"`)
}

// Exit codes of the program.
const (
	exitFailure     = 1
	exitInterrupted = 130
)

// is reports whether a lease's instance is this process. The program's are made of its
// host, its pid and something random.
func (p *Process) is(instance string) bool {
	if p.program() {
		return strings.Contains(instance, fmt.Sprintf("-%d-", p.cmd.Process.Pid))
	}
	return instance == p.Spec.Name
}

// pattern is what the process's instance is LIKE.
func (p *Process) pattern() string {
	if p.program() {
		return fmt.Sprintf("%%-%d-%%", p.cmd.Process.Pid)
	}
	return p.Spec.Name
}

// memory is the most that a process that has ended took, in bytes.
func (p *Process) memory() int64 {
	usage, ok := p.cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return usage.Maxrss << 10
}

// revive starts another process wherever one could not start.
func (r *Run) revive() {
	r.t.Helper()
	for _, p := range r.relays {
		if p.process.failedToStart() {
			p.Start()
		}
	}
}

// name gives the name of the process that a lease's instance is; an instance that is
// none of ours keeps its own.
func (r *Run) name(instance string) string {
	for _, p := range r.processes {
		if p.Spec.Relay != nil && p.is(instance) {
			return p.Spec.Name
		}
	}
	return instance
}

// rename calls leases' instances by the names of their processes.
func (h *History) rename(name func(string) string) {
	for i := range h.Transitions {
		h.Transitions[i].Holder = name(h.Transitions[i].Holder)
	}
	for i := range h.Handovers {
		h.Handovers[i].Instance = name(h.Handovers[i].Instance)
	}
	for i := range h.Final.Held {
		h.Final.Held[i].By = name(h.Final.Held[i].By)
	}
}
