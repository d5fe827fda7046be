package mysqlstore

import (
	"context"
	"database/sql"
	"time"

	"github.com/go-outbox/outbox"
)

// A leftover is a batch of an earlier owner, or one that an earlier try of this recovery
// has adopted already.
type leftover struct {
	epoch, no  int64
	ids        []int64
	crashes    int
	inFlight   bool
	solo, beat bool
	recordedAt int64
	server     int64 // when the server was started that it was recorded on
	lost       bool

	adopted   bool
	unsettled []int64
	newNo     int64
}

// Recover adopts the batches of earlier owners in one fenced transaction. When its
// outcome is unknown it may be called again: adopted batches are reported again.
func (l *lease) Recover(ctx context.Context) ([]outbox.Orphan, error) {
	var orphans []outbox.Orphan
	err := l.fenced(ctx, func(ctx context.Context, tx *sql.Tx, _ held) error {
		orphans = nil
		batches, err := l.leftovers(ctx, tx)
		if err != nil {
			return err
		}
		if err := l.store.findUnsettled(ctx, tx, batches); err != nil {
			return err
		}
		orphans = plan(batches)
		return l.adopt(ctx, tx, batches)
	})
	if err != nil {
		return nil, l.store.explain("recover", err)
	}
	return orphans, nil
}

func (l *lease) leftovers(ctx context.Context, tx *sql.Tx) ([]*leftover, error) {
	var list []*leftover
	err := each(ctx, tx, func(rows *sql.Rows) error {
		var b leftover
		var runs string
		err := rows.Scan(&b.epoch, &b.no, &runs, &b.crashes, &b.inFlight, &b.solo, &b.beat, &b.recordedAt, &b.server, &b.lost)
		if err != nil {
			return err
		}
		if b.adopted = b.epoch == l.info.Epoch; !b.adopted {
			b.lost = b.inFlight && !l.excuses(&b)
		}
		b.ids, err = decodeRuns(runs)
		list = append(list, &b)
		return err
	}, l.store.sql.Leftovers, l.info.Shard, l.info.Epoch)
	return list, err
}

// excuses reports whether the owner of a batch did not die of it: it is the process that
// asks or was stopping, and the last owner, or the server was restarted since. The server counts whole
// seconds, so the same start may look like two that are nearly as far apart as this.
func (l *lease) excuses(b *leftover) bool {
	return l.excused && b.epoch == l.info.Epoch-1 || l.started.Sub(moment(b.server)) > 2*time.Second
}

// findUnsettled finds the messages that are still in flight: open, and not put back since
// their batch was recorded.
func (s *Store) findUnsettled(ctx context.Context, q querier, batches []*leftover) error {
	var all []int64
	for _, b := range batches {
		all = append(all, b.ids...)
	}
	available := make(map[int64]int64, len(all))
	err := inSlices(all, func(ids []int64) error {
		return each(ctx, q, func(rows *sql.Rows) error {
			var id, at, attempts int64
			err := rows.Scan(&id, &at, &attempts)
			available[id] = at
			return err
		}, s.sql.Unsettled, ids)
	})
	for _, b := range batches {
		b.unsettled = nil
		for _, id := range b.ids {
			if at, ok := available[id]; ok && at <= b.recordedAt {
				b.unsettled = append(b.unsettled, id)
			}
		}
	}
	return err
}

// plan numbers the batches that are left and describes them to the engine. The crash of
// an adopted batch has been counted.
func plan(batches []*leftover) []outbox.Orphan {
	var next int64
	for _, b := range batches {
		if b.adopted {
			next = max(next, b.no)
		}
	}
	var orphans []outbox.Orphan
	for _, b := range batches {
		if len(b.unsettled) == 0 {
			continue
		}
		b.newNo = b.no
		if !b.adopted {
			next++
			b.newNo = next
			if b.lost {
				b.crashes++
			}
		}
		orphans = append(orphans, outbox.Orphan{
			No: b.newNo, IDs: b.unsettled, Crashes: b.crashes, Lost: b.lost, Solo: b.solo, Beat: b.beat,
		})
	}
	return orphans
}

// adopt writes the plan.
func (l *lease) adopt(ctx context.Context, tx *sql.Tx, batches []*leftover) error {
	s := l.store
	for _, b := range batches {
		var err error
		switch {
		case len(b.unsettled) == 0:
			err = exec(ctx, tx, s.sql.FinishBatches, l.info.Shard, b.epoch, []int64{b.no})
		case !b.adopted:
			err = exec(ctx, tx, s.sql.AdoptBatch, l.info.Shard, b.epoch, b.no, l.info.Epoch, b.newNo,
				encodeRuns(b.unsettled), b.crashes, b.lost)
			if err == nil && b.lost {
				err = inSlices(b.unsettled, func(ids []int64) error { return exec(ctx, tx, s.sql.Crashed, ids) })
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Heads lists the keyed messages that can hold their key.
func (l *lease) Heads(ctx context.Context, after int64, limit int) ([]outbox.Head, error) {
	var heads []outbox.Head
	err := l.store.snapshot(ctx, func(ctx context.Context, tx *sql.Tx) error {
		var mine bool
		if err := one(ctx, tx, []any{&mine}, l.store.sql.Held, l.info.Shard, l.owner, l.info.Epoch); err != nil {
			return err
		}
		if !mine {
			return outbox.ErrLeaseLost
		}
		return each(ctx, tx, func(rows *sql.Rows) error {
			var h outbox.Head
			err := rows.Scan(&h.Sequence, &h.Key, &h.Topic, &h.Dead)
			heads = append(heads, h)
			return err
		}, l.store.sql.Heads, after, l.info.SlotLo, l.info.SlotHi, limit)
	})
	if err != nil {
		return nil, l.store.explain("read heads", err)
	}
	return heads, nil
}
