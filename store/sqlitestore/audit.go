package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

// note appends to the audit trail.
func (s *Store) note(ctx context.Context, conn *sql.Conn, e outbox.AuditEntry) error {
	var event, sequence any
	if e.EventID != uuid.Nil {
		event = e.EventID.String()
	}
	if e.Sequence != 0 {
		sequence = e.Sequence
	}
	return exec(ctx, conn, s.sql.Audit, s.now(), e.Actor, string(e.Verb), event, sequence, e.Reason,
		nullable(string(e.Before)), nullable(string(e.After)), e.Route, e.Key, nullable(e.Filter), e.Messages)
}

// Record keeps an entry of somebody else in the audit trail.
func (s *Store) Record(ctx context.Context, e outbox.AuditEntry) error {
	err := s.write(ctx, func(ctx context.Context, conn *sql.Conn) error { return s.note(ctx, conn, e) })
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	return nil
}

// Audit lists what was changed, newest first.
func (s *Store) Audit(ctx context.Context, f outbox.AuditFilter) ([]outbox.AuditEntry, error) {
	var event any
	if f.EventID != uuid.Nil {
		event = f.EventID.String()
	}
	var list []outbox.AuditEntry
	err := s.read(ctx, func(ctx context.Context, conn *sql.Conn) error {
		list = nil
		return each(ctx, conn, func(rows *sql.Rows) error {
			e := outbox.AuditEntry{Table: s.cfg.Table}
			var at int64
			var id string
			err := rows.Scan(&e.ID, &at, &e.Actor, &e.Verb, &id, &e.Sequence, &e.Reason, &e.Before, &e.After,
				&e.Route, &e.Key, &e.Filter, &e.Messages)
			e.At = moment(at)
			e.EventID, _ = uuid.Parse(id) // an entry without one is about no message
			list = append(list, e)
			return err
		}, s.sql.Trail, cmp.Or(f.Before, math.MaxInt64), event, string(f.Verb), f.Actor, f.PageSize())
	})
	if err != nil {
		return nil, fmt.Errorf("read audit: %w", err)
	}
	return list, nil
}
