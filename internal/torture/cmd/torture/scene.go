package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
)

// A scene is a testing.TB outside of a test: servers and runs are made for tests and
// clean up after themselves when one ends. Only what they use is there.
type scene struct {
	testing.TB // nil: whoever calls anything else is told by the panic

	out      io.Writer
	ctx      context.Context //nolint:containedctx // as testing.T has
	cleanups []func()
	errs     []string
}

// stage runs f as a test would be, and returns what it complained about.
func stage(out io.Writer, f func(t *scene)) error {
	testing.Init() // servers ask whether this is a short test
	if err := flag.CommandLine.Parse(nil); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &scene{out: out, ctx: ctx}
	done := make(chan struct{})
	go func() { // of its own, because Fatal ends it
		defer close(done)
		defer s.clean()
		defer cancel()
		f(s)
	}()
	<-done
	if len(s.errs) > 0 {
		return errors.New(strings.Join(s.errs, "\n"))
	}
	return nil
}

func (s *scene) clean() {
	for len(s.cleanups) > 0 {
		last := s.cleanups[len(s.cleanups)-1]
		s.cleanups = s.cleanups[:len(s.cleanups)-1]
		last()
	}
}

func (s *scene) Helper()                  {}
func (s *scene) Name() string             { return "torture" }
func (s *scene) Context() context.Context { return s.ctx }
func (s *scene) Cleanup(f func())         { s.cleanups = append(s.cleanups, f) }
func (s *scene) Failed() bool             { return len(s.errs) > 0 }

func (s *scene) Log(args ...any)                 { fmt.Fprintln(s.out, args...) }
func (s *scene) Logf(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }

func (s *scene) Error(args ...any) {
	s.errs = append(s.errs, strings.TrimSuffix(fmt.Sprintln(args...), "\n"))
	s.Log(args...)
}

func (s *scene) Errorf(format string, args ...any) { s.Error(fmt.Sprintf(format, args...)) }

func (s *scene) Fatal(args ...any) {
	s.Error(args...)
	runtime.Goexit()
}

func (s *scene) Fatalf(format string, args ...any) { s.Fatal(fmt.Sprintf(format, args...)) }

func (s *scene) Skip(args ...any) { s.Fatal(args...) } // a run that is asked for is wanted

func (s *scene) TempDir() string {
	dir, err := os.MkdirTemp("", "torture-*")
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
