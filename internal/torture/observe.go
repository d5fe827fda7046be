package torture

import (
	"context"
	"database/sql"
	"fmt"
	"time"
	"unique"

	"github.com/google/uuid"
)

// Pending counts the messages that are neither published nor dead.
func Pending(ctx context.Context, db *sql.DB) (n int, err error) {
	err = db.QueryRowContext(ctx, `SELECT count(*) FROM outbox WHERE published_at IS NULL AND dead_at IS NULL`).Scan(&n)
	return n, err
}

// Crowd counts those of them that are among the newest: what waits is mostly there, and
// counting a large table several times a second would be most of a run.
func Crowd(ctx context.Context, db *sql.DB) (n int, err error) {
	err = db.QueryRowContext(ctx, `SELECT count(*) FROM (SELECT published_at, dead_at FROM outbox ORDER BY sequence DESC LIMIT 50000) newest
		WHERE published_at IS NULL AND dead_at IS NULL`).Scan(&n)
	return n, err
}

// Settled counts the changes of rows so far.
func Settled(ctx context.Context, db *sql.DB) (n int, err error) {
	err = db.QueryRowContext(ctx, `SELECT count(*) FROM torture_witness`).Scan(&n)
	return n, err
}

// Holders names the relays that hold leases.
func Holders(ctx context.Context, db *sql.DB) (names []string, err error) {
	err = each(ctx, db, `SELECT instance FROM outbox_lease WHERE owner IS NOT NULL`, func(rows *sql.Rows) error {
		var name string
		err := rows.Scan(&name)
		names = append(names, name)
		return err
	})
	return names, err
}

// Busy reports whether a relay, whose instance is like this, holds a lease under which
// messages are in flight.
func Busy(ctx context.Context, db *sql.DB, instance string) (busy bool, err error) {
	err = db.QueryRowContext(ctx, fmt.Sprintf(`SELECT count(*) > 0 FROM outbox_batch b JOIN outbox_lease l ON l.shard = b.shard AND l.epoch = b.epoch
		WHERE l.owner IS NOT NULL AND l.instance LIKE '%s'`, instance)).Scan(&busy)
	return busy, err
}

// Someone returns an event that exists, somewhere at that share of the table.
func Someone(ctx context.Context, db *sql.DB, at float64) (event uuid.UUID, err error) {
	err = somewhere(ctx, db, at, "CAST(event_id AS char(36))", "1 = 1", &event)
	return event, err
}

// HeldKey returns the key of a message that is dead or was tried, somewhere at that share
// of the table.
func HeldKey(ctx context.Context, db *sql.DB, at float64) (key string, err error) {
	err = somewhere(ctx, db, at, "msg_key", "msg_key <> '' AND published_at IS NULL AND (dead_at IS NOT NULL OR attempts > 0)", &key)
	return key, err
}

// somewhere reads a column of the first row behind a share of the table that is as wanted.
func somewhere(ctx context.Context, db *sql.DB, at float64, column, where string, value any) error {
	var lowest, highest sql.NullInt64
	if err := db.QueryRowContext(ctx, `SELECT min(sequence), max(sequence) FROM outbox`).Scan(&lowest, &highest); err != nil {
		return err
	}
	from := lowest.Int64 + int64(at*float64(highest.Int64-lowest.Int64))
	return db.QueryRowContext(ctx, fmt.Sprintf(
		`SELECT %s FROM outbox WHERE sequence >= %d AND %s ORDER BY sequence LIMIT 1`, column, from, where)).Scan(value)
}

// Connections counts the connections of each process to a server.
func Connections(ctx context.Context, db *sql.DB, driver Driver) (map[string]int, error) {
	counts := make(map[string]int)
	query := postgresConnections
	if driver == MySQL {
		query = mysqlConnections
	}
	err := each(ctx, db, query, func(rows *sql.Rows) error {
		var name string
		var n int
		err := rows.Scan(&name, &n)
		counts[name] = n
		return err
	})
	return counts, err
}

