package mysqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-outbox/outbox"
)

// fewRuns is up to how many runs are settled range by range. Beyond that a list of ids is
// cheaper.
const fewRuns = 8

// Step settles outcomes and records batches in one fenced transaction.
func (l *lease) Step(ctx context.Context, step outbox.Step) error {
	err := l.fenced(ctx, func(ctx context.Context, tx *sql.Tx, h held) error {
		w := &stepWriter{lease: l, sql: &l.store.sql, tx: tx, held: h}
		return w.write(ctx, &step)
	})
	return l.store.explain("step", err)
}

// A stepWriter writes one step into a transaction that holds the lease. The order of
// locks is that of everyone: lease, batches, messages.
type stepWriter struct {
	lease *lease
	sql   *statements
	tx    *sql.Tx
	held
}

func (w *stepWriter) write(ctx context.Context, step *outbox.Step) error {
	if err := w.batches(ctx, step); err != nil {
		return err
	}
	published := map[generation][]int64{}
	var rest []outbox.Outcome
	for _, o := range step.Outcomes {
		if o.Kind == outbox.Published && (step.Delete || o.RoutesDone == nil) {
			g := generation{o.Replays, o.Spent}
			published[g] = append(published[g], o.Sequence)
		} else {
			rest = append(rest, o)
		}
	}
	for g, ids := range published {
		if err := w.publish(ctx, g, ids, step.Delete); err != nil {
			return err
		}
	}
	if len(rest) == 0 {
		return nil
	}
	return w.settle(ctx, rest)
}

// batches writes everything about batches.
func (w *stepWriter) batches(ctx context.Context, step *outbox.Step) error {
	shard, epoch := w.lease.info.Shard, w.lease.info.Epoch
	if err := inSlices(step.Done, func(numbers []int64) error {
		return exec(ctx, w.tx, w.sql.FinishBatches, shard, epoch, numbers)
	}); err != nil {
		return err
	}
	if len(step.Record) > 0 {
		rows := make([]row, len(step.Record))
		for i, b := range step.Record {
			rows[i] = row{shard, epoch, b.No, encodeRuns(b.IDs), b.Crashes, !b.Queued, b.Solo, w.now, w.lease.started}
		}
		if err := exec(ctx, w.tx, w.sql.RecordBatches, rows); err != nil {
			return err
		}
	}
	for _, no := range step.Start {
		if err := w.start(ctx, no); err != nil {
			return err
		}
	}
	return inSlices(step.Beat, func(numbers []int64) error {
		return exec(ctx, w.tx, w.sql.BeatBatches, shard, epoch, numbers, w.now)
	})
}

// start marks a batch as in flight. Members that were put back while it waited are
// dropped from it: measured by the new time they would look like in flight again.
func (w *stepWriter) start(ctx context.Context, no int64) error {
	shard, epoch := w.lease.info.Shard, w.lease.info.Epoch
	var b leftover
	var runs string
	err := one(ctx, w.tx, []any{&runs, &b.recordedAt}, w.sql.Batch, shard, epoch, no)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	if b.ids, err = decodeRuns(runs); err != nil {
		return err
	}
	if err := w.lease.store.findUnsettled(ctx, w.tx, []*leftover{&b}); err != nil {
		return err
	}
	return exec(ctx, w.tx, w.sql.StartBatch, shard, epoch, no, w.now, w.lease.started, encodeRuns(b.unsettled))
}

// A generation is what published messages must share to be settled together.
type generation struct{ replays, spent int }

