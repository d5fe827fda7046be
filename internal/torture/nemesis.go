package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-outbox/outbox/internal/failpoint"
)

// The kinds of faults.
const (
	KillRelay         = "kill -9 relay"
	KillAtFailpoint   = "kill -9 at failpoint"
	PauseAtFailpoint  = "SIGSTOP at failpoint"
	PauseRelay        = "SIGSTOP relay"
	StopRelay         = "SIGTERM relay"
	TermStorm         = "SIGTERM storm"
	RollingRestart    = "rolling restart"
	KillProducer      = "kill -9 producer"
	PauseProducer     = "SIGSTOP producer"
	PauseBackends     = "SIGSTOP backends"
	TerminateBackends = "pg_terminate_backend"
	CancelBackends    = "pg_cancel_backend"
	FastStop          = "fast server stop"
	ImmediateStop     = "immediate server stop"
	KillPostmaster    = "kill -9 postmaster"
	DropCommits       = "COMMIT reply dropped"
	Blackhole         = "blackhole"
	HalfOpen          = "replies lost"
	ResetPeer         = "connections reset"
	Latency           = "latency"
	Swizzle           = "swizzle"
	SinkDown          = "sink down"
	SinkGone          = "sink refuses connections"
	StepClock         = "clock stepped"
	SinkFoggy         = "sink ambiguous"
)

// An attack breaks something, mends it, and tells what it did.
type attack struct {
	kind   string
	strike func(ctx context.Context, dice *rand.Rand) Fault
}

// A Nemesis breaks a run while it works. It strikes from the goroutine of the test, one
// fault after the other: each kind once in a random order, then again in another.
type Nemesis struct {
	attacks []attack
	// Between two faults pass Calm[0] to Calm[1].
	Calm [2]time.Duration
}

// Only leaves the nemesis the faults whose kind contains a word.
func (n Nemesis) Only(word string) Nemesis {
	n.attacks = slices.DeleteFunc(slices.Clone(n.attacks), func(a attack) bool { return !strings.Contains(a.kind, word) })
	return n
}

// Nemesis returns everything that can be done to this run: to its processes and sink, to
// their links if they have any, and what else is given.
func (r *Run) Nemesis(more ...attack) Nemesis {
	n := Nemesis{Calm: [2]time.Duration{150 * time.Millisecond, 850 * time.Millisecond}}
	add := func(kind string, strike func(context.Context, *rand.Rand) Fault) {
		n.attacks = append(n.attacks, attack{kind, strike})
	}
	add(KillRelay, r.killRelay)
	add(PauseRelay, r.pauseRelay)
	add(StopRelay, r.stopRelay)
	add(TermStorm, r.termStorm)
	add(RollingRestart, r.rollingRestart)
	add(KillProducer, r.killProducer)
	add(PauseProducer, r.pauseProducer)
	add(SinkDown, r.weatherAttack(Weather{Down: true}))
	add(SinkFoggy, r.weatherAttack(Weather{Foggy: 0.3}))
	if r.hook != nil {
		add(SinkGone, r.hookGone)
	}
	if r.relays[0].spec.Relay.steppedClock() {
		add(StepClock, r.stepClock)
	}
	if failpoint.Enabled || r.hook != nil {
		add(KillAtFailpoint, r.failpointAttack("kill"))
		add(PauseAtFailpoint, r.failpointAttack("stop"))
	}
	n.attacks = append(n.attacks, more...)
	if !r.Place.Driver.remote() {
		return n
	}
	add(DropCommits, r.dropCommits)
	add(Blackhole, r.linkAttack("timeout", 0, "upstream", "downstream"))
	add(HalfOpen, r.linkAttack("timeout", 0, "downstream"))
	add(ResetPeer, r.linkAttack("reset_peer", 0, "upstream", "downstream"))
	add(Latency, r.linkAttack("latency", 250, "upstream", "downstream"))
	add(Swizzle, r.swizzle)
	return n
}