// observe reads what the database has to say when everything has stopped.
func (h *History) observe(ctx context.Context, db *sql.DB) error {
	h.Final.Business = make(map[string]bool)
	var err error
	read := func(query string, scan func(*sql.Rows) error) {
		if err == nil {
			err = each(ctx, db, query, scan)
		}
	}
	read(`SELECT id FROM torture_business`, func(rows *sql.Rows) error {
		var id string
		err := rows.Scan(&id)
		h.Final.Business[id] = true
		return err
	})
	read(`SELECT sequence, CAST(event_id AS char(36)), msg_key, published_at IS NOT NULL, dead_at IS NOT NULL,
		coalesce(dead_reason, ''), coalesce(last_error, ''), attempts, replays FROM outbox ORDER BY sequence`, func(rows *sql.Rows) error {
		var r Row
		err := rows.Scan(&r.Sequence, &r.Event, &r.Key, &r.Published, &r.Dead, &r.Reason, &r.Error, &r.Attempts, &r.Replays)
		h.Final.Rows = append(h.Final.Rows, r)
		return err
	})
	read(`SELECT no, sequence, CAST(event_id AS char(36)), deleted, was_published, is_published, was_dead, is_dead, was_attempts, is_attempts,
		was_replays, is_replays, writer, holder, shard, epoch, age, at FROM torture_witness ORDER BY no`, func(rows *sql.Rows) error {
		var t Transition
		var age int64
		err := rows.Scan(&t.No, &t.Sequence, &t.Event, &t.Deleted, &t.WasPublished, &t.IsPublished, &t.WasDead, &t.IsDead,
			&t.WasAttempts, &t.IsAttempts, &t.WasReplays, &t.IsReplays, &t.Writer, &t.Holder, &t.Shard, &t.Epoch, &age, (*moment)(&t.At))
		t.Age = time.Duration(age) * time.Microsecond
		share(&t.Writer, &t.Holder)
		h.Transitions = append(h.Transitions, t)
		return err
	})
	read(`SELECT no, shard, instance, held, epoch, at FROM torture_lease ORDER BY no`, func(rows *sql.Rows) error {
		var l Handover
		err := rows.Scan(&l.No, &l.Shard, &l.Instance, &l.Held, &l.Epoch, (*moment)(&l.At))
		h.Handovers = append(h.Handovers, l)
		return err
	})
	read(`SELECT shard, instance FROM outbox_lease WHERE owner IS NOT NULL ORDER BY shard`, func(rows *sql.Rows) error {
		var held Held
		err := rows.Scan(&held.Shard, &held.By)
		h.Final.Held = append(h.Final.Held, held)
		return err
	})
	read(`SELECT count(*) FROM outbox_batch`, func(rows *sql.Rows) error { return rows.Scan(&h.Final.Batches) })
	if query := map[Driver]string{Postgres: postgresLeftovers, MySQL: mysqlLeftovers}[h.Driver]; query != "" {
		read(query, func(rows *sql.Rows) error {
			var text string
			err := rows.Scan(&text)
			h.Final.Leftovers = append(h.Final.Leftovers, text)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("observe: %w", err)
	}
	return nil
}

const postgresConnections = `
SELECT application_name, count(*) FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' GROUP BY 1`

// postgresLeftovers are what no stopped program leaves in a database.
const postgresLeftovers = `
SELECT 'advisory lock of process ' || pid FROM pg_locks JOIN pg_database d ON d.oid = database
  WHERE locktype = 'advisory' AND d.datname = current_database()
UNION ALL SELECT 'prepared transaction ' || gid FROM pg_prepared_xacts WHERE database = current_database()
UNION ALL SELECT application_name || ' is ' || state FROM pg_stat_activity
  WHERE datname = current_database() AND state LIKE 'idle in transaction%'`

// A moment scans a time of either database: a timestamp, or microseconds.
type moment time.Time

// Scan makes moment a sql.Scanner.
func (m *moment) Scan(value any) error {
	switch v := value.(type) {
	case time.Time:
		*m = moment(v)
	case int64:
		*m = moment(time.UnixMicro(v))
	default:
		return fmt.Errorf("%T is no time", value)
	}
	return nil
}

// share lets equal strings be one: millions of records name a few processes and keys.
func share(texts ...*string) {
	for _, s := range texts {
		*s = unique.Make(*s).Value()
	}
}

func each(ctx context.Context, db *sql.DB, query string, scan func(*sql.Rows) error) error {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
