package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"time"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/bulk"
)

// Preview reports what Apply would do.
func (s *Store) Preview(ctx context.Context, a outbox.Action) (outbox.Effect, error) {
	if err := a.Validate(); err != nil {
		return outbox.Effect{}, fmt.Errorf("preview: %w", err)
	}
	var effect outbox.Effect
	err := s.read(ctx, func(ctx context.Context, conn *sql.Conn) error {
		c, err := s.operation(conn).plan(ctx, a)
		effect = c.effect
		return err
	})
	if err != nil {
		return outbox.Effect{}, fmt.Errorf("preview %s: %w", a.Verb, err)
	}
	return effect, nil
}

// Apply does a and writes the audit trail in the same transaction.
func (s *Store) Apply(ctx context.Context, a outbox.Action) (outbox.Effect, error) {
	if err := a.Validate(); err != nil {
		return outbox.Effect{}, fmt.Errorf("apply: %w", err)
	}
	var effect outbox.Effect
	err := s.write(ctx, func(ctx context.Context, conn *sql.Conn) error {
		o := s.operation(conn)
		c, err := o.plan(ctx, a)
		if err != nil {
			return err
		}
		effect = c.effect
		if err := exec(ctx, conn, s.sql.Nudge); err != nil {
			return err
		}
		if err := c.do(ctx); err != nil {
			return err
		}
		return s.note(ctx, conn, bulk.Entry(a, c.effect, c.about))
	})
	if err != nil {
		return outbox.Effect{}, fmt.Errorf("%s: %w", a.Verb, err)
	}
	return effect, nil
}

// An operation is an operator's transaction.
type operation struct {
	*Store
	conn *sql.Conn
	at   int64
}

func (s *Store) operation(conn *sql.Conn) operation { return operation{s, conn, s.now()} }

// A change is an action that has been thought through.
type change struct {
	effect outbox.Effect
	about  *outbox.Record // when it is about one message
	do     func(context.Context) error
}

func (o operation) plan(ctx context.Context, a outbox.Action) (change, error) {
	switch a.Verb {
	case outbox.VerbReplay, outbox.VerbDiscard, outbox.VerbReschedule:
		rec, err := o.get(ctx, o.conn, a.EventID, o.at)
		if err != nil {
			return change{}, err
		}
		return o.one(a, rec)
	case outbox.VerbRetryHead, outbox.VerbSkipHead:
		rec, err := o.ahead(ctx, o.conn, a.Key, math.MaxInt64, true, o.at)
		if err != nil {
			return change{}, err
		}
		return o.one(a, rec)
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
func (o operation) one(a outbox.Action, rec *outbox.Record) (change, error) {
	effect, err := bulk.Judge(a, rec, moment(o.at))
	c := change{effect: effect, about: rec}
	switch a.Verb {
	case outbox.VerbReplay, outbox.VerbRetryHead:
		c.do = func(ctx context.Context) error { return o.replay(ctx, []int64{rec.Sequence}, nil) }
	case outbox.VerbDiscard, outbox.VerbSkipHead:
		c.do = func(ctx context.Context) error { return o.discard(ctx, []int64{rec.Sequence}) }
	default:
		c.do = func(ctx context.Context) error {
			floor, err := o.floor(ctx)
			if err != nil {
				return err
			}
			return exec(ctx, o.conn, o.sql.Reschedule, rec.Sequence, max(micros(a.At), o.at), floor)
		}
	}
	return c, err
}

func (o operation) releaseKey(ctx context.Context, key string) (change, error) {
	ids, err := o.sequences(ctx, o.sql.DeadOfKey, key, bulk.ReleaseCap)
	if err == nil && len(ids) == 0 {
		err = bulk.NoHead(key)
	}
	return change{
		effect: outbox.Effect{Messages: len(ids), Before: outbox.StatusDead, After: outbox.StatusDiscarded},
		do:     func(ctx context.Context) error { return o.discard(ctx, ids) },
	}, err
}

func (o operation) pause(ctx context.Context, a outbox.Action) (change, error) {
	paused, err := o.paused(ctx, o.conn)
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
			return exec(ctx, o.conn, o.sql.Pause, a.Route, o.at, a.Actor, a.Reason)
		}
		return exec(ctx, o.conn, o.sql.Resume, a.Route, o.at)
	}}, bulk.PauseRefused(a, was, by)
}

func (o operation) releaseLease(ctx context.Context, shard int) (change, error) {
	var stats outbox.Stats
	if err := o.leases(ctx, o.conn, &stats, o.at); err != nil {
		return change{}, err
	}
	for _, l := range stats.Leases {
		if l.Shard == shard && l.Held {
			return change{do: func(ctx context.Context) error {
				return exec(ctx, o.conn, o.sql.WithdrawLease, shard, o.at)
			}}, nil
		}
	}
	return change{}, bulk.NotHeld(shard)
}

func (o operation) trigger(ctx context.Context) (change, error) {
	ids, err := o.sequences(ctx, o.sql.Backoff, o.at, bulk.TriggerCap)
	return change{effect: outbox.Effect{Messages: len(ids)}, do: func(ctx context.Context) error {
		floor, err := o.floor(ctx)
		if err != nil {
			return err
		}
		return exec(ctx, o.conn, o.sql.Hasten, jsonList(ids), o.at, floor)
	}}, err
}

// replay starts messages over, each after its delay; nil means now.
func (o operation) replay(ctx context.Context, ids []int64, delays []time.Duration) error {
	floor, err := o.floor(ctx)
	if err != nil {
		return err
	}
	for i, id := range ids {
		delay := int64(0)
		if delays != nil {
			delay = delays[i].Microseconds()
		}
		if err := exec(ctx, o.conn, o.sql.Replay, id, o.at, floor, delay); err != nil {
			return err
		}
	}
	return nil
}

func (o operation) discard(ctx context.Context, ids []int64) error {
	return exec(ctx, o.conn, o.sql.Discard, jsonList(ids), o.at)
}

// floor is later than any batch was recorded.
func (o operation) floor(ctx context.Context) (floor int64, err error) {
	err = o.conn.QueryRowContext(ctx, o.sql.Floor).Scan(&floor)
	return floor, err
}

func (o operation) sequences(ctx context.Context, query string, args ...any) ([]int64, error) {
	var ids []int64
	err := each(ctx, o.conn, func(rows *sql.Rows) error {
		var id int64
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	}, query, args...)
	return ids, err
}
