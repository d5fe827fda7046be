package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"outbox":  main,
		"enqueue": enqueueMain,
		"record":  recordMain,
		"stuck":   stuckMain,
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:   "testdata/script",
		Cmds:  scriptCommands,
		Setup: quickExit,
	})
}

// The scripts of this directory find a database of their own in OUTBOX_DSN.
func TestPostgresScripts(t *testing.T) {
	dsn := testenv.Postgres(t).DSN()
	testscript.Run(t, testscript.Params{
		Dir:  "testdata/script/postgres",
		Cmds: scriptCommands,
		Setup: func(e *testscript.Env) error {
			e.Setenv("OUTBOX_DSN", dsn)
			return quickExit(e)
		},
	})
}

// quickExit takes the second from each program that the race detector waits at its
// end.
func quickExit(e *testscript.Env) error {
	e.Setenv("GORACE", "atexit_sleep_ms=0")
	return nil
}

var scriptCommands = map[string]func(*testscript.TestScript, bool, []string){
	"exits":   exitsCmd,
	"await":   awaitCmd,
	"fields":  fieldsCmd,
	"capture": captureCmd,
	"sigterm": sigtermCmd,
}

// exits CODE PROGRAM [ARGS…] runs a program that must exit with this code.
func exitsCmd(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// await PATTERN FILE waits until a line of the file matches.
func awaitCmd(ts *testscript.TestScript, _ bool, args []string) {
	pattern, path := regexp.MustCompile("(?m)"+args[0]), ts.MkAbs(args[1])
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if text, err := os.ReadFile(path); err == nil && pattern.Match(text) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			ts.Fatalf("%s does not match %s", args[1], pattern)
		}
	}
}

// fields NAME… checks that the last output is JSON lines with exactly these names.
func fieldsCmd(ts *testscript.TestScript, _ bool, args []string) {
	slices.Sort(args)
	dec := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout")))
	lines := 0
	for dec.More() {
		var line map[string]any
		ts.Check(dec.Decode(&line))
		if got := slices.Sorted(maps.Keys(line)); !slices.Equal(got, args) {
			ts.Fatalf("fields %q, want %q", got, args)
		}
		lines++
	}
	if lines == 0 {
		ts.Fatalf("no output")
	}
}

// capture NAME PATTERN sets a variable to the first group of the pattern in the last
// output.
func captureCmd(ts *testscript.TestScript, _ bool, args []string) {
	match := regexp.MustCompile(args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if len(match) < 2 {
		ts.Fatalf("the output does not match %s", args[1])
	}
	ts.Setenv(args[0], match[1])
}

// sigterm asks the programs in the background to stop. (kill knows only the other
// signals.)
func sigtermCmd(ts *testscript.TestScript, _ bool, _ []string) {
	for _, cmd := range ts.BackgroundCmds() {
		ts.Check(cmd.Process.Signal(syscall.SIGTERM))
	}
}

// enqueueMain is `enqueue TABLE TOPIC KEY PAYLOAD`: an application, as far as the
// scripts need one.
func enqueueMain() {
	if err := enqueue(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func enqueue(table, topic, key, payload string) error {
	ctx := context.Background()
	db, err := openDatabase(ctx, os.Getenv("OUTBOX_DSN"), false)
	if err != nil {
		return err
	}
	defer db.close()
	s, err := db.table(table)
	if err != nil {
		return err
	}
	producer, ok := s.(interface {
		EnqueueAutocommit(context.Context, outbox.Message) (int64, error)
	})
	if !ok {
		return fmt.Errorf("%T cannot enqueue", s)
	}
	seq, err := producer.EnqueueAutocommit(ctx, outbox.Message{Topic: topic, Key: key, Payload: json.RawMessage(payload)})
	fmt.Println(seq)
	return err
}

// recordMain is `record TABLE VERB ROUTE REASON`: a relay that notices something.
func recordMain() {
	if err := record(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func record(table, verb, route, reason string) error {
	ctx := context.Background()
	db, err := openDatabase(ctx, os.Getenv("OUTBOX_DSN"), false)
	if err != nil {
		return err
	}
	defer db.close()
	s, err := db.table(table)
	if err != nil {
		return err
	}
	r, ok := s.(outbox.Recorder)
	if !ok {
		return fmt.Errorf("%T keeps no records", s)
	}
	return r.Record(ctx, outbox.AuditEntry{Actor: "relay-1", Verb: outbox.Verb(verb), Route: route, Reason: reason})
}

// stuckMain stands for a program that does not react to the first signal.
func stuckMain() {
	ctx, _ := interruptible(context.Background())
	fmt.Println("ready")
	<-ctx.Done()
	fmt.Println("draining")
	select {}
}
