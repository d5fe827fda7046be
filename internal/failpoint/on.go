//go:build failpoint

package failpoint

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Enabled reports whether failpoints are compiled in.
const Enabled = true

// armed is the present failpoint, or nil.
var armed atomic.Pointer[point]

func init() {
	if err := Arm(os.Getenv(Variable)); err != nil {
		panic(err) // a harness that arms nothing proves nothing
	}
	if path := os.Getenv(FileVariable); path != "" {
		orders := make(chan os.Signal, 1)
		signal.Notify(orders, syscall.SIGUSR1)
		go obey(orders, path)
		go endWithParent()
	}
}

// obey arms what a file asks for, whenever it is told to look.
func obey(orders <-chan os.Signal, path string) {
	for range orders {
		text, err := os.ReadFile(path)
		if err == nil {
			err = Arm(string(text))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}

// endWithParent ends the process when whoever started it is gone, however it died: the
// other end of standard input closes.
func endWithParent() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(2)
}

type point struct {
	name   string
	signal syscall.Signal
	delay  time.Duration
	left   atomic.Int64
}

// Hit ends or stops the process if this is the armed place and its time has come.
func Hit(name string) {
	p := armed.Load()
	if p == nil || p.name != name || p.left.Add(-1) != 0 {
		return
	}
	if p.delay > 0 {
		time.AfterFunc(p.delay, p.strike)
		return
	}
	p.strike()
}

func (p *point) strike() { _ = syscall.Kill(os.Getpid(), p.signal) }

// Arm replaces the armed failpoint by another, in the form of Variable, or by none. What
// begins with Clock steps the wall clock instead.
func Arm(text string) error {
	if text == "" {
		armed.Store(nil)
		return nil
	}
	if step, ok := strings.CutPrefix(text, Clock); ok {
		return setClock(step)
	}
	p, err := parse(text)
	if err != nil {
		return fmt.Errorf("arm failpoint %q: %w", text, err)
	}
	armed.Store(p)
	return nil
}

func setClock(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("step the clock: %w", err)
	}
	return stepClock(d)
}

func parse(text string) (*point, error) {
	name, rest, _ := strings.Cut(text, "=")
	action, rest, _ := strings.Cut(rest, "@")
	count, delay, delayed := strings.Cut(rest, "+")
	p := &point{name: name, signal: map[string]syscall.Signal{"kill": syscall.SIGKILL, "stop": syscall.SIGSTOP}[action]}
	n, err := strconv.ParseInt(count, 10, 64)
	switch {
	case err != nil:
		return nil, err
	case p.signal == 0:
		return nil, fmt.Errorf("no action %q", action)
	}
	p.left.Store(n)
	if delayed {
		p.delay, err = time.ParseDuration(delay)
	}
	return p, err
}