// publish settles messages that have no values of their own: range by range where they
// are dense, which is the rule with one shard.
func (w *stepWriter) publish(ctx context.Context, g generation, ids []int64, remove bool) error {
	runs := runsOf(ids)
	if len(runs) > fewRuns {
		return inSlices(ids, func(ids []int64) error {
			if remove {
				return exec(ctx, w.tx, w.sql.DeleteIDs, ids, g.replays)
			}
			return exec(ctx, w.tx, w.sql.PublishIDs, ids, w.now, g.spent, g.replays)
		})
	}
	for _, r := range runs {
		var err error
		if remove {
			err = exec(ctx, w.tx, w.sql.DeleteRun, r[0], r[1], g.replays)
		} else {
			err = exec(ctx, w.tx, w.sql.PublishRun, r[0], r[1], w.now, g.spent, g.replays)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// settle settles messages with values of their own and notes the attempts, as far as the
// outcomes still apply.
func (w *stepWriter) settle(ctx context.Context, outcomes []outbox.Outcome) error {
	applicable, err := w.applicable(ctx, outcomes)
	if err != nil || len(applicable) == 0 {
		return err
	}
	values := make([]settlement, len(applicable))
	for i, o := range applicable {
		values[i] = w.settlement(o)
	}
	text, err := json.Marshal(values)
	if err != nil {
		return fmt.Errorf("encode outcomes: %w", err)
	}
	if err := exec(ctx, w.tx, w.sql.Settle, string(text)); err != nil {
		return err
	}
	return w.note(ctx, applicable)
}

// applicable locks the messages and returns the outcomes whose guards hold.
func (w *stepWriter) applicable(ctx context.Context, outcomes []outbox.Outcome) ([]outbox.Outcome, error) {
	ids := make([]int64, len(outcomes))
	for i, o := range outcomes {
		ids[i] = o.Sequence
	}
	found := make(map[int64]generation, len(ids)) // spent is what was spent before
	err := inSlices(ids, func(ids []int64) error {
		return each(ctx, w.tx, func(rows *sql.Rows) error {
			var id int64
			var g generation
			err := rows.Scan(&id, &g.replays, &g.spent)
			found[id] = g
			return err
		}, w.sql.LockOpen, ids)
	})
	var list []outbox.Outcome
	for _, o := range outcomes {
		g, ok := found[o.Sequence]
		if ok && g.replays == o.Replays && (o.Kind == outbox.Published || g.spent == o.Attempts) {
			list = append(list, o)
			delete(found, o.Sequence) // once
		}
	}
	return list, err
}

// A settlement is an outcome as settle.sql reads it.
type settlement struct {
	Sequence    int64  `json:"sequence"`
	Spent       int    `json:"spent"`
	AvailableAt string `json:"available_at,omitempty"`
	PublishedAt string `json:"published_at,omitempty"`
	DeadAt      string `json:"dead_at,omitempty"`
	DeadReason  string `json:"dead_reason,omitempty"`
	KeepError   int    `json:"keep_error"`
	LastError   string `json:"last_error,omitempty"`
	RoutesDone  string `json:"routes_done,omitempty"`
}

func (w *stepWriter) settlement(o outbox.Outcome) settlement {
	s := settlement{Sequence: o.Sequence, Spent: spent(o), LastError: o.Error}
	switch o.Kind {
	case outbox.Published:
		s.PublishedAt, s.LastError = w.now.Format(datetime), ""
	case outbox.Dead:
		s.DeadAt, s.DeadReason = w.now.Format(datetime), o.Reason
	default:
		at := later(w.now, o.Delay)
		if at.Before(w.floor) {
			at = w.floor
		}
		s.AvailableAt = at.Format(datetime)
	}
	if o.Kind != outbox.Published && o.Error == "" {
		s.KeepError = 1
	}
	if o.RoutesDone != nil {
		text, err := json.Marshal(o.RoutesDone)
		if err == nil { // strings always marshal
			s.RoutesDone = string(text)
		}
	}
	return s
}

// spent is how many attempts an outcome costs. Deferred is no verdict on the message.
func spent(o outbox.Outcome) int {
	if o.Kind == outbox.Deferred {
		return 0
	}
	return o.Spent
}

const (
	// historyLength is how many attempts of a message are kept when a history that has
	// grown beyond maxHistory is cut.
	historyLength = 20
	maxHistory    = 29
)

// note appends to the histories of messages and keeps them short.
func (w *stepWriter) note(ctx context.Context, outcomes []outbox.Outcome) error {
	var rows []row
	var ids []int64
	for _, o := range outcomes {
		if o.Kind == outbox.Published || o.Kind == outbox.Deferred && o.Error == "" {
			continue
		}
		rows = append(rows, row{
			o.Sequence, w.now, o.Attempts + spent(o), o.Route, o.Kind.String(), o.Error, o.Took.Microseconds(),
		})
		ids = append(ids, o.Sequence)
	}
	if len(rows) == 0 {
		return nil
	}
	if err := exec(ctx, w.tx, w.sql.NoteAttempts, rows); err != nil {
		return err
	}
	long := map[int64]int{}
	if err := inSlices(ids, func(ids []int64) error {
		return each(ctx, w.tx, func(rows *sql.Rows) error {
			var id int64
			var n int
			err := rows.Scan(&id, &n)
			long[id] = n
			return err
		}, w.sql.LongHistories, ids, maxHistory)
	}); err != nil {
		return err
	}
	for id, n := range long {
		if err := exec(ctx, w.tx, w.sql.TrimHistory, id, n-historyLength); err != nil {
			return err
		}
	}
	return nil
}