// Torment lets the nemesis work for about d.
func (r *Run) Torment(n Nemesis, d time.Duration) {
	r.t.Helper()
	ctx, dice := r.t.Context(), dice(r.Seed, "nemesis")
	began := time.Now()
	var order []int
	for time.Since(began) < d && wait(ctx, between(dice, n.Calm[0], n.Calm[1])) {
		if len(order) == 0 {
			order = dice.Perm(len(n.attacks))
		}
		r.revive()
		a := n.attacks[order[0]]
		order = order[1:]
		from := now()
		f := a.strike(ctx, dice)
		f.Kind, f.From, f.To = a.kind, from, now()
		r.history.Faults = append(r.history.Faults, f)
		r.t.Logf("%6.2fs %s: %s", float64(from-r.history.Began)/1e9, f.Kind, f.Detail)
	}
}

// victim chooses a relay: the first time, and mostly, one that holds a lease, because
// the others have little to lose. busy says that it has messages in flight.
func (r *Run) victim(ctx context.Context, dice *rand.Rand) (p *Position, busy bool) {
	anyone, first := r.relays[dice.IntN(len(r.relays))], !r.struck
	r.struck = true
	if !first && dice.Float64() < 0.3 {
		busy, _ := r.busy(ctx, anyone) // a database that does not answer knows nothing
		return anyone, busy
	}
	for range 100 { // a lease may be between two owners
		if p := r.holder(ctx); p != nil {
			busy, _ := r.busy(ctx, p)
			return p, busy
		}
		if !first || !wait(ctx, 100*time.Millisecond) {
			break
		}
	}
	return anyone, false
}

func (r *Run) busy(ctx context.Context, p *Position) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return Busy(ctx, r.db.SQL(), p.process.pattern())
}

// holder returns a relay that holds a lease and lives, or nil.
func (r *Run) holder(ctx context.Context) *Position {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	names, err := Holders(ctx, r.db.SQL())
	if err != nil {
		return nil // the database may just be coming back
	}
	for _, p := range r.relays {
		if slices.ContainsFunc(names, p.process.is) {
			return p
		}
	}
	return nil
}

// killRelay kills a relay and starts another in its place a little later.
func (r *Run) killRelay(ctx context.Context, dice *rand.Rand) Fault {
	p, busy := r.victim(ctx, dice)
	name := p.Name()
	f := r.kill(ctx, p, between(dice, 0, 300*time.Millisecond), busy)
	if dice.IntN(2) == 0 {
		r.awaitSuccessor(ctx, name)
	}
	return f
}

// awaitSuccessor returns when a relay holds no lease any more: so the time that takes is
// known, because nothing else happens meanwhile.
func (r *Run) awaitSuccessor(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		names, err := Holders(ctx, r.db.SQL())
		if err == nil && !slices.Contains(names, name) || !wait(ctx, 20*time.Millisecond) {
			return
		}
	}
}

func (r *Run) killProducer(ctx context.Context, dice *rand.Rand) Fault {
	return r.kill(ctx, r.producers[dice.IntN(len(r.producers))], between(dice, 0, 300*time.Millisecond), true)
}

func (r *Run) kill(ctx context.Context, p *Position, pause time.Duration, hit bool) Fault {
	name := p.Name()
	p.Kill()
	wait(ctx, pause)
	p.Start()
	return Fault{
		Targets: []string{name}, Hit: hit,
		Detail: fmt.Sprintf("%s, and %s after %s", name, p.Name(), pause.Round(time.Millisecond)),
	}
}

// pauseRelay stops a relay for longer than its lease and lets it go on as if nothing had
// happened.
func (r *Run) pauseRelay(ctx context.Context, dice *rand.Rand) Fault {
	p, busy := r.victim(ctx, dice)
	return r.pause(ctx, p, r.beyondLease(dice), busy)
}

func (r *Run) pauseProducer(ctx context.Context, dice *rand.Rand) Fault {
	return r.pause(ctx, r.producers[dice.IntN(len(r.producers))], between(dice, 100*time.Millisecond, time.Second), true)
}

func (r *Run) pause(ctx context.Context, p *Position, d time.Duration, hit bool) Fault {
	p.Signal(syscall.SIGSTOP)
	wait(ctx, d)
	p.Signal(syscall.SIGCONT)
	return Fault{Targets: []string{p.Name()}, Hit: hit, Detail: fmt.Sprintf("%s for %s", p.Name(), d.Round(time.Millisecond))}
}

