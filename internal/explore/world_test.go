package explore

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/relay"
	"github.com/go-outbox/outbox/store/memstore"
)

const (
	topic    = "shop.order.placed.v1"
	lease    = 3 * time.Second
	maxSteps = 600 // far more than any schedule needs
	lateBy   = 12  // steps after which the late transaction ends by itself
	slowness = 4   // moments that a slow call takes
	// moment is long for a relay that looks for what is due, and short for a lease.
	moment = 100 * time.Millisecond
)

var (
	errDead   = errors.New("the process is dead")
	errFailed = errors.New("the call failed")
	errLost   = errors.New("the answer was lost")
	errRefuse = errors.New("refused")
)

// A world is one run: a store, its relays, and what they were seen to do.
type world struct {
	t     *testing.T
	store *memstore.Store
	late  *memstore.Tx // nil when it has ended

	mu      sync.Mutex
	procs   []*proc
	pending []*call
	arrived chan struct{}
	step    int
	view    string          // the store at this step
	been    map[uint64]bool // states of this run
	over    bool            // nothing is judged any more
	epoch   int64
	tick    int // orders begins, commits and deliveries
	events  map[int64]*event
	broken  []string

	moody   bool // the sink refuses the first delivery of the first message
	faults  int  // departures that explain a duplicate
	replays int
	crashes int
	trace   []string
}

// An event is what became of one message.
type event struct {
	id               uuid.UUID
	key              string
	began, committed int // ticks
	rolledBack       bool
	first            int // delivery
	accepted         int // how often
}

// A proc is one relay process.
type proc struct {
	w       *world
	name    string
	cancel  context.CancelFunc
	dead    chan struct{}
	done    chan error
	stopped bool // it was stopped, or is dead
	paused  bool
	history uint64 // what it has been told
	// recorded are the messages of which it is durable that it has them.
	recorded map[int64]bool
}

// A call is a store call or a dispatch at its gate.
type call struct {
	p       *proc
	kind    string
	what    string
	since   int // step
	outcome chan string
	slow    bool // it takes a few moments
	waited  int  // moments
}

func (c *call) label() string {
	return strings.TrimSuffix(fmt.Sprintf("%s %s %s", c.p.name, c.kind, c.what), " ")
}

// lateness is 1 of what is slow and of an answer that is late: everything else goes first.
func (c *call) lateness() int {
	if c.slow || strings.HasSuffix(c.kind, " answer") {
		return 1
	}
	return 0
}

// newWorld is a table with a transaction that holds a number back, and two relays. The
// larger world has one message more.
func newWorld(t *testing.T, large, moody bool) *world {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, store: store, moody: moody, been: map[uint64]bool{}, events: map[int64]*event{}, arrived: make(chan struct{}, 1)}
	w.enqueue("a")
	if large {
		w.enqueue("b")
	}
	w.late = store.Begin()
	w.add(w.late, "a")
	w.enqueue("b")
	for range 2 {
		w.spawn()
	}
	return w
}

// enqueue commits a message.
func (w *world) enqueue(key string) {
	tx := w.store.Begin()
	e := w.add(tx, key)
	if err := tx.Commit(); err != nil {
		w.t.Fatal(err)
	}
	w.tick++
	e.committed = w.tick
}

func (w *world) add(tx *memstore.Tx, key string) *event {
	w.tick++
	e := &event{id: uuid.New(), key: key, began: w.tick}
	seq, err := w.store.Enqueue(context.Background(), tx, outbox.Message{Topic: topic, Key: key, EventID: e.id, Payload: []byte(`1`)})
	if err != nil {
		w.t.Fatal(err)
	}
	w.events[seq] = e
	return e
}

// endLate commits or rolls back the transaction that holds a number back.
func (w *world) endLate(commit bool) {
	end := w.late.Rollback
	if commit {
		end = w.late.Commit
	}
	if err := end(); err != nil {
		w.t.Fatal(err)
	}
	w.late = nil
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tick++
	for _, e := range w.events {
		if e.committed == 0 {
			if e.rolledBack = !commit; commit {
				e.committed = w.tick
			}
		}
	}
}

