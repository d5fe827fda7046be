package torture

import (
	"context"
	"database/sql"
	"fmt"
)

// Pending counts the messages that are neither published nor dead.
func Pending(ctx context.Context, db *sql.DB) (n int, err error) {
	err = db.QueryRowContext(ctx, `SELECT count(*) FROM outbox WHERE published_at IS NULL AND dead_at IS NULL`).Scan(&n)
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
	read(`SELECT sequence, CAST(event_id AS text), msg_key, published_at IS NOT NULL, dead_at IS NOT NULL,
		coalesce(dead_reason, ''), attempts FROM outbox ORDER BY sequence`, func(rows *sql.Rows) error {
		var r Row
		err := rows.Scan(&r.Sequence, &r.Event, &r.Key, &r.Published, &r.Dead, &r.Reason, &r.Attempts)
		h.Final.Rows = append(h.Final.Rows, r)
		return err
	})
	read(`SELECT no, sequence, deleted, was_published, is_published, was_dead, is_dead, was_attempts, is_attempts,
		was_replays, is_replays, writer, holder, shard, epoch FROM torture_witness ORDER BY no`, func(rows *sql.Rows) error {
		var t Transition
		err := rows.Scan(&t.No, &t.Sequence, &t.Deleted, &t.WasPublished, &t.IsPublished, &t.WasDead, &t.IsDead,
			&t.WasAttempts, &t.IsAttempts, &t.WasReplays, &t.IsReplays, &t.Writer, &t.Holder, &t.Shard, &t.Epoch)
		h.Transitions = append(h.Transitions, t)
		return err
	})
	read(`SELECT shard, instance FROM outbox_lease WHERE owner IS NOT NULL ORDER BY shard`, func(rows *sql.Rows) error {
		var held Held
		err := rows.Scan(&held.Shard, &held.By)
		h.Final.Held = append(h.Final.Held, held)
		return err
	})
	read(`SELECT count(*) FROM outbox_batch`, func(rows *sql.Rows) error { return rows.Scan(&h.Final.Batches) })
	if err != nil {
		return fmt.Errorf("observe: %w", err)
	}
	return nil
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
