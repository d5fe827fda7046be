package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/go-outbox/outbox/internal/testenv"
)

// A Fault breaks something, mends it, and says what it did.
type Fault func(ctx context.Context, dice *rand.Rand) string

// A Nemesis breaks a run while it works. It strikes from the goroutine of the test, one
// fault after the other: each kind once in a random order, then again in another.
type Nemesis struct {
	Faults []Fault
	// Between two faults pass Calm[0] to Calm[1].
	Calm [2]time.Duration
}

// Torment lets the nemesis work for about d.
func (r *Run) Torment(n Nemesis, d time.Duration) {
	r.t.Helper()
	ctx, dice := r.t.Context(), dice(r.Seed, "nemesis")
	began := time.Now()
	var order []int
	for time.Since(began) < d && wait(ctx, between(dice, n.Calm[0], n.Calm[1])) {
		if len(order) == 0 {
			order = dice.Perm(len(n.Faults))
		}
		at := time.Since(began)
		r.t.Logf("%6.2fs %s", at.Seconds(), n.Faults[order[0]](ctx, dice))
		order = order[1:]
	}
}

// victim chooses a relay: the first time, and mostly, one that holds a lease, because
// the others have little to lose.
func (r *Run) victim(ctx context.Context, dice *rand.Rand) *Position {
	anyone, first := r.relays[dice.IntN(len(r.relays))], !r.struck
	r.struck = true
	if !first && dice.Float64() < 0.3 {
		return anyone
	}
	for range 100 { // a lease may be between two owners
		if p := r.holder(ctx); p != nil {
			return p
		}
		if !first || !wait(ctx, 100*time.Millisecond) {
			break
		}
	}
	return anyone
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
		if slices.Contains(names, p.process.Spec.Name) {
			return p
		}
	}
	return nil
}

// KillRelay kills a relay and starts another in its place a little later.
func (r *Run) KillRelay(ctx context.Context, dice *rand.Rand) string {
	p, pause := r.victim(ctx, dice), between(dice, 0, 500*time.Millisecond)
	name := p.process.Spec.Name
	p.Kill()
	wait(ctx, pause)
	p.Start()
	return fmt.Sprintf("kill -9 %s, %s started after %s", name, p.process.Spec.Name, pause.Round(time.Millisecond))
}

// PauseRelay stops a relay for longer than its lease and lets it go on as if nothing had
// happened.
func (r *Run) PauseRelay(ctx context.Context, dice *rand.Rand) string {
	p := r.victim(ctx, dice)
	pause := p.relay.Lease + between(dice, 100*time.Millisecond, 1500*time.Millisecond)
	p.Signal(syscall.SIGSTOP)
	wait(ctx, pause)
	p.Signal(syscall.SIGCONT)
	return fmt.Sprintf("SIGSTOP %s for %s", p.process.Spec.Name, pause.Round(time.Millisecond))
}

// PauseBackends stops the server's side of a relay for longer than its lease. What the
// relay has sent waits in the sockets and runs when another relay has taken over: the
// relay can do nothing about it any more, only the fence can.
func (r *Run) PauseBackends(ctx context.Context, dice *rand.Rand) string {
	p := r.victim(ctx, dice)
	pause := p.relay.Lease + between(dice, 100*time.Millisecond, 1500*time.Millisecond)
	pids, err := r.backends(ctx, `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1`,
		p.process.Spec.Name)
	if err != nil {
		r.t.Errorf("find backends: %v", err)
	}
	r.signal(pids, syscall.SIGSTOP)
	wait(ctx, pause)
	r.signal(pids, syscall.SIGCONT)
	return fmt.Sprintf("SIGSTOP %d backends of %s for %s", len(pids), p.process.Spec.Name, pause.Round(time.Millisecond))
}

// signal sends a signal to server processes. One that has ended meanwhile is fine.
func (r *Run) signal(pids []int, s syscall.Signal) {
	for _, pid := range pids {
		if err := syscall.Kill(pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
			r.t.Errorf("signal backend %d: %v", pid, err)
		}
	}
}

// TerminateBackends ends server connections under the hands of their owners.
func (r *Run) TerminateBackends(ctx context.Context, dice *rand.Rand) string {
	whose := []string{"relay-%", "%-%"}[dice.IntN(2)]
	pids, err := r.backends(ctx, `SELECT pid FROM pg_stat_activity
		WHERE datname = current_database() AND application_name LIKE $1 AND pg_terminate_backend(pid)`, whose)
	if err != nil {
		r.t.Errorf("terminate backends: %v", err)
	}
	return fmt.Sprintf("pg_terminate_backend of %d connections of %s", len(pids), whose)
}

// backends runs a query that returns process ids, on a connection of its own.
func (r *Run) backends(ctx context.Context, query, whose string) ([]int, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, r.Place.DSN)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, query, whose)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int])
}

// CrashServer returns a fault that stops the server as in a crash and starts it again
// after 1 s to longest.
func (r *Run) CrashServer(server *testenv.PGServer, longest time.Duration) Fault {
	return func(ctx context.Context, dice *rand.Rand) string {
		pause := between(dice, time.Second, longest)
		server.Stop(testenv.Immediate)
		from := time.Now()
		wait(ctx, pause)
		r.outages = append(r.outages, Outage{From: from, To: time.Now()})
		server.Start() //nolint:contextcheck // a server that starts must not be given up halfway
		return fmt.Sprintf("immediate server stop for %s", pause.Round(time.Millisecond))
	}
}
