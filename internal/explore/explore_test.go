package explore

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/go-outbox/outbox"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		// Each check is a database of its own: fewer, unless somebody asks for more.
		if err := flag.Set("rapid.checks", "25"); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

// boundVariable says how many departures a schedule may have, in the larger world.
// Without it there are one or two in the smaller one, which is seconds.
const boundVariable = "OUTBOX_EXPLORE"

// A departure is what a schedule does at one step instead of the default.
type departure struct {
	step  int
	label string
}

// A schedule is its departures, in order.
type schedule []departure

func (s schedule) String() string {
	parts := make([]string, len(s))
	for i, d := range s {
		parts[i] = fmt.Sprintf("%d: %s", d.step, d.label)
	}
	return strings.Join(parts, "; ")
}

// A choice is something that can happen next.
type choice struct {
	label string
	fault bool // it explains a duplicate
	do    func()
}

// An explorer remembers which states it has seen, and with how many departures left.
type explorer struct {
	bound   int
	large   bool
	moody   bool
	seen    map[uint64]int
	queue   []schedule
	runs    int
	choices int
}

func TestNoScheduleWithinTheBoundBreaksAPromise(t *testing.T) {
	explore(t, &explorer{bound: bound(t, usual)})
}

// The same around a message that is refused at first, so that reads for what is due meet
// what is in flight.
func TestNoScheduleAroundARetryBreaksAPromise(t *testing.T) {
	explore(t, &explorer{bound: bound(t, 1), moody: true})
}

func explore(t *testing.T, e *explorer) {
	t.Helper()
	e.large, e.seen, e.queue = os.Getenv(boundVariable) != "", make(map[uint64]int), []schedule{nil}
	began := time.Now()
	for len(e.queue) > 0 && !t.Failed() {
		next := e.queue[0]
		e.queue = e.queue[1:]
		synctest.Test(t, func(t *testing.T) { e.run(t, next) })
	}
	t.Logf("%d departures: %d schedules, %d distinct states, %d choices in %s",
		e.bound, e.runs, len(e.seen), e.choices, time.Since(began).Round(time.Millisecond))
	if len(e.seen) < 50 {
		t.Errorf("only %d states: the explorer explores nothing", len(e.seen))
	}
}

var boundFlag = flag.Int("bound", 0, "how many departures a schedule may have")

// bound is what the environment or the flag says, or n.
func bound(t *testing.T, n int) int {
	t.Helper()
	text := os.Getenv(boundVariable)
	switch {
	case text == "" && *boundFlag > 0:
		return *boundFlag
	case text == "" && testing.Short():
		return 1
	case text == "":
		return n
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", boundVariable, err)
	}
	return n
}

// run follows a schedule to its end, or to a state that was seen before.
func (e *explorer) run(t *testing.T, s schedule) {
	e.runs++
	w := newWorld(t, e.large, e.moody)
	defer w.end()
	synctest.Wait()
	rest, last := s, 0
	if len(s) > 0 {
		last = s[len(s)-1].step
	}
	for w.step = 1; ; w.step++ {
		if w.step > maxSteps {
			w.fail("no end after %d steps", maxSteps)
		}
		if len(w.broken) > 0 {
			t.Errorf("schedule [%s]:\n\t%s\n%s", s, strings.Join(w.broken, "\n\t"), w.story())
			return
		}
		choices := w.choices()
		if choices == nil {
			w.judge(t, s)
			return
		}
		pick := choices[0]
		switch {
		case len(rest) > 0 && rest[0].step == w.step:
			i := slices.IndexFunc(choices, func(c choice) bool { return c.label == rest[0].label })
			if i < 0 {
				return // scheduling inside the relay took another turn
			}
			pick, rest = choices[i], rest[1:]
			if pick.fault {
				w.faults++
			}
		case w.step > last && !e.spread(w, s, choices[1:]):
			return
		}
		w.trace = append(w.trace, pick.label)
		pick.do()
		synctest.Wait()
	}
}

