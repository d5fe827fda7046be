// Package torture runs real producers and real relays as processes of their own on a
// real database, breaks them, and proves from independent records that every promise
// was kept.
//
// Three witnesses write down what happens without trusting each other: each producer
// says what it tried and what COMMIT answered, the sink says what it was handed before
// it answers, and a trigger in the database says how each row changed and who changed
// it. [Check] compares them when the run is over.
//
// One seed drives workload, sink and faults, and a failed run prints it. Processes are
// scheduled by the operating system, so the same seed repeats the plan and not every
// interleaving: a failure found here wants a small deterministic test before it is
// called mended.
package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// childVariable holds the Spec of a child process.
const childVariable = "OUTBOX_TORTURE_CHILD"

// A Spec tells a child process what it is. Exactly one of Producer and Relay is set.
type Spec struct {
	// Name is unique for each start of a process: the relay's instance, the
	// database's application name, and the writer that the trigger sees.
	Name string
	Seed uint64
	// Place is the database, Journal the file to append records to.
	Place   Place
	Journal string
	// Weather is the file that says how the sink is doing.
	Weather string `json:",omitempty"`

	Producer *Producer `json:",omitempty"`
	Relay    *Relay    `json:",omitempty"`
}

// Child runs the process as what its environment says and never returns, or returns at
// once when this is no child. TestMain calls it first: the test binary is the program
// that is tortured.
func Child() {
	text := os.Getenv(childVariable)
	if text == "" {
		return
	}
	if err := runChild(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runChild(text string) error {
	var spec Spec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		return fmt.Errorf("read %s: %w", childVariable, err)
	}
	go endWithParent()
	// Caught until the end: a signal that comes as the child is about to end by itself
	// must not look like a crash.
	ctx, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	journal, err := openJournal(spec.Journal)
	if err != nil {
		return err
	}
	defer journal.Close()
	db, err := Open(spec.Place, spec.Name)
	if err != nil {
		return err
	}
	defer db.Close()
	switch {
	case spec.Producer != nil:
		return spec.Producer.run(ctx, &spec, db, journal)
	case spec.Relay != nil:
		return spec.Relay.run(ctx, &spec, db, journal)
	}
	return errors.New("a child is a producer or a relay")
}

// endWithParent ends the process when whoever started it is gone, however it died: the
// other end of standard input closes.
func endWithParent() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(2)
}

// dice returns a source of randomness of its own for each name.
func dice(seed uint64, name string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // a hash never fails
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// between returns a duration in [lo, hi).
func between(r *rand.Rand, lo, hi time.Duration) time.Duration {
	return lo + time.Duration(r.Int64N(int64(hi-lo)))
}

// wait returns after d, or false when ctx ends first.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
