package mysqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"math"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

// note appends to the audit trail.
func (s *Store) note(ctx context.Context, tx *sql.Tx, e outbox.AuditEntry) error {
	var sequence any
	if e.Sequence != 0 {
		sequence = e.Sequence
	}
	return exec(ctx, tx, s.sql.Audit, e.Actor, string(e.Verb), eventID(e.EventID), sequence, e.Reason,
		orNull(string(e.Before)), orNull(string(e.After)), e.Route, e.Key, orNull(e.Filter), e.Messages)
}

// orNull is a text as an argument of bind; an empty one is NULL.
func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func eventID(id uuid.UUID) any {
	if id == uuid.Nil {
		return nil
	}
	return id.String()
}

// Record keeps an entry of somebody else in the audit trail.
func (s *Store) Record(ctx context.Context, e outbox.AuditEntry) error {
	err := s.write(ctx, operatorPatience, func(ctx context.Context, tx *sql.Tx) error { return s.note(ctx, tx, e) })
	return s.explain("record", err)
}

// Audit lists what was changed, newest first.
func (s *Store) Audit(ctx context.Context, f outbox.AuditFilter) ([]outbox.AuditEntry, error) {
	var list []outbox.AuditEntry
	err := s.snapshot(ctx, func(ctx context.Context, tx *sql.Tx) error {
		return each(ctx, tx, func(rows *sql.Rows) error {
			e := outbox.AuditEntry{Table: s.cfg.Table}
			var at int64
			var id string
			err := rows.Scan(&e.ID, &at, &e.Actor, &e.Verb, &id, &e.Sequence, &e.Reason, &e.Before, &e.After,
				&e.Route, &e.Key, &e.Filter, &e.Messages)
			e.At = moment(at)
			e.EventID, _ = uuid.Parse(id) // an entry without one is about no message
			list = append(list, e)
			return err
		}, s.sql.Trail, cmp.Or(f.Before, math.MaxInt64), eventID(f.EventID), orNull(string(f.Verb)), orNull(f.Actor), f.PageSize())
	})
	return list, s.explain("read audit", err)
}
