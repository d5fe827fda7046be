package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/go-outbox/outbox/internal/testenv"
)

func (r *Run) postgresAttacks(server *testenv.PGServer) []attack {
	return []attack{
		{PauseBackends, r.pauseBackends},
		{TerminateBackends, r.backendsAttack("pg_terminate_backend")},
		{CancelBackends, r.backendsAttack("pg_cancel_backend")},
		{FastStop, r.stopServer(server, testenv.Fast)},
		{ImmediateStop, r.stopServer(server, testenv.Immediate)},
		{KillPostmaster, r.killPostmaster(server)},
	}
}

// pauseBackends stops the server's side of a relay for longer than its lease. What the
// relay has sent waits in the sockets and runs when another relay has taken over: the
// relay can do nothing about it any more, only the fence can.
func (r *Run) pauseBackends(ctx context.Context, dice *rand.Rand) Fault {
	p, _ := r.victim(ctx, dice)
	d := r.beyondLease(dice)
	pids, err := r.backends(ctx, `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1`, p.Name())
	if err != nil {
		r.t.Errorf("find backends: %v", err)
	}
	r.signal(pids, syscall.SIGSTOP)
	wait(ctx, d)
	r.signal(pids, syscall.SIGCONT)
	return Fault{
		Targets: []string{p.Name()}, Hit: len(pids) > 0,
		Detail: fmt.Sprintf("%d of %s for %s", len(pids), p.Name(), d.Round(time.Millisecond)),
	}
}

// signal sends a signal to server processes. One that has ended meanwhile is fine.
func (r *Run) signal(pids []int, s syscall.Signal) {
	for _, pid := range pids {
		if err := syscall.Kill(pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
			r.t.Errorf("signal backend %d: %v", pid, err)
		}
	}
}

// backendsAttack ends or cancels what server connections do under the hands of their
// owners, a few times in a row.
func (r *Run) backendsAttack(function string) func(context.Context, *rand.Rand) Fault {
	return func(ctx context.Context, dice *rand.Rand) Fault {
		whose := []string{"relay-%", "%-%"}[dice.IntN(2)]
		n, times := 0, 1+dice.IntN(3)
		for range times {
			pids, err := r.backends(ctx, `SELECT pid FROM pg_stat_activity
				WHERE datname = current_database() AND application_name LIKE $1 AND `+function+`(pid)`, whose)
			if err != nil {
				r.t.Errorf("%s: %v", function, err)
			}
			n += len(pids)
			wait(ctx, between(dice, 0, 200*time.Millisecond))
		}
		return Fault{Hit: n > 0, Detail: fmt.Sprintf("%d connections of %s in %d strikes", n, whose, times)}
	}
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

// stopServer stops the server, cleanly or as in a crash, and starts it again.
func (r *Run) stopServer(server *testenv.PGServer, mode testenv.StopMode) func(context.Context, *rand.Rand) Fault {
	return func(ctx context.Context, dice *rand.Rand) Fault {
		d := between(dice, 0, time.Second)
		server.Stop(mode)
		r.outage(ctx, server, d)
		return Fault{Hit: true, Detail: d.Round(time.Millisecond).String()}
	}
}

// killPostmaster kills the server's first process; its children notice and end.
func (r *Run) killPostmaster(server *testenv.PGServer) func(context.Context, *rand.Rand) Fault {
	return func(ctx context.Context, dice *rand.Rand) Fault {
		d := between(dice, 0, time.Second)
		if err := syscall.Kill(server.Pid(), syscall.SIGKILL); err != nil {
			r.t.Errorf("kill the server: %v", err)
		}
		wait(ctx, d)   // its children are still about: no outage to be silent in
		server.Start() //nolint:contextcheck // a server that starts must not be given up halfway
		return Fault{Hit: true, Detail: d.Round(time.Millisecond).String()}
	}
}
