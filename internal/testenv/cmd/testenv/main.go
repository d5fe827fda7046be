// Command testenv starts the servers that tests need.
//
//	testenv run -- go test ./...   with servers, for the time of one command
//	testenv up                     until interrupted; prints their addresses
//	testenv install                only the programs, with apt-get
//
// Run and up install what is missing when they are root. A backend that cannot
// be had is a warning, or an error when OUTBOX_REQUIRE or CI asks for it. The
// servers stop when testenv ends, however it ends.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"github.com/go-outbox/outbox/internal/testenv"
)

const usage = "usage: testenv run -- COMMAND ... | up | install"

func main() {
	code, err := dispatch(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "testenv:", err)
	}
	os.Exit(code)
}

func dispatch(args []string) (int, error) {
	switch {
	case len(args) > 2 && args[0] == "run" && args[1] == "--":
		return run(args[2:])
	case len(args) == 1 && args[0] == "up":
		return up()
	case len(args) == 1 && args[0] == "install":
		return status(testenv.Install(os.Stderr, testenv.Backends()))
	}
	return 2, errors.New(usage)
}

func status(err error) (int, error) {
	if err != nil {
		return 1, err
	}
	return 0, nil
}

// run gives command the servers and returns its exit status.
func run(command []string) (int, error) {
	servers, err := start()
	if err != nil {
		return 1, err
	}
	// The terminal interrupts the command too; we stay to stop the servers.
	signal.Ignore(syscall.SIGINT)

	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), servers.environ()...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	stopErr := servers.stop()

	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), stopErr
	}
	return status(errors.Join(err, stopErr))
}

// up keeps the servers until it is told to stop.
func up() (int, error) {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	servers, err := start()
	if err != nil {
		return 1, err
	}
	for _, assignment := range servers.environ() {
		name, value, _ := strings.Cut(assignment, "=")
		fmt.Printf("export %s='%s'\n", name, value)
	}
	fmt.Fprintln(os.Stderr, "the servers run until Ctrl-C")
	<-stop
	return status(servers.stop())
}

// servers are the backends at hand.
type servers struct {
	names  []string
	shared []*testenv.Shared
}

func start() (*servers, error) {
	install()
	var s servers
	for _, b := range testenv.Backends() {
		err := s.add(b)
		switch {
		case err == nil:
		case b.Required():
			return nil, errors.Join(fmt.Errorf("%s is required: %w", b.Name, err), s.stop())
		default:
			fmt.Fprintf(os.Stderr, "testenv: WITHOUT %s, its tests are skipped: %v\n", b.Name, err)
		}
	}
	fmt.Fprintf(os.Stderr, "testenv: with %s\n", strings.Join(s.names, ", "))
	return &s, nil
}

// install tries only as root: everyone else uses what the machine has. Whether
// a failure matters shows when the servers start.
func install() {
	if os.Geteuid() != 0 {
		return
	}
	if err := testenv.Install(os.Stderr, testenv.Backends()); err != nil {
		fmt.Fprintln(os.Stderr, "testenv:", err)
	}
}

func (s *servers) add(b testenv.Backend) error {
	if err := b.Installed(); err != nil {
		return err
	}
	shared, err := b.Start()
	if err != nil {
		return err
	}
	if shared != nil {
		s.shared = append(s.shared, shared)
	}
	s.names = append(s.names, b.Name)
	return nil
}

// environ is what the tests need to know.
func (s *servers) environ() []string {
	var env []string
	for _, shared := range s.shared {
		env = append(env, shared.Variable+"="+shared.Address)
	}
	return env
}

func (s *servers) stop() error {
	var err error
	for _, shared := range s.shared {
		err = errors.Join(err, shared.Stop())
	}
	return err
}
