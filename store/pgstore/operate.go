package pgstore

import (
	"context"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/bulk"
)

// Preview reports what Apply would do.
func (s *Store) Preview(ctx context.Context, a outbox.Action) (outbox.Effect, error) {
	if err := a.Validate(); err != nil {
		return outbox.Effect{}, err
	}
	var effect outbox.Effect
	err := s.operate(ctx, func(o operation) error {
		c, err := o.plan(ctx, a)
		effect = c.effect
		return err
	})
	if err != nil {
		return outbox.Effect{}, s.explain("preview "+string(a.Verb), err)
	}
	return effect, nil
}

// Apply does a, in one transaction with its audit entry: leases first, as every
// writer locks them, then the messages.
func (s *Store) Apply(ctx context.Context, a outbox.Action) (outbox.Effect, error) {
	if err := a.Validate(); err != nil {
		return outbox.Effect{}, err
	}
	var effect outbox.Effect
	err := s.operate(ctx, func(o operation) error {
		if err := o.nudge(ctx); err != nil {
			return err
		}
		c, err := o.plan(ctx, a)
		if err != nil {
			return err
		}
		effect = c.effect
		if err := c.do(ctx); err != nil {
			return err
		}
		return o.note(ctx, bulk.Entry(a, c.effect, c.about))
	})
	if err != nil {
		return outbox.Effect{}, s.explain(string(a.Verb), err)
	}
	return effect, nil
}

// An operation is an operator's transaction.
type operation struct {
	s *Store
	*layout
	tx pgx.Tx
}

// operate runs fn in a transaction that cannot hold its locks for long and follows
// the indexes.
func (s *Store) operate(ctx context.Context, fn func(operation) error) error {
	l, err := s.layout(ctx, s.pool)
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, l.sql.Timeouts, s.mode, operatorTimeout); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, l.sql.Ordered, s.mode); err != nil {
			return err
		}
		return fn(operation{s, l, tx})
	})
}

// nudge locks the leases and tells the relays that rows change; those that listen
// look at once.
func (o operation) nudge(ctx context.Context) error {
	if _, err := o.tx.Exec(ctx, o.sql.NudgeLeases, o.s.mode); err != nil {
		return err
	}
	_, err := o.tx.Exec(ctx, o.sql.Notify, o.s.mode, o.s.name.channel())
	return err
}

func (o operation) now(ctx context.Context) (now time.Time, err error) {
	err = o.tx.QueryRow(ctx, o.sql.Clock, o.s.mode).Scan(&now)
	return now, err
}

// A change is an action that has been thought through.
type change struct {
	effect outbox.Effect
	about  *outbox.Record // when it is about one message
	do     func(context.Context) error
}

func (o operation) plan(ctx context.Context, a outbox.Action) (change, error) {
	switch a.Verb {
	case outbox.VerbReplay, outbox.VerbDiscard, outbox.VerbReschedule:
		rec, now, err := o.s.get(ctx, o.tx, a.EventID)
		if err != nil {
			return change{}, err
		}
		return o.one(a, rec, now)
	case outbox.VerbRetryHead, outbox.VerbSkipHead:
		rec, now, err := o.ahead(ctx, a.Key, math.MaxInt64, true)
		if err != nil {
			return change{}, err
		}
		return o.one(a, rec, now)
	case outbox.VerbReleaseKey:
		return o.releaseKey(ctx, a.Key)
	case outbox.VerbPause, outbox.VerbResume:
		return o.pause(ctx, a)
	case outbox.VerbReleaseLease:
		return o.releaseLease(ctx, a.Shard)
	default:
		return o.trigger(ctx)
	}
}

// one is a change of a single message.
func (o operation) one(a outbox.Action, rec *outbox.Record, now time.Time) (change, error) {
	effect, err := bulk.Judge(a, rec, now)
	c := change{effect: effect, about: rec}
	ids := []pgtype.UUID{pgUUID(rec.EventID)}
	switch a.Verb {
	case outbox.VerbReplay, outbox.VerbRetryHead:
		c.do = func(ctx context.Context) error { return o.exec(ctx, o.sql.Replay, ids[0]) }
	case outbox.VerbDiscard, outbox.VerbSkipHead:
		c.do = func(ctx context.Context) error { return o.exec(ctx, o.sql.Discard, ids, false) }
	default:
		c.do = func(ctx context.Context) error { return o.exec(ctx, o.sql.Reschedule, ids, a.At) }
	}
	return c, err
}