// spread queues what else can happen here. It returns false in a state from which as
// much has been explored before.
func (e *explorer) spread(w *world, s schedule, others []choice) bool {
	left := e.bound - len(s)
	print := w.fingerprint()
	if w.been[print] {
		return true // the relay looks again and finds nothing: time goes on
	}
	if before, ok := e.seen[print]; ok && before >= left {
		return false
	}
	e.seen[print], w.been[print] = left, true
	if left == 0 {
		return true
	}
	for _, c := range others {
		e.choices++
		e.queue = append(e.queue, append(slices.Clone(s), departure{w.step, c.label}))
	}
	return true
}

func (w *world) story() string {
	var b strings.Builder
	for i, label := range w.trace {
		fmt.Fprintf(&b, "\t%3d %s\n", i+1, label)
	}
	return b.String()
}

// choices lists what can happen, the default first. Nil is the end.
func (w *world) choices() []choice {
	var open int
	w.view, open = w.inspect()
	w.mu.Lock()
	calls := slices.DeleteFunc(slices.Clone(w.pending), func(c *call) bool { return c.p.paused })
	slices.SortStableFunc(calls, func(a, b *call) int {
		return cmp.Or(cmp.Compare(a.lateness(), b.lateness()), cmp.Compare(a.since, b.since), cmp.Compare(a.label(), b.label()))
	})
	w.mu.Unlock()
	if w.late != nil && w.step >= lateBy {
		return []choice{{label: "late commit", do: func() { w.endLate(true) }}}
	}
	if open == 0 && w.late == nil && !w.resting(calls) {
		if p := w.sleeper(); p != nil {
			return []choice{{label: p.name + " wakes up", do: func() { p.paused = false }}}
		}
		if w.stopAll() {
			return []choice{{label: "stop", do: func() {}}}
		}
		if w.ended() {
			return nil
		}
	}
	if len(calls) == 0 {
		return []choice{{label: "time passes", do: w.pass}}
	}
	if c := calls[0]; c.slow && c.waited < slowness {
		return []choice{{label: "a moment passes", do: func() { c.waited++; <-time.After(moment) }}}
	}
	return w.around(calls)
}

// resting: something is still being done that matters.
func (w *world) resting(calls []*call) bool {
	return slices.ContainsFunc(calls, func(c *call) bool { return c.kind == "dispatch" || c.kind == "step" })
}

// around lists the default call, the ways it may go wrong, and what may come before it.
func (w *world) around(calls []*call) []choice {
	first := calls[0]
	list := []choice{w.let(first, goes)}
	for _, how := range wrongs[first.kind] {
		list = append(list, w.let(first, how))
	}
	for _, c := range calls[1:] {
		list = append(list, w.let(c, goes))
		if c.kind == "read" {
			list = append(list, w.let(c, delayed))
		}
	}
	if first.kind == "dispatch" || first.kind == "step" {
		list = append(list, choice{first.label() + ": slow", false, func() { first.slow = true }})
	}
	p := first.p
	if !p.stopped {
		list = append(list, choice{p.name + " dies", true, func() { w.crash(p) }})
		if w.sleeper() == nil {
			list = append(list, choice{p.name + " is stopped", true, func() { p.paused = true }})
		}
	}
	if s := w.sleeper(); s != nil {
		list = append(list, choice{s.name + " wakes up", true, func() { s.paused = false }})
	}
	if matters[first.kind] {
		if w.replays == 0 && !p.stopped { // somebody must be left to send it
			list = append(list, choice{"replay", true, w.replay})
		}
		list = append(list, choice{"clean", false, w.clean})
		if w.late != nil {
			list = append(list, choice{"late commit", false, func() { w.endLate(true) }})
			list = append(list, choice{"late rollback", false, func() { w.endLate(false) }})
		}
	}
	return list
}

