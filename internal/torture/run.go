package torture

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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

	producers []*Position
	relays    []*Position
	processes []*Process // all that ever ran
	history   History
	struck    bool         // a relay was struck before
	hook      *Hook        // nil: relays have their own sink
	clocks    []wrongClock // of relays, as they were set

	mu            sync.Mutex
	weather       Weather        // guarded by mu
	replays       []Replay       // guarded by mu
	interventions []Intervention // guarded by mu
	connections   map[string]int // by process, the most that were seen; guarded by mu
}

// A Position is where a process works. When it dies another one takes its place, under
// a new name.
type Position struct {
	run     *Run
	name    string
	started int
	spec    Spec
	link    *Link // nil: straight to the database
	process *Process
}

// NewRun prepares the database. Whatever it starts is gone when t ends.
func NewRun(t testing.TB, place Place, seed uint64) *Run {
	t.Helper()
	r := &Run{t: t, Seed: seed, Place: place, dir: runDir(t), connections: make(map[string]int)}
	r.history = History{Seed: seed, Driver: place.Driver, Began: now(), BeganAt: time.Now()}
	db, err := Open(place, coordinator)
	if err != nil {
		t.Fatal(err)
	}
	r.db = db
	t.Cleanup(db.Close)
	t.Cleanup(r.killAll)
	if err := db.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.changeWeather(func(*Weather) {})
	return r
}

// coordinator is the name under which the run itself changes rows: as an operator.
const coordinator = "coordinator"

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

func (r *Run) weatherFile() string { return filepath.Join(r.dir, "weather") }

// changeWeather changes what sinks and producers do. The file is replaced as a whole: who
// reads it sees the old weather or the new.
func (r *Run) changeWeather(change func(*Weather)) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.weather)
	text, err := json.Marshal(r.weather)
	if err == nil {
		err = os.WriteFile(r.weatherFile()+".new", text, 0o644)
	}
	if err == nil {
		err = os.Rename(r.weatherFile()+".new", r.weatherFile())
	}
	if err != nil {
		r.t.Errorf("change the weather: %v", err)
	}
}

// Produce starts n producers.
func (r *Run) Produce(n int, p Producer) {
	r.t.Helper()
	for range n {
		name := fmt.Sprintf("producer-%d", len(r.producers)+1)
		r.producers = append(r.producers, r.position(name, Spec{Producer: &p}))
	}
}

// Relay starts a relay.
func (r *Run) Relay(config Relay) *Position {
	r.t.Helper()
	if config.Poll == 0 {
		config.Poll = 100 * time.Millisecond
	}
	r.history.Limits = Limits{
		Lease: config.Lease, Poll: config.Poll, Shards: max(config.Shards, 1), MaxAttempts: config.MaxAttempts, Retention: config.Retention,
		MaxBackoff: max(maxBackoff, config.Sink.Later), Connections: r.Place.Driver.connections(),
	}
	p := r.position(fmt.Sprintf("relay-%d", len(r.relays)+1), Spec{Relay: &config})
	r.relays = append(r.relays, p)
	return p
}

func (r *Run) position(name string, spec Spec) *Position {
	r.t.Helper()
	spec.Seed, spec.Place, spec.Weather = r.Seed, r.Place, r.weatherFile()
	p := &Position{run: r, name: name, spec: spec}
	if r.Place.Driver.remote() {
		link, err := newLink(name, r.Place, spec.Producer != nil)
		if err != nil {
			r.t.Fatal(err)
		}
		r.t.Cleanup(link.close)
		p.link, p.spec.Place = link, link.place
	}
	p.Start()
	return p
}

// Start starts the next process of this position.
func (p *Position) Start() {
	p.run.t.Helper()
	p.started++
	spec := p.spec
	spec.Name = fmt.Sprintf("%s.%d", p.name, p.started)
	process, err := start(p.run.dir, spec)
	if err != nil {
		p.run.t.Fatal(err)
	}
	p.process = process
	p.run.processes = append(p.run.processes, process)
}