func (o operation) releaseKey(ctx context.Context, key string) (change, error) {
	ids, err := o.events(ctx, o.sql.DeadOfKey, key, bulk.ReleaseCap)
	if err == nil && len(ids) == 0 {
		err = bulk.NoHead(key)
	}
	return change{
		effect: outbox.Effect{Messages: len(ids), Before: outbox.StatusDead, After: outbox.StatusDiscarded},
		do:     func(ctx context.Context) error { return o.exec(ctx, o.sql.Discard, ids, true) },
	}, err
}

func (o operation) pause(ctx context.Context, a outbox.Action) (change, error) {
	paused, err := o.s.pausedRoutes(ctx, o.tx, &o.sql)
	if err != nil {
		return change{}, err
	}
	was, by := false, ""
	for _, p := range paused {
		if p.Route == a.Route {
			was, by = true, p.By
		}
	}
	return change{do: func(ctx context.Context) error {
		if a.Verb == outbox.VerbPause {
			return o.exec(ctx, o.sql.Pause, a.Route, a.Actor, a.Reason)
		}
		return o.exec(ctx, o.sql.Resume, a.Route)
	}}, bulk.PauseRefused(a, was, by)
}

func (o operation) releaseLease(ctx context.Context, shard int) (change, error) {
	var stats outbox.Stats
	if err := (inspection{o.s, &o.sql, o.tx}).leases(ctx, &stats); err != nil {
		return change{}, err
	}
	for _, l := range stats.Leases {
		if l.Shard == shard && l.Held {
			return change{do: func(ctx context.Context) error { return o.exec(ctx, o.sql.WithdrawLease, shard) }}, nil
		}
	}
	return change{}, bulk.NotHeld(shard)
}

func (o operation) trigger(ctx context.Context) (change, error) {
	ids, err := o.events(ctx, o.sql.Backoff, bulk.TriggerCap)
	return change{
		effect: outbox.Effect{Messages: len(ids)},
		do:     func(ctx context.Context) error { return o.exec(ctx, o.sql.Reschedule, ids, time.Time{}) },
	}, err
}

func (o operation) exec(ctx context.Context, statement string, args ...any) error {
	_, err := o.tx.Exec(ctx, statement, append([]any{o.s.mode}, args...)...)
	return err
}

func (o operation) events(ctx context.Context, statement string, args ...any) ([]pgtype.UUID, error) {
	rows, err := o.tx.Query(ctx, statement, append([]any{o.s.mode}, args...)...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[pgtype.UUID])
}

// note appends to the audit trail.
func (o operation) note(ctx context.Context, e outbox.AuditEntry) error {
	return o.exec(ctx, o.sql.Audit, auditArgs(e)...)
}

func auditArgs(e outbox.AuditEntry) []any {
	event := pgUUID(e.EventID)
	event.Valid = e.EventID != uuid.Nil
	sequence := pgtype.Int8{Int64: e.Sequence, Valid: e.Sequence != 0}
	return []any{
		e.Actor, string(e.Verb), event, sequence, e.Reason,
		nullText(string(e.Before)), nullText(string(e.After)), e.Route, e.Key, nullText(e.Filter), e.Messages,
	}
}

func nullText(s string) pgtype.Text { return pgtype.Text{String: s, Valid: s != ""} }

// Record keeps an entry of somebody else in the audit trail.
func (s *Store) Record(ctx context.Context, e outbox.AuditEntry) error {
	l, err := s.layout(ctx, s.pool)
	if err == nil {
		_, err = s.pool.Exec(ctx, l.sql.Audit, append([]any{s.mode}, auditArgs(e)...)...)
	}
	return s.explain("record", err)
}

// Audit lists what was changed, newest first.
func (s *Store) Audit(ctx context.Context, f outbox.AuditFilter) ([]outbox.AuditEntry, error) {
	l, err := s.layout(ctx, s.pool)
	if err != nil {
		return nil, s.explain("read audit", err)
	}
	before := f.Before
	if before <= 0 {
		before = math.MaxInt64
	}
	event := pgUUID(f.EventID)
	event.Valid = f.EventID != uuid.Nil
	rows, err := s.pool.Query(ctx, l.sql.Trail, s.mode, before, event, string(f.Verb), f.Actor, f.PageSize())
	if err != nil {
		return nil, s.explain("read audit", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (outbox.AuditEntry, error) {
		e := outbox.AuditEntry{Table: s.cfg.Table}
		var event pgtype.UUID
		err := row.Scan(&e.ID, &e.At, &e.Actor, &e.Verb, &event, &e.Sequence, &e.Reason, &e.Before, &e.After, &e.Route, &e.Key,
			&e.Filter, &e.Messages)
		e.EventID = event.Bytes
		return e, err
	})
	return list, s.explain("read audit", err)
}
