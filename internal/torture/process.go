package torture

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-outbox/outbox/internal/failpoint"
)

// A Process is a child that this process started. Its journal and its log lie in the
// directory of the run under its name.
type Process struct {
	Spec Spec
	log  string
	cmd  *exec.Cmd
	life *os.File      // closes when we die, and the child sees it
	done chan struct{} // closed when it has ended
	end  int64         // when it has; for those who saw done closed
}

// stopPatience bounds how long a process that was asked to stop may take.
const stopPatience = 30 * time.Second

// start starts this very program, or the shipped one, as what spec says.
func start(dir string, spec Spec) (*Process, error) {
	spec.Journal = journalPath(dir, spec.Name)
	p := &Process{Spec: spec, log: filepath.Join(dir, spec.Name+".log"), done: make(chan struct{})}
	var err error
	if p.cmd, err = spec.command(); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	in, life, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	p.life = life
	p.cmd.Env = append(p.cmd.Env, failpoint.FileVariable+"="+spec.Journal+armSuffix)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = in, log, log
	// A group of its own: Ctrl-C is for us, and the system wakes and ends a
	// stopped child whose parent is gone.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		life.Close()
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // its status is read from ProcessState
		p.end = now()
		life.Close()
	}()
	return p, nil
}

// armSuffix makes the name of the file that says which failpoint to arm.
const armSuffix = ".failpoint"

// journalPath is where the deliveries or transactions of a process are written down.
func journalPath(dir, name string) string { return filepath.Join(dir, name+".journal") }

// command is how the process is started.
func (s *Spec) command() (*exec.Cmd, error) {
	if s.Relay != nil && s.Relay.Program != nil {
		return s.Relay.Program.command(s)
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	return cmd, nil
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// stopped reports whether the process has been stopped by a signal.
func (p *Process) stopped() bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(state, "T")
}

// Status is the exit status of a process that has ended, -1 after a signal.
func (p *Process) Status() int { return p.cmd.ProcessState.ExitCode() }

// Signal sends a signal. It is fine if the process has ended.
func (p *Process) Signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", p.Spec.Name, err)
	}
	return nil
}

// arm arms a failpoint of the process; "" is none.
func (p *Process) arm(text string) error {
	if err := os.WriteFile(p.Spec.Journal+armSuffix, []byte(text), 0o644); err != nil {
		return fmt.Errorf("arm %s: %w", p.Spec.Name, err)
	}
	return p.Signal(syscall.SIGUSR1)
}

// Kill ends the process at once and returns when it is gone.
func (p *Process) Kill() error {
	err := p.Signal(syscall.SIGKILL)
	<-p.done
	return err
}

// Stop asks the process to stop and returns when it has. Any status but 0 is an error.
func (p *Process) Stop() error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	timer := time.NewTimer(stopPatience)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		return errors.Join(fmt.Errorf("%s did not stop within %s", p.Spec.Name, stopPatience), p.Kill())
	}
	if p.Status() != 0 && p.began() && !p.failedToStart() { // else it was asked before it could listen
		return p.explain()
	}
	return nil
}

// explain says how the process ended, with its last words.
func (p *Process) explain() error {
	text, _ := os.ReadFile(p.log) // no log, no words
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return fmt.Errorf("%s ended with %s:\n%s", p.Spec.Name, p.cmd.ProcessState,
		strings.Join(lines[max(0, len(lines)-20):], "\n"))
}

// logLines reads what the process logged.
func (p *Process) logLines() ([]LogLine, error) {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return nil, fmt.Errorf("read log: %w", err)
	}
	var list []LogLine
	var at struct{ Time time.Time }
	for line := range strings.Lines(string(text)) {
		alien := json.Unmarshal([]byte(line), &at) != nil
		if alien && p.failedToStart() {
			continue // it says why
		}
		list = append(list, LogLine{Relay: p.Spec.Name, At: at.Time, Text: strings.TrimSpace(line), Alien: alien})
	}
	return list, nil
}