// spawn starts a relay process.
func (w *world) spawn() {
	p := &proc{w: w, name: fmt.Sprint("r", len(w.procs)+1), dead: make(chan struct{}), done: make(chan error, 1), recorded: map[int64]bool{}}
	w.procs = append(w.procs, p)
	r, err := relay.New(gatedStore{p}, outbox.DispatcherFunc(p.dispatch), relay.Config{
		Instance: p.name, Lease: lease, Poll: time.Second, Batch: 2, Window: 4, Concurrency: 2, DrainTimeout: lease, OnDead: relay.Skip,
		Retries: outbox.Retries{
			Default: outbox.RetryPolicy{MaxAttempts: 20, Base: 100 * time.Millisecond, Max: time.Second},
			Random:  func() float64 { return 0.5 },
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go func() { p.done <- r.Run(ctx) }()
}

// gate stops a call until it may go, and says how.
func (p *proc) gate(ctx context.Context, kind, what string) (string, error) {
	w := p.w
	c := &call{p: p, kind: kind, what: what, outcome: make(chan string, 1)}
	w.mu.Lock()
	if w.over {
		w.mu.Unlock()
		return "", errDead
	}
	c.since = w.step
	w.pending = append(w.pending, c)
	w.mu.Unlock()
	select {
	case w.arrived <- struct{}{}:
	default:
	}
	select {
	case how := <-c.outcome:
		return how, nil
	case <-p.dead:
		w.drop(c)
		return "", errDead
	case <-ctx.Done():
		w.drop(c)
		return "", ctx.Err()
	}
}

func (w *world) drop(c *call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending = slices.DeleteFunc(w.pending, func(other *call) bool { return other == c })
}

// learn notes what a process has been told. Looks that bring nothing teach nothing.
func (p *proc) learn(format string, args ...any) {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d ", p.history)
	fmt.Fprintf(h, format, args...)
	p.history = h.Sum64()
}

func (w *world) fail(format string, args ...any) {
	w.broken = append(w.broken, fmt.Sprintf(format, args...))
}

// dispatch is the sink.
func (p *proc) dispatch(ctx context.Context, m outbox.DispatchedMessage) error {
	how, err := p.gate(ctx, "dispatch", fmt.Sprint(m.Meta.Sequence))
	if err != nil {
		return err
	}
	w := p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if !p.recorded[m.Meta.Sequence] {
		w.fail("%s dispatched message %d before it was durable that it would", p.name, m.Meta.Sequence)
	}
	p.learn("dispatch %d %s", m.Meta.Sequence, how)
	if how == refused {
		return errRefuse
	}
	if w.moody && m.Meta.Sequence == 1 {
		w.moody = false
		return errRefuse
	}
	e := w.events[m.Meta.Sequence]
	w.tick++
	switch {
	case e.rolledBack || e.committed == 0:
		w.fail("message %d was delivered and is not committed", m.Meta.Sequence)
	case e.first == 0:
		e.first = w.tick
		w.inOrder(m.Meta.Sequence, e)
	}
	if how == lost {
		return errLost
	}
	e.accepted++
	if e.accepted > 1+w.faults {
		w.fail("message %d was accepted %d times, with %d faults", m.Meta.Sequence, e.accepted, w.faults)
	}
	return nil
}

// inOrder wants that whatever of the key was committed before e began has been
// delivered.
func (w *world) inOrder(seq int64, e *event) {
	for other, o := range w.events {
		if o.key == e.key && o.committed > 0 && o.committed < e.began && o.first == 0 {
			w.fail("message %d of key %s was delivered before %d", seq, e.key, other)
		}
	}
}

// inspect describes the store for a fingerprint, and returns what is not settled.
func (w *world) inspect() (text string, open int) {
	list, err := w.store.List(context.Background(), outbox.Filter{OldestFirst: true})
	if err != nil {
		w.t.Fatal(err)
	}
	var b strings.Builder
	for _, r := range list.Records {
		status := r.Status(list.Now)
		if status != outbox.StatusPublished && status != outbox.StatusDead {
			open++
		}
		fmt.Fprintf(&b, "%d %s %d %d %d %t;", r.Sequence, status, r.Attempts, r.Crashes, r.Replays, r.AvailableAt.After(list.Now))
	}
	stats, err := w.store.Stats(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, l := range stats.Leases {
		fmt.Fprintf(&b, " lease %s %d %t %t %d %d %s", l.Instance, l.Epoch, l.Held, l.Draining, l.Low, l.Batches, l.ExpiresAt.Sub(list.Now).Round(500*time.Millisecond))
	}
	return b.String(), open
}

// fingerprint is the state of the world: the store, what each process has been told and
// waits for, and what the sink has.
func (w *world) fingerprint() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := fmt.Append([]byte(w.view), w.late == nil, w.moody, w.faults, w.replays, w.crashes)
	for _, p := range w.procs {
		b = fmt.Append(b, p.name, p.history, p.paused, p.stopped)
	}
	labels := make([]string, 0, len(w.pending))
	for _, c := range w.pending {
		labels = append(labels, fmt.Sprint(c.label(), c.slow, c.waited))
	}
	slices.Sort(labels)
	b = fmt.Append(b, labels)
	for seq := int64(1); seq <= int64(len(w.events)); seq++ {
		b = fmt.Append(b, seq, w.events[seq].first > 0, w.events[seq].accepted)
	}
	h := fnv.New64a()
	h.Write(b)
	return h.Sum64()
}

// end lets everybody go and waits for them: after this the bubble is empty.
func (w *world) end() {
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
	for _, p := range w.procs {
		p.kill()
	}
	for _, p := range w.procs {
		<-p.done
	}
	if w.late != nil {
		w.endLate(false)
	}
	synctest.Wait()
}

// kill ends a process as kill -9 does: nothing that it calls from now on happens.
func (p *proc) kill() {
	select {
	case <-p.dead:
	default:
		close(p.dead)
	}
	p.stopped = true
	p.cancel()
}
