package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/go-outbox/outbox"
)

// Preview reports what Apply would do.
func (s *Store) Preview(ctx context.Context, a outbox.Action) (outbox.Effect, error) {
	if err := a.Validate(); err != nil {
		return outbox.Effect{}, err
	}
	r, now, err := s.get(ctx, s.pool, a.EventID)
	if err != nil {
		return outbox.Effect{}, s.explain("preview", err)
	}
	return outbox.Effect{Messages: 1, Before: r.Status(now), After: outbox.StatusPending}, nil
}

// Apply does a, in one transaction with its audit entry: leases first, as every
// writer locks them, then the message.
func (s *Store) Apply(ctx context.Context, a outbox.Action) (outbox.Effect, error) {
	if err := a.Validate(); err != nil {
		return outbox.Effect{}, err
	}
	l, err := s.layout(ctx, s.pool)
	if err != nil {
		return outbox.Effect{}, s.explain(string(a.Verb), err)
	}
	var effect outbox.Effect
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		effect, err = s.replay(ctx, tx, &l.sql, a)
		return err
	})
	if err != nil {
		return outbox.Effect{}, s.explain(string(a.Verb), err)
	}
	return effect, nil
}

func (s *Store) replay(ctx context.Context, tx pgx.Tx, stmts *statements, a outbox.Action) (outbox.Effect, error) {
	effect := outbox.Effect{Messages: 1, After: outbox.StatusPending}
	if _, err := tx.Exec(ctx, stmts.Timeouts, s.mode, operatorTimeout); err != nil {
		return effect, err
	}
	if _, err := tx.Exec(ctx, stmts.NudgeLeases, s.mode); err != nil {
		return effect, err
	}
	before, now, err := s.get(ctx, tx, a.EventID)
	if err != nil {
		return effect, err
	}
	effect.Before = before.Status(now)
	var sequence int64
	if err := tx.QueryRow(ctx, stmts.Replay, s.mode, pgUUID(a.EventID)).Scan(&sequence); err != nil {
		return effect, err
	}
	_, err = tx.Exec(ctx, stmts.Audit, s.mode, a.Actor, string(a.Verb), pgUUID(a.EventID), sequence, a.Reason,
		string(effect.Before), string(effect.After))
	return effect, err
}