func (r *Run) beyondLease(dice *rand.Rand) time.Duration {
	return r.history.Limits.Lease + between(dice, 100*time.Millisecond, 500*time.Millisecond)
}

// stopRelay stops a relay in order and starts another at once.
func (r *Run) stopRelay(ctx context.Context, dice *rand.Rand) Fault {
	p, busy := r.victim(ctx, dice)
	name := p.Name()
	p.Stop()
	p.Start()
	return Fault{Targets: []string{name}, Hit: busy, Detail: name + ", and " + p.Name()}
}

// termStorm stops the relays of one position again and again, ready or not.
func (r *Run) termStorm(ctx context.Context, dice *rand.Rand) Fault {
	p, busy := r.victim(ctx, dice)
	f := Fault{Hit: busy}
	n := 3 + dice.IntN(3)
	for range n {
		f.Targets = append(f.Targets, p.Name())
		p.Stop()
		p.Start()
		wait(ctx, between(dice, 0, 100*time.Millisecond))
	}
	f.Detail = fmt.Sprintf("%s %d times", p.name, n)
	return f
}

// rollingRestart replaces all relays, one after the other, as a deployment does.
func (r *Run) rollingRestart(ctx context.Context, dice *rand.Rand) Fault {
	f := Fault{Hit: true, Detail: fmt.Sprintf("%d relays", len(r.relays))}
	for _, p := range r.relays {
		f.Targets = append(f.Targets, p.Name())
		p.Stop()
		p.Start()
		wait(ctx, between(dice, 0, 200*time.Millisecond))
	}
	return f
}

// failpointAttack makes a relay that is at work end or stop itself at a failpoint. Only
// a relay that takes over comes to the one in recovery: there the owner is killed first.
func (r *Run) failpointAttack(action string) func(context.Context, *rand.Rand) Fault {
	return func(ctx context.Context, dice *rand.Rand) Fault {
		p, _ := r.victim(ctx, dice)
		place := failpoint.Names[dice.IntN(len(failpoint.Names))]
		armed := fmt.Sprintf("%s=%s@%d", place, action, 1+dice.IntN(10))
		f := Fault{Targets: []string{p.Name()}}
		switch place {
		case failpoint.Recovered:
			armed = fmt.Sprintf("%s=%s@1", place, action)
			owner := p
			p = r.another(owner)
			f.Targets = append(f.Targets, p.Name())
			r.arm(p, armed)
			owner.Kill()
			defer owner.Start()
		case failpoint.Settling:
			armed += fmt.Sprintf("+%dus", 1+dice.IntN(3000))
			r.arm(p, armed)
		case failpoint.Purged:
			armed = fmt.Sprintf("%s=%s@1", place, action)
			r.arm(p, armed)
		default:
			r.arm(p, armed)
		}
		f.Detail = p.Name() + " at " + armed
		f.Hit = awaitEnd(ctx, p.process, 2*r.history.Limits.Lease+time.Second)
		if !f.Hit {
			r.arm(p, "")
			f.Hit = awaitEnd(ctx, p.process, 100*time.Millisecond) // it may have been about to
		}
		switch {
		case p.process.Ended():
			p.ends(p.process.end, false)
			p.Start()
		case f.Hit:
			wait(ctx, r.beyondLease(dice))
			p.Signal(syscall.SIGCONT)
		}
		return f
	}
}

func (r *Run) arm(p *Position, text string) {
	if err := p.process.arm(text); err != nil {
		r.t.Error(err)
	}
}

// another returns a relay besides p.
func (r *Run) another(p *Position) *Position {
	for _, other := range r.relays {
		if other != p {
			return other
		}
	}
	return p
}

// awaitEnd waits until a process has ended or stopped itself.
func awaitEnd(ctx context.Context, p *Process, patience time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for !p.Ended() && !p.stopped() {
		if !wait(ctx, 20*time.Millisecond) {
			return false
		}
	}
	return true
}

