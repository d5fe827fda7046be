package torture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-outbox/outbox"
)

// A Run is one database with its producers and relays. Make it with NewRun. It belongs
// to the goroutine of its test.
type Run struct {
	t     testing.TB
	Seed  uint64
	Place Place
	db    Database
	dir   string

	producers []*Process
	relays    []*Position
	processes []*Process // all that ever ran
	enqueued  []Transaction
	outages   []Outage
	struck    bool // a relay was struck before
}

// A Position is where a relay works. When its process dies another one takes its place,
// under a new name.
type Position struct {
	run     *Run
	name    string
	started int
	relay   Relay
	process *Process
}

// NewRun prepares the database. Whatever it starts is gone when t ends.
func NewRun(t testing.TB, place Place, seed uint64) *Run {
	t.Helper()
	r := &Run{t: t, Seed: seed, Place: place, dir: runDir(t)}
	db, err := Open(place, "coordinator")
	if err != nil {
		t.Fatal(err)
	}
	r.db = db
	t.Cleanup(db.Close)
	t.Cleanup(r.killAll)
	if err := db.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// runDir is where journals and logs go: to the logs of the tests, where a failed run
// keeps them, or to a directory that goes with the test.
func runDir(t testing.TB) string {
	t.Helper()
	logs := os.Getenv("OUTBOX_TEST_LOGS")
	if logs == "" {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(logs, "torture-*") //nolint:usetesting // it outlives the test
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("journals and logs are in %s", dir)
	return dir
}

func (r *Run) killAll() {
	for _, p := range r.processes {
		if err := p.Kill(); err != nil {
			r.t.Error(err)
		}
	}
}

func (r *Run) start(spec Spec) *Process {
	r.t.Helper()
	spec.Seed, spec.Place = r.Seed, r.Place
	p, err := start(r.dir, spec)
	if err != nil {
		r.t.Fatal(err)
	}
	r.processes = append(r.processes, p)
	return p
}

// Produce starts n producers.
func (r *Run) Produce(n int, p Producer) {
	r.t.Helper()
	for range n {
		name := fmt.Sprintf("producer-%d", len(r.producers)+1)
		r.producers = append(r.producers, r.start(Spec{Name: name, Producer: &p}))
	}
}

// Relay starts a relay.
func (r *Run) Relay(config Relay) *Position {
	r.t.Helper()
	p := &Position{run: r, name: fmt.Sprintf("relay-%d", len(r.relays)+1), relay: config}
	p.Start()
	r.relays = append(r.relays, p)
	return p
}

// Start starts the next process of this position.
func (p *Position) Start() {
	p.run.t.Helper()
	p.started++
	p.process = p.run.start(Spec{Name: fmt.Sprintf("%s.%d", p.name, p.started), Relay: &p.relay})
}

// Signal sends the present process a signal.
func (p *Position) Signal(s syscall.Signal) {
	p.run.t.Helper()
	if err := p.process.Signal(s); err != nil {
		p.run.t.Fatal(err)
	}
}

// Kill kills the present process. One that has ended by itself fails the test: it was
// told to go on whatever happens.
func (p *Position) Kill() {
	p.run.t.Helper()
	if p.process.Ended() {
		p.run.t.Error(p.process.explain())
	}
	if err := p.process.Kill(); err != nil {
		p.run.t.Fatal(err)
	}
}

// Enqueue writes each body in a transaction of its own.
func (r *Run) Enqueue(bodies []body) {
	r.t.Helper()
	for i := range bodies {
		e, msg, err := bodies[i].message()
		if err != nil {
			r.t.Fatal(err)
		}
		tx := Transaction{ID: bodies[i].Transaction, Outcome: OK, Begun: now(), Events: []Event{e}}
		if err := r.enqueue(tx.ID, msg); err != nil {
			r.t.Fatal(err)
		}
		tx.Ended = now()
		r.enqueued = append(r.enqueued, tx)
	}
}

func (r *Run) enqueue(id string, msg outbox.Message) error {
	ctx := r.t.Context()
	tx, err := r.db.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }() // after a commit it does nothing
	if err := errors.Join(tx.Business(ctx, id), tx.Enqueue(ctx, msg)); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// AwaitWork returns when the first message has been settled: from then on there is
// something to break.
func (r *Run) AwaitWork(patience time.Duration) {
	r.t.Helper()
	settled := func(ctx context.Context) bool {
		n, err := Settled(ctx, r.db.SQL())
		return err == nil && n > 0
	}
	if !r.until(patience, settled) {
		r.t.Fatalf("nothing was settled within %s", patience)
	}
}

// until asks every 100 ms until the answer is yes or patience ends.
func (r *Run) until(patience time.Duration, yes func(context.Context) bool) bool {
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	for !yes(ctx) {
		if !wait(ctx, 100*time.Millisecond) {
			return false
		}
	}
	return true
}

// Pending counts what is not settled.
func (r *Run) Pending() (int, error) {
	ctx, cancel := context.WithTimeout(r.t.Context(), 10*time.Second)
	defer cancel()
	return Pending(ctx, r.db.SQL())
}

// Finish stops the producers, waits until the relays have nothing left to do, stops
// them in order and returns what everybody saw.
func (r *Run) Finish(patience time.Duration) *History {
	r.t.Helper()
	for _, p := range r.producers {
		if err := p.Signal(syscall.SIGTERM); err != nil { // all of them at once
			r.t.Error(err)
		}
	}
	for _, p := range r.producers {
		if err := p.Stop(); err != nil {
			r.t.Error(err)
		}
	}
	began := time.Now()
	drained := func(ctx context.Context) bool {
		n, err := Pending(ctx, r.db.SQL())
		return err == nil && n == 0
	}
	if r.until(patience, drained) {
		r.t.Logf("drained in %s", time.Since(began).Round(time.Millisecond))
	} else {
		r.t.Logf("not drained within %s", patience) // what is left, the checker reports
	}
	for _, p := range r.relays {
		if err := p.process.Stop(); err != nil {
			r.t.Error(err)
		}
	}
	h, err := r.history()
	if err != nil {
		r.t.Fatal(err)
	}
	return h
}

func (r *Run) history() (*History, error) {
	h := &History{Outages: r.outages, Transactions: slices.Clone(r.enqueued)}
	for _, p := range r.processes {
		switch {
		case p.Spec.Producer != nil:
			notes, err := readJournal[Note](p.Spec.Journal)
			if err != nil {
				return nil, err
			}
			h.Transactions = append(h.Transactions, transactions(notes)...)
		case fileExists(p.Spec.Journal): // else it was killed before it began
			deliveries, err := readJournal[Delivery](p.Spec.Journal)
			if err != nil {
				return nil, err
			}
			h.Deliveries = append(h.Deliveries, deliveries...)
			lines, err := p.logLines()
			if err != nil {
				return nil, err
			}
			h.LogLines = append(h.LogLines, lines...)
		}
	}
	slices.SortStableFunc(h.Deliveries, func(a, b Delivery) int { return cmp.Compare(a.At, b.At) })
	if err := h.observe(r.t.Context(), r.db.SQL()); err != nil {
		return nil, err
	}
	return h, nil
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Report fails the test for every violation, the first few of each rule in full. It
// tells of every dead message: it may be dead, and somebody should know why.
func Report(t testing.TB, h *History) {
	t.Helper()
	t.Logf("%+v", Summarize(h))
	const inFull = 5
	for _, story := range Deaths(h) {
		t.Log(story)
	}
	said := make(map[Rule]int)
	for _, v := range Check(h) {
		if said[v.Rule]++; said[v.Rule] <= inFull {
			t.Error(v)
		}
	}
	var more []string
	for rule, n := range said {
		if n > inFull {
			more = append(more, fmt.Sprintf("%d of %s", n, rule))
		}
	}
	if len(more) > 0 {
		t.Errorf("in all %s", strings.Join(more, ", "))
	}
}
