package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

func footprintGroups() []group {
	resting := &resting{}
	return []group{
		{repetitions: 1, cells: []cell{memoryCell("memory"), memoryCell("memory_1mib")}}, // a peak, and no noise in it
		{close: resting.stop, cells: []cell{{system: ourDefault, workloads: []string{"idle", "idle_cpu"}, run: resting.observe}}},
	}
}

// memoryCell is the peak memory of a relay process at full speed: through the
// largest backlog, or through payloads of 1 MiB.
func memoryCell(workload string) cell {
	return cell{system: ourKeep, workloads: []string{workload}, run: func(ctx context.Context, b *bench) (figures []figure, err error) {
		err = b.with(ctx, ourKeep, func(db *database, q queue) error {
			count := b.sizes.backlogs[2]
			if workload == "memory_1mib" {
				count = b.sizes.large
				if err := loadLarge(ctx, db, count); err != nil {
					return err
				}
			} else if err := q.load(ctx, count); err != nil {
				return err
			}
			if err := db.settle(ctx); err != nil {
				return err
			}
			c, err := startChild(order{DSN: db.dsn, System: "outbox_keep", Want: count, Blind: true})
			if err != nil {
				return err
			}
			_, peak, err := c.finish(patience)
			figures = []figure{{workload, "MiB", float64(peak) / 1024}}
			return err
		})
		return figures, err
	}}
}

// loadLarge writes messages of 1 MiB.
func loadLarge(ctx context.Context, db *database, count int) error {
	_, err := db.Exec(ctx, fmt.Sprintf(`INSERT INTO %s (event_id, topic, msg_key, tenant_id, payload)
SELECT %s, '%s', %s, '%s', ('{"n":' || i || ',"blob":"' || repeat(md5(i::text), 32768 - 1) || '"}')::json
FROM generate_series(1, $1::bigint) AS i`, table, sqlEventID, topic, sqlKey, tenant), count)
	return err
}

// resting is an idle relay. Its repetitions are windows on one process, because it
// takes a minute to come to rest.
type resting struct {
	db    *database
	child *child
}

func (r *resting) start(ctx context.Context, b *bench) (err error) {
	if r.child != nil {
		return nil
	}
	if r.db, err = b.server.database(ctx); err != nil {
		return err
	}
	q, err := ourDefault.open(ctx, r.db.Pool)
	if err != nil {
		return err
	}
	if r.child, err = startChild(order{DSN: r.db.dsn, System: "outbox", Want: 1 << 20}); err != nil {
		return err
	}
	if err := inTx(ctx, r.db.Pool, func(tx pgx.Tx) error { return q.enqueue(ctx, tx, 0) }); err != nil {
		return err
	}
	if err := r.child.ready(); err != nil {
		return err
	}
	r.db.Reset() // our own connections would count
	if !pause(ctx, b.sizes.idle) {
		return ctx.Err()
	}
	return nil
}

// observe counts the relay's transactions (each of its queries is one) and its
// processor time. The counts come from the admin connection, in another database.
func (r *resting) observe(ctx context.Context, b *bench) ([]figure, error) {
	if err := r.start(ctx, b); err != nil {
		return nil, err
	}
	queries, cpu, err := r.look(ctx, b)
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	if !pause(ctx, b.sizes.watched) {
		return nil, ctx.Err()
	}
	queriesAfter, cpuAfter, err := r.look(ctx, b)
	seconds := time.Since(begun).Seconds()
	return []figure{
		{"idle", "queries/s", float64(queriesAfter-queries) / seconds},
		{"idle_cpu", "% of a core", 100 * (cpuAfter - cpu).Seconds() / seconds},
	}, err
}

func (r *resting) look(ctx context.Context, b *bench) (queries int64, cpu time.Duration, err error) {
	err = b.server.admin.QueryRow(ctx, `SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = $1`, r.db.name).Scan(&queries)
	if err != nil {
		return 0, 0, err
	}
	cpu, err = processorTime(r.child.cmd.Process.Pid)
	return queries, cpu, err
}

// processorTime reads user and system time of a process, in ticks of 10 ms.
func processorTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name in parentheses may hold anything.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	user, err := strconv.Atoi(fields[11])
	if err != nil {
		return 0, err
	}
	system, err := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond, err
}

func (r *resting) stop(ctx context.Context) error {
	if r.child != nil {
		if _, _, err := r.child.finish(0); err != nil {
			return err
		}
	}
	if r.db == nil {
		return nil
	}
	err := r.db.drop(ctx)
	*r = resting{}
	return err
}
