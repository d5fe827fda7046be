package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// supervise runs a server until standard input ends, which it also does when this
// program is killed. Then it stops the server and removes its files.
const supervise = `
dir=$1 signal=$2
shift 2
"$@" </dev/null &
server=$!
read -r _
kill -s "$signal" "$server"
wait "$server"
rm -rf "$dir"
`

// A process is a private server in a directory of its own, on a port of its own.
type process struct {
	dir   string
	port  int
	attr  *syscall.SysProcAttr
	cmd   *exec.Cmd
	stdin io.Closer
}

// newProcess makes the directory and finds the port.
func newProcess() (*process, error) {
	dir, err := os.MkdirTemp("", "outbox-bench-")
	if err != nil {
		return nil, err
	}
	p := &process{dir: dir, attr: &syscall.SysProcAttr{Setpgid: true}} // keeps Ctrl-C away
	if err := p.giveAway(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if p.port, err = freePort(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return p, nil
}

// giveAway hands the directory to an unprivileged user when we are root, because
// servers refuse to run as root.
func (p *process) giveAway() error {
	if os.Getuid() != 0 {
		return nil
	}
	who, err := user.Lookup("postgres")
	if err != nil {
		if who, err = user.Lookup("nobody"); err != nil {
			return err
		}
	}
	uid, err := strconv.Atoi(who.Uid)
	if err != nil {
		return err
	}
	gid, err := strconv.Atoi(who.Gid)
	if err != nil {
		return err
	}
	p.attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return os.Chown(p.dir, uid, gid)
}

// prepare runs a program that makes the files the server needs.
func (p *process) prepare(ctx context.Context, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.SysProcAttr = p.dir, p.attr
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(argv[0]), err, out)
	}
	return nil
}

// start starts the server, which ends with signal, and waits until it answers.
func (p *process) start(ctx context.Context, signal string, argv []string, answers func(ctx context.Context) error) error {
	log, err := os.Create(filepath.Join(p.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd = exec.Command("/bin/sh", append([]string{"-c", supervise, "supervise", p.dir, signal}, argv...)...)
	p.cmd.Dir, p.cmd.SysProcAttr = p.dir, p.attr
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		if err = answers(ctx); err == nil {
			return nil
		}
		if !pause(ctx, 50*time.Millisecond) {
			text, _ := os.ReadFile(log.Name()) // the other error says more than this one
			return fmt.Errorf("start %s: %w\n%s", filepath.Base(argv[0]), err, text)
		}
	}
}

// stop returns when the server and its files are gone.
func (p *process) stop() error {
	if p.cmd == nil || p.cmd.Process == nil {
		return os.RemoveAll(p.dir)
	}
	p.stdin.Close()
	return p.cmd.Wait()
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
