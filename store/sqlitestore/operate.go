package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/go-outbox/outbox"
)

// Preview reports what Apply would do.
func (s *Store) Preview(ctx context.Context, a outbox.Action) (outbox.Effect, error) {
	if err := a.Validate(); err != nil {
		return outbox.Effect{}, fmt.Errorf("preview: %w", err)
	}
	var effect outbox.Effect
	err := s.read(ctx, func(ctx context.Context, conn *sql.Conn) error {
		now := s.now()
		rec, err := s.get(ctx, conn, a.EventID, now)
		if err == nil {
			effect = replayEffect(rec, now)
		}
		return err
	})
	if err != nil {
		return outbox.Effect{}, fmt.Errorf("preview %s of %s: %w", a.Verb, a.EventID, err)
	}
	return effect, nil
}

// Apply changes a message and writes the audit trail in the same transaction.
func (s *Store) Apply(ctx context.Context, a outbox.Action) (outbox.Effect, error) {
	if err := a.Validate(); err != nil {
		return outbox.Effect{}, fmt.Errorf("apply: %w", err)
	}
	var effect outbox.Effect
	err := s.write(ctx, func(ctx context.Context, conn *sql.Conn) (err error) {
		effect, err = s.replay(ctx, conn, a)
		return err
	})
	if err != nil {
		return outbox.Effect{}, fmt.Errorf("%s %s: %w", a.Verb, a.EventID, err)
	}
	return effect, nil
}

func (s *Store) replay(ctx context.Context, conn *sql.Conn, a outbox.Action) (outbox.Effect, error) {
	now := s.now()
	rec, err := s.get(ctx, conn, a.EventID, now)
	if err != nil {
		return outbox.Effect{}, err
	}
	var floor int64
	if err := conn.QueryRowContext(ctx, s.sql.Floor).Scan(&floor); err != nil {
		return outbox.Effect{}, err
	}
	effect := replayEffect(rec, now)
	for _, c := range []struct {
		query string
		args  []any
	}{
		{s.sql.Nudge, nil},
		{s.sql.Replay, []any{rec.Sequence, now, floor}},
		{s.sql.Audit, []any{
			now, string(a.Verb), a.EventID.String(), rec.Sequence, a.Actor, a.Reason,
			string(effect.Before), string(effect.After),
		}},
	} {
		if err := exec(ctx, conn, c.query, c.args...); err != nil {
			return outbox.Effect{}, err
		}
	}
	return effect, nil
}

func replayEffect(rec *outbox.Record, now int64) outbox.Effect {
	return outbox.Effect{Messages: 1, Before: rec.Status(moment(now)), After: outbox.StatusPending}
}
