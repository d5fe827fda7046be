package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/go-outbox/outbox"
)

const (
	// historyLength is how many attempts of a message are kept.
	historyLength = 20
	// fewRuns is up to how many runs are settled range by range. Beyond that a
	// list of ids in one statement is cheaper.
	fewRuns = 8
)

// Step settles outcomes and records batches in one fenced transaction.
func (l *lease) Step(ctx context.Context, step outbox.Step) error {
	err := l.write(ctx, func(ctx context.Context, conn *sql.Conn) error {
		w := &stepWriter{lease: l, store: l.store, conn: conn, epoch: l.info.Epoch, now: l.store.now()}
		return w.write(ctx, step)
	})
	if err != nil {
		return fmt.Errorf("step: %w", err)
	}
	return nil
}

// A stepWriter writes one step into a transaction that holds the lease.
type stepWriter struct {
	lease *lease
	store *Store
	conn  *sql.Conn
	epoch int64
	now   int64
	floor int64 // later than any batch was recorded; 0 until it is needed
}

func (w *stepWriter) write(ctx context.Context, step outbox.Step) error {
	if err := w.settle(ctx, step); err != nil {
		return err
	}
	stmts := w.store.sql
	if len(step.Done) > 0 {
		if err := exec(ctx, w.conn, stmts.FinishBatches, w.epoch, jsonList(step.Done)); err != nil {
			return err
		}
	}
	for _, b := range step.Record {
		err := exec(ctx, w.conn, stmts.RecordBatch, w.epoch, b.No, w.lease.instance, encodeRuns(b.IDs), b.Crashes,
			!b.Queued, b.Solo, w.now)
		if err != nil {
			return err
		}
	}
	for _, no := range step.Start {
		if err := w.start(ctx, no); err != nil {
			return err
		}
	}
	if len(step.Beat) > 0 {
		return exec(ctx, w.conn, stmts.BeatBatches, w.epoch, w.now, jsonList(step.Beat))
	}
	return nil
}

// start marks a batch as in flight. Members that were put back while it waited are
// dropped from it: measured by the new time they would look like in flight again.
func (w *stepWriter) start(ctx context.Context, no int64) error {
	var runs string
	var recordedAt int64
	err := w.conn.QueryRowContext(ctx, w.store.sql.Batch, w.epoch, no).Scan(&runs, &recordedAt)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	ids, err := w.store.members(ctx, w.conn, runs, recordedAt)
	if err != nil {
		return err
	}
	return exec(ctx, w.conn, w.store.sql.StartBatch, w.epoch, no, w.now, encodeRuns(ids))
}

// A generation is what published messages must share to be settled together.
type generation struct{ replays, spent int }

func (w *stepWriter) settle(ctx context.Context, step outbox.Step) error {
	published := map[generation][]int64{}
	for _, o := range step.Outcomes {
		var err error
		switch {
		case o.Kind != outbox.Published:
			err = w.settleFailed(ctx, o)
		case o.RoutesDone != nil && !step.Delete:
			err = exec(ctx, w.conn, w.store.sql.PublishRouted, o.Sequence, w.now, o.Spent, o.Replays, jsonList(o.RoutesDone))
		default:
			g := generation{o.Replays, o.Spent}
			published[g] = append(published[g], o.Sequence)
		}
		if err != nil {
			return err
		}
	}
	for g, ids := range published {
		if err := w.settlePublished(ctx, g, ids, step.Delete); err != nil {
			return err
		}
	}
	return nil
}

func (w *stepWriter) settlePublished(ctx context.Context, g generation, ids []int64, remove bool) error {
	stmts := w.store.sql
	runs := runsOf(ids)
	if len(runs) > fewRuns {
		list := jsonList(ids)
		if remove {
			return exec(ctx, w.conn, stmts.DeleteIDs, list, g.replays)
		}
		return exec(ctx, w.conn, stmts.PublishIDs, list, w.now, g.spent, g.replays)
	}
	for _, r := range runs {
		var err error
		if remove {
			err = exec(ctx, w.conn, stmts.DeleteRun, r[0], r[1], g.replays)
		} else {
			err = exec(ctx, w.conn, stmts.PublishRun, r[0], r[1], w.now, g.spent, g.replays)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// settleFailed settles a message that was not delivered and notes the attempt, if the
// outcome still applied.
func (w *stepWriter) settleFailed(ctx context.Context, o outbox.Outcome) error {
	floor, err := w.afterBatches(ctx)
	if err != nil {
		return err
	}
	var lastError, deadAt, reason, routes any = o.Error, nil, nil, nil
	spent := o.Spent
	switch o.Kind {
	case outbox.Dead:
		deadAt, reason = w.now, o.Reason
	case outbox.Deferred: // no verdict on the message
		lastError, spent = nullable(o.Error), 0
	}
	if o.RoutesDone != nil {
		routes = jsonList(o.RoutesDone)
	}
	n, err := affected(ctx, w.conn, w.store.sql.SettleFailed, o.Sequence, o.Replays, o.Attempts,
		later(w.now, o.Delay), floor, spent, lastError, deadAt, reason, routes)
	if err != nil || n == 0 {
		return err
	}
	if o.Kind == outbox.Deferred && o.Error == "" {
		return nil
	}
	return w.note(ctx, o, o.Attempts+spent)
}

// note appends to the history of a message and keeps it short.
func (w *stepWriter) note(ctx context.Context, o outbox.Outcome, attempt int) error {
	stmts := w.store.sql
	err := exec(ctx, w.conn, stmts.NoteAttempt, o.Sequence, w.now, attempt, o.Route, o.Kind.String(), o.Error,
		o.Took.Microseconds())
	if err != nil {
		return err
	}
	return exec(ctx, w.conn, stmts.TrimAttempts, o.Sequence, historyLength)
}

func (w *stepWriter) afterBatches(ctx context.Context) (int64, error) {
	if w.floor > 0 {
		return w.floor, nil
	}
	err := w.conn.QueryRowContext(ctx, w.store.sql.Floor).Scan(&w.floor)
	return w.floor, err
}

// later is now+d without overflow.
func later(now int64, d time.Duration) int64 {
	micros := max(d, 0).Microseconds()
	if micros > math.MaxInt64-now {
		return math.MaxInt64
	}
	return now + micros
}
