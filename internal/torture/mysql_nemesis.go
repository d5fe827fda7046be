package torture

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/go-outbox/outbox/internal/testenv"
)

// The kinds of faults that only MariaDB knows.
const (
	KillConnections = "KILL CONNECTION"
	KillQueries     = "KILL QUERY"
	OrderlyStop     = "orderly server stop"
	KillServer      = "kill -9 server"
	PauseServer     = "SIGSTOP server"
)

// mysqlSettings let the nemesis find the connections of a process.
var mysqlSettings = []string{"performance-schema=ON"}

func (r *Run) mysqlAttacks(server *testenv.MySQLServer) []attack {
	return []attack{
		{KillConnections, r.killConnections("CONNECTION")},
		{KillQueries, r.killConnections("QUERY")},
		{OrderlyStop, r.stopMySQL(server, (*testenv.MySQLServer).Stop)},
		{KillServer, r.stopMySQL(server, (*testenv.MySQLServer).Kill)},
		{PauseServer, r.pauseMySQL(server)},
	}
}

// killConnections ends connections, or what they are doing, under the hands of their
// owners, a few times in a row.
func (r *Run) killConnections(what string) func(context.Context, *rand.Rand) Fault {
	return func(ctx context.Context, dice *rand.Rand) Fault {
		whose := []string{"relay-%", "%-%"}[dice.IntN(2)]
		n, times := 0, 1+dice.IntN(3)
		for range times {
			killed, err := r.killEach(ctx, what, whose)
			if err != nil {
				r.t.Errorf("KILL %s: %v", what, err)
			}
			n += killed
			wait(ctx, between(dice, 0, 200*time.Millisecond))
		}
		return Fault{Hit: n > 0, Detail: fmt.Sprintf("%d connections of %s in %d strikes", n, whose, times)}
	}
}

func (r *Run) killEach(ctx context.Context, what, whose string) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var ids []int64
	query := fmt.Sprintf(`SELECT processlist_id FROM performance_schema.session_connect_attrs
		WHERE attr_name = 'program_name' AND attr_value LIKE '%s'`, whose)
	err = each(ctx, r.db.SQL(), query, func(rows *sql.Rows) error {
		var id int64
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	})
	for _, id := range ids {
		if _, err := r.db.SQL().ExecContext(ctx, fmt.Sprintf("KILL %s %d", what, id)); err == nil { // else it has ended by itself
			n++
		}
	}
	return n, err
}

// pauseMySQL stops the server for longer than a lease; its connections are threads and
// cannot be stopped one by one. What relays have sent waits in the sockets and runs when
// their leases are over, side by side with those who want them.
func (r *Run) pauseMySQL(server *testenv.MySQLServer) func(context.Context, *rand.Rand) Fault {
	return func(ctx context.Context, dice *rand.Rand) Fault {
		d, pids := r.beyondLease(dice), []int{server.Pid()}
		r.signal(pids, syscall.SIGSTOP)
		wait(ctx, d)
		r.signal(pids, syscall.SIGCONT)
		return Fault{Hit: true, Detail: d.Round(time.Millisecond).String()}
	}
}

// stopMySQL stops the server, cleanly or as in a crash, and starts it again.
func (r *Run) stopMySQL(server *testenv.MySQLServer, stop func(*testenv.MySQLServer)) func(context.Context, *rand.Rand) Fault {
	return func(ctx context.Context, dice *rand.Rand) Fault {
		d := between(dice, 0, time.Second)
		stop(server)
		r.outage(ctx, server, d)
		return Fault{Hit: true, Detail: d.Round(time.Millisecond).String()}
	}
}