// matters: these calls meet what operators and producers do.
var matters = map[string]bool{"step": true, "read": true, "read answer": true, "dispatch": true, "heads": true}

// wrongs are the ways in which each call can go wrong.
var wrongs = map[string][]string{
	"acquire":  {lost},
	"recover":  {lost, failed},
	"heads":    {failed},
	"read":     {delayed, failed},
	"step":     {lost, failed, delayed},
	"renew":    {lost, failed},
	"release":  {lost, failed},
	"dispatch": {refused, lost},
}

func (w *world) let(c *call, how string) choice {
	label := c.label()
	if how != goes {
		label += ": " + how
	}
	// A refusal is an answer, and an answer may be late: neither explains a duplicate.
	return choice{label, how == lost || how == failed, func() {
		w.drop(c)
		c.outcome <- how
	}}
}

// pass lets time go by until somebody wants something.
func (w *world) pass() {
	select {
	case <-w.arrived:
	default:
	}
	select {
	case <-w.arrived:
	case <-time.After(4 * lease):
	}
}

// crash kills a process and starts another.
func (w *world) crash(p *proc) {
	w.crashes++
	p.kill()
	w.spawn()
}

// sleeper is the process that is stopped, or nil.
func (w *world) sleeper() *proc {
	for _, p := range w.procs {
		if p.paused {
			return p
		}
	}
	return nil
}

// stopAll asks every process to stop, and reports whether any had to be asked.
func (w *world) stopAll() (asked bool) {
	for _, p := range w.procs {
		if !p.stopped {
			p.stopped, asked = true, true
			p.cancel()
		}
	}
	return asked
}

// ended reports whether all processes have ended.
func (w *world) ended() bool {
	for _, p := range w.procs {
		if len(p.done) == 0 {
			select {
			case <-p.dead: // it takes its time to find out
			default:
				return false
			}
		}
	}
	return true
}

func (w *world) replay() {
	w.replays++
	_, err := w.store.Apply(context.Background(), outbox.Action{Verb: outbox.VerbReplay, EventID: w.events[1].id, Actor: "ada", Reason: "again"})
	if err != nil && !errors.Is(err, outbox.ErrNotFound) { // the cleaner may have it
		w.fail("replay: %v", err)
	}
}

// clean deletes what is published. Only that may go.
func (w *world) clean() {
	before, _ := w.inspect()
	if _, err := w.store.Purge(context.Background(), outbox.PurgeRequest{Published: 0, Limit: 100}); err != nil {
		w.fail("clean: %v", err)
	}
	if _, after := w.inspect(); after != strings.Count(before, "pending")+strings.Count(before, "in_flight")+strings.Count(before, "retrying") {
		w.fail("clean deleted something of %s", before)
	}
}

// judge looks at the end of a run.
func (w *world) judge(t *testing.T, s schedule) {
	for seq, e := range w.events {
		rec, err := w.store.Get(context.Background(), e.id)
		switch {
		case e.rolledBack:
			if err == nil {
				w.fail("message %d was rolled back and exists", seq)
			}
		case err != nil: // the cleaner has it
			if e.accepted == 0 {
				w.fail("message %d is gone and was never accepted", seq)
			}
		case !rec.PublishedAt.IsZero() && e.accepted == 0:
			w.fail("message %d is published and was never accepted", seq)
		case rec.PublishedAt.IsZero():
			w.fail("message %d is %s at the end", seq, rec.Status(time.Now()))
		}
	}
	stats, err := w.store.Stats(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range stats.Leases {
		if l.Held && !w.unreleased() || l.Batches > 0 {
			w.fail("at the end: %+v", l)
		}
	}
	if len(w.broken) > 0 {
		t.Errorf("schedule [%s]:\n\t%s\n%s", s, strings.Join(w.broken, "\n\t"), w.story())
	}
}

// unreleased: a process died while it held the lease, or could not say that it was done.
func (w *world) unreleased() bool { return w.faults > 0 }