// weatherAttack changes what the sink does for a while.
func (r *Run) weatherAttack(w Weather) func(context.Context, *rand.Rand) Fault {
	return func(ctx context.Context, dice *rand.Rand) Fault {
		d := between(dice, 200*time.Millisecond, time.Second)
		r.changeWeather(func(now *Weather) { now.Down, now.Foggy = w.Down, w.Foggy })
		wait(ctx, d)
		r.changeWeather(func(now *Weather) { now.Down, now.Foggy = false, 0 })
		return Fault{Hit: true, Targets: []string{"sink"}, Detail: d.Round(time.Millisecond).String()}
	}
}

// inThePipes is how long answers of a server that is gone may still arrive: the links
// hold some.
const inThePipes = 100 * time.Millisecond

func (r *Run) outage(ctx context.Context, server interface{ Start() }, d time.Duration) {
	from := time.Now().Add(inThePipes)
	wait(ctx, d)
	r.history.Outages = append(r.history.Outages, Outage{From: from, To: time.Now()})
	server.Start()
}

// dropCommits makes the answers to some commits of a producer disappear.
func (r *Run) dropCommits(ctx context.Context, dice *rand.Rand) Fault {
	p := r.producers[dice.IntN(len(r.producers))]
	w, n := p.link.wire, int64(1+dice.IntN(10))
	before := w.dropped.Load()
	w.armed.Store(n)
	wait(ctx, between(dice, 200*time.Millisecond, 600*time.Millisecond))
	w.armed.Store(0)
	dropped := w.dropped.Load() - before
	return Fault{Targets: []string{p.Name()}, Hit: dropped > 0, Detail: fmt.Sprintf("%d of %s", dropped, p.Name())}
}

// linkAttack poisons the link of a relay or, one time in four, of a producer.
func (r *Run) linkAttack(kind string, latency int, streams ...string) func(context.Context, *rand.Rand) Fault {
	return func(ctx context.Context, dice *rand.Rand) Fault {
		p, busy := r.victim(ctx, dice)
		if dice.IntN(4) == 0 {
			p, busy = r.producers[dice.IntN(len(r.producers))], true
		}
		var toxins []toxin
		for _, stream := range streams {
			attributes := map[string]int{"timeout": 0}
			if latency > 0 {
				attributes = map[string]int{"latency": 1 + dice.IntN(latency), "jitter": 1 + dice.IntN(latency)}
			}
			toxins = append(toxins, toxin{Type: kind, Stream: stream, Attributes: attributes})
		}
		d := between(dice, 100*time.Millisecond, 3*r.history.Limits.Lease/2)
		r.poisoned(p.link, toxins, func() { wait(ctx, d) }) //nolint:contextcheck // a link is cured also when the run is given up
		return Fault{Targets: []string{p.Name()}, Hit: busy, Detail: fmt.Sprintf("%s for %s", p.Name(), d.Round(time.Millisecond))}
	}
}

func (r *Run) poisoned(l *Link, toxins []toxin, meanwhile func()) {
	cure, err := l.poison(toxins...)
	if err != nil {
		r.t.Error(err)
		return
	}
	defer cure()
	meanwhile()
}

// swizzle cuts off the relays one by one and lets them come back in another order.
func (r *Run) swizzle(ctx context.Context, dice *rand.Rand) Fault {
	var f Fault
	cures := make([]func(), len(r.relays))
	for _, i := range dice.Perm(len(r.relays)) {
		//nolint:contextcheck // a link is cured also when the run is given up
		cure, err := r.relays[i].link.poison(toxin{Type: "timeout", Stream: "downstream", Attributes: map[string]int{"timeout": 0}})
		if err != nil {
			r.t.Error(err)
			continue
		}
		cures[i] = cure
		f.Targets = append(f.Targets, r.relays[i].Name())
		wait(ctx, between(dice, 0, r.history.Limits.Lease/2))
	}
	for _, i := range dice.Perm(len(r.relays)) {
		if cures[i] != nil {
			cures[i]()
		}
		wait(ctx, between(dice, 0, 300*time.Millisecond))
	}
	f.Hit, f.Detail = true, fmt.Sprintf("%d relays", len(r.relays))
	return f
}