// Name is that of the present process.
func (p *Position) Name() string { return p.process.Spec.Name }

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
	if p.process.Ended() && !p.process.failedToStart() {
		p.run.t.Error(p.process.explain())
	}
	p.ends(now(), false)
	if err := p.process.Kill(); err != nil {
		p.run.t.Fatal(err)
	}
}

// Stop stops the present process in order.
func (p *Position) Stop() {
	p.run.t.Helper()
	p.ends(now(), true)
	if err := p.process.Stop(); err != nil {
		p.run.t.Error(err)
	}
}

// ends notes when a relay ends and why.
func (p *Position) ends(at int64, asked bool) {
	if p.spec.Producer == nil {
		p.run.history.Ends = append(p.run.history.Ends, End{Process: p.Name(), At: at, Asked: asked})
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
		r.history.Transactions = append(r.history.Transactions, tx)
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
		r.revive()
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
		p.Signal(syscall.SIGTERM) // all of them at once
	}
	for _, p := range r.producers {
		p.Stop()
	}
	r.drain(patience)
	for _, p := range r.relays {
		p.Stop()
	}
	if err := r.collect(); err != nil {
		r.t.Fatal(err)
	}
	return &r.history
}

// drain waits until nothing is pending. What is left the checker reports.
func (r *Run) drain(patience time.Duration) {
	d := &r.history.Drain
	var err error
	if d.Backlog, err = r.Pending(); err != nil {
		r.t.Errorf("count the backlog: %v", err)
	}
	r.t.Logf("draining %d messages", d.Backlog)
	began := time.Now()
	d.Done = r.until(patience+time.Duration(d.Backlog)*time.Second/drainRate, func(ctx context.Context) bool {
		n, err := Pending(ctx, r.db.SQL())
		return err == nil && n == 0
	})
	d.Took = time.Since(began)
}

// collect reads what everybody wrote down.
func (r *Run) collect() error {
	h := &r.history
	for _, p := range r.processes {
		if !p.began() {
			continue // it was killed before it began
		}
		if err := h.addProcess(p); err != nil {
			return err
		}
	}
	for i, l := range h.LogLines {
		h.LogLines[i].At = r.rightTime(l.Relay, l.At)
	}
	slices.SortStableFunc(h.Deliveries, func(a, b Delivery) int { return cmp.Compare(a.At, b.At) })
	r.mu.Lock()
	h.Replays, h.Interventions = slices.Clone(r.replays), slices.Clone(r.interventions)
	for i := range h.Resources {
		h.Resources[i].Connections = r.connections[h.Resources[i].Relay]
	}
	r.mu.Unlock()
	if err := h.observe(r.t.Context(), r.db.SQL()); err != nil {
		return err
	}
	h.rename(r.name)
	return nil
}

func (h *History) addProcess(p *Process) error {
	if p.Spec.Producer != nil {
		notes, err := readJournal[Note](p.Spec.Journal)
		h.Transactions = append(h.Transactions, transactions(notes)...)
		return err
	}
	if fileExists(p.Spec.Journal) { // else nothing was delivered to a hook
		lines, err := readJournal[Delivery](p.Spec.Journal)
		if err != nil {
			return err
		}
		h.Deliveries = append(h.Deliveries, deliveries(lines)...)
	}
	said, err := p.logLines()
	if err != nil {
		return err
	}
	h.LogLines = append(h.LogLines, said...)
	if p.program() {
		h.Resources = append(h.Resources, Resource{Relay: p.Spec.Name, MaxRSS: p.memory()})
		return nil
	}
	if text, err := os.ReadFile(p.Spec.Journal + ".used"); err == nil { // else it was killed
		var used Resource
		if err := json.Unmarshal(text, &used); err != nil {
			return err
		}
		h.Resources = append(h.Resources, used)
	}
	return nil
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
