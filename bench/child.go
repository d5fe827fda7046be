package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// childVariable holds an order for a copy of this program: relay in a process of
// your own, as in production.
const childVariable = "OUTBOX_BENCH_CHILD"

// An order is what a child does. It ends when it has handled Want messages or its
// standard input closes, whichever is first. Blind children do not note when they
// handled what, so that their memory is the relay's alone.
type order struct {
	DSN    string
	System string
	Want   int
	Blind  bool
}

// childSystems are the systems that run in a child, by the key in the order.
var childSystems = map[string]system{
	"outbox":          ourDefault,
	"outbox_keep":     ourKeep,
	"outbox_delete":   ourDelete,
	"river":           riverSystem,
	"watermill":       watermillSystem,
	"watermill_queue": watermillQueueSystem,
	"gue":             gueSystem,
	"literal":         literalSystem,
}

// A sighting says when a message was handled.
type sighting struct {
	n  int
	at time.Time
}

// childMain runs the order in the environment, if there is one.
func childMain() (was bool, err error) {
	text := os.Getenv(childVariable)
	if text == "" {
		return false, nil
	}
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return true, err
	}
	return true, obey(o, os.Stdin, os.Stdout)
}

// obey relays and then reports: "ready" for message 0, at the end one line per
// message, and last the highest resident set size in KiB.
func obey(o order, stdin io.Reader, stdout io.Writer) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	pool, err := newPool(ctx, o.DSN)
	if err != nil {
		return err
	}
	defer pool.Close()
	s, ok := childSystems[o.System]
	if !ok {
		return fmt.Errorf("no system %q", o.System)
	}
	q, err := s.open(ctx, pool)
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, stdin) // its end is the message
		cancel()
	}()
	log := watch{out: stdout, want: o.Want, blind: o.Blind, done: cancel}
	if err := q.relay(ctx, log.handle); err != nil && ctx.Err() == nil {
		return err
	}
	return log.report()
}

// watch notes what was handled.
type watch struct {
	out   io.Writer
	want  int
	blind bool
	done  func()

	mu      sync.Mutex
	handled int
	seen    []sighting
	err     error
}

func (w *watch) handle(payload []byte) {
	now := time.Now()
	n, err := number(payload)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err != nil:
		w.err = err
		w.done()
		return
	case n == 0:
		_, w.err = fmt.Fprintln(w.out, "ready")
		return
	}
	if !w.blind {
		w.seen = append(w.seen, sighting{n, now})
	}
	if w.handled++; w.handled == w.want {
		w.done()
	}
}

func (w *watch) report() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	peak, err := peakMemory()
	out := bufio.NewWriter(w.out)
	for _, s := range w.seen {
		fmt.Fprintln(out, s.n, s.at.UnixNano())
	}
	fmt.Fprintln(out, "peak", peak)
	return errors.Join(w.err, err, out.Flush())
}

// peakMemory reads the highest resident set size of this process in KiB.
// (getrusage would include the parent's, from before the exec.)
func peakMemory() (int, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0, errors.New("no VmHWM in /proc/self/status")
	}
	return strconv.Atoi(fields[0])
}

// A child is a relay in another process.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	lines *bufio.Scanner
	errs  strings.Builder
}

func startChild(o order) (*child, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.Command(exe)}
	c.cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	c.cmd.Stderr = &c.errs
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.lines = bufio.NewScanner(stdout)
	return c, c.cmd.Start()
}

// ready waits until the child has handled message 0.
func (c *child) ready() error {
	if c.lines.Scan() && c.lines.Text() == "ready" {
		return nil
	}
	c.stdin.Close()
	return errors.Join(fmt.Errorf("the relay process is not ready: %q %s", c.lines.Text(), c.errs.String()), c.cmd.Wait())
}

// finish waits for the report, for at most the given time, and then tells the child
// to stop with what it has.
func (c *child) finish(within time.Duration) (seen []sighting, peakKiB int, err error) {
	stop := time.AfterFunc(within, func() { c.stdin.Close() })
	defer stop.Stop()
	for c.lines.Scan() {
		name, value, _ := strings.Cut(c.lines.Text(), " ")
		v, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			continue // a second "ready": delivered twice is allowed
		}
		if name == "peak" {
			peakKiB = int(v)
			continue
		}
		n, err := strconv.Atoi(name)
		if err != nil {
			return nil, 0, err
		}
		seen = append(seen, sighting{n, time.Unix(0, v)})
	}
	c.stdin.Close()
	if err := c.cmd.Wait(); err != nil {
		return nil, 0, fmt.Errorf("the relay process failed: %w\n%s", err, c.errs.String())
	}
	return seen, peakKiB, c.lines.Err()
}
