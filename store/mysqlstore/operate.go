package mysqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"math"
	"time"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/bulk"
)

// Preview reports what Apply would do.
func (s *Store) Preview(ctx context.Context, a outbox.Action) (outbox.Effect, error) {
	if err := a.Validate(); err != nil {
		return outbox.Effect{}, s.explain("preview", err)
	}
	var effect outbox.Effect
	err := s.snapshot(ctx, func(ctx context.Context, tx *sql.Tx) error {
		o, err := s.operation(ctx, tx)
		if err != nil {
			return err
		}
		c, err := o.plan(ctx, a)
		effect = c.effect
		return err
	})
	if err != nil {
		return outbox.Effect{}, s.explain("preview "+string(a.Verb), err)
	}
	return effect, nil
}

// Apply does a, in one transaction with its audit entry: leases first, as every writer
// locks them, then the messages. So nothing changes between the plan and the deed.
func (s *Store) Apply(ctx context.Context, a outbox.Action) (outbox.Effect, error) {
	if err := a.Validate(); err != nil {
		return outbox.Effect{}, s.explain("apply", err)
	}
	var effect outbox.Effect
	err := s.write(ctx, operatorPatience, func(ctx context.Context, tx *sql.Tx) error {
		if err := s.nudge(ctx, tx); err != nil {
			return err
		}
		o, err := s.operation(ctx, tx)
		if err != nil {
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
		return s.note(ctx, tx, bulk.Entry(a, c.effect, c.about))
	})
	if err != nil {
		return outbox.Effect{}, s.explain(string(a.Verb), err)
	}
	return effect, nil
}

// nudge locks every lease and tells the relays that rows change behind their backs,
// before they do.
func (s *Store) nudge(ctx context.Context, tx *sql.Tx) error {
	if _, err := s.lockLeases(ctx, tx); err != nil {
		return err
	}
	return exec(ctx, tx, s.sql.Nudge)
}

// An operation is an operator's transaction.
type operation struct {
	inspection
	at time.Time
}

func (s *Store) operation(ctx context.Context, tx *sql.Tx) (operation, error) {
	o := operation{inspection: inspection{s, tx}}
	var err error
	o.at, err = o.now(ctx)
	return o, err
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
		rec, err := o.get(ctx, a.EventID)
		if err != nil {
			return change{}, err
		}
		return o.one(a, rec)
	case outbox.VerbRetryHead, outbox.VerbSkipHead:
		rec, err := o.ahead(ctx, a.Key, math.MaxInt64, true)
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
	effect, err := bulk.Judge(a, rec, o.at)
	c := change{effect: effect, about: rec}
	ids := []int64{rec.Sequence}
	switch a.Verb {
	case outbox.VerbReplay, outbox.VerbRetryHead:
		c.do = func(ctx context.Context) error { return o.replay(ctx, ids, nil) }
	case outbox.VerbDiscard, outbox.VerbSkipHead:
		c.do = func(ctx context.Context) error { return o.discard(ctx, ids) }
	default:
		at := o.at
		if a.At.After(at) {
			at = later(a.At, 0)
		}
		c.do = func(ctx context.Context) error { return o.makeAvailable(ctx, ids, at) }
	}
	return c, err
}

func (o operation) releaseKey(ctx context.Context, key string) (change, error) {
	ids, err := o.sequences(ctx, o.s.sql.DeadOfKey, key, bulk.ReleaseCap)
	if err == nil && len(ids) == 0 {
		err = bulk.NoHead(key)
	}
	return change{
		effect: outbox.Effect{Messages: len(ids), Before: outbox.StatusDead, After: outbox.StatusDiscarded},
		do:     func(ctx context.Context) error { return o.discard(ctx, ids) },
	}, err
}

func (o operation) pause(ctx context.Context, a outbox.Action) (change, error) {
	paused, err := o.s.paused(ctx, o.tx)
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
			return exec(ctx, o.tx, o.s.sql.Pause, a.Route, a.Actor, a.Reason)
		}
		return exec(ctx, o.tx, o.s.sql.Resume, a.Route)
	}}, bulk.PauseRefused(a, was, by)
}

func (o operation) releaseLease(ctx context.Context, shard int) (change, error) {
	var stats outbox.Stats
	if err := o.leases(ctx, &stats); err != nil {
		return change{}, err
	}
	for _, l := range stats.Leases {
		if l.Shard == shard && l.Held {
			return change{do: func(ctx context.Context) error { return exec(ctx, o.tx, o.s.sql.WithdrawLease, shard) }}, nil
		}
	}
	return change{}, bulk.NotHeld(shard)
}

func (o operation) trigger(ctx context.Context) (change, error) {
	ids, err := o.sequences(ctx, o.s.sql.Backoff, bulk.TriggerCap)
	return change{
		effect: outbox.Effect{Messages: len(ids)},
		do:     func(ctx context.Context) error { return o.makeAvailable(ctx, ids, o.at) },
	}, err
}

// replay starts messages over, each after its delay; nil means now.
func (o operation) replay(ctx context.Context, ids []int64, delays []time.Duration) error {
	floor, err := o.floor(ctx)
	if err != nil {
		return err
	}
	pairs := make([][2]int64, len(ids))
	for i, id := range ids {
		pairs[i][0] = id
		if delays != nil {
			pairs[i][1] = delays[i].Microseconds()
		}
	}
	text, err := json.Marshal(pairs)
	if err != nil {
		return err
	}
	return exec(ctx, o.tx, o.s.sql.Replay, string(text), floor)
}

func (o operation) makeAvailable(ctx context.Context, ids []int64, at time.Time) error {
	floor, err := o.floor(ctx)
	if err != nil {
		return err
	}
	return inSlices(ids, func(ids []int64) error { return exec(ctx, o.tx, o.s.sql.Available, ids, at, floor) })
}

func (o operation) discard(ctx context.Context, ids []int64) error {
	return inSlices(ids, func(ids []int64) error { return exec(ctx, o.tx, o.s.sql.Discard, ids) })
}

// floor is later than any batch was recorded.
func (o operation) floor(ctx context.Context) (time.Time, error) {
	var recorded int64
	err := one(ctx, o.tx, []any{&recorded}, o.s.sql.Floor)
	return moment(recorded + 1), err
}

func (v inspection) sequences(ctx context.Context, statement string, args ...any) ([]int64, error) {
	var ids []int64
	err := each(ctx, v.tx, func(rows *sql.Rows) error {
		var id int64
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	}, statement, args...)
	return ids, err
}
