package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/go-outbox/outbox"
)

// leftover is a batch of an earlier owner, or one that an earlier try of this
// recovery has adopted already.
type leftover struct {
	epoch, no  int64
	ids        []int64
	crashes    int16
	solo, beat bool
	recordedAt time.Time
	lost       bool

	adopted   bool
	unsettled []int64
	newNo     int64
}

// Recover adopts the batches of earlier owners in one fenced transaction. When its
// outcome is unknown it may be called again: adopted batches are reported again.
func (l *lease) Recover(ctx context.Context) ([]outbox.Orphan, error) {
	var orphans []outbox.Orphan
	err := l.inFence(ctx, func(tx pgx.Tx) error {
		batches, err := l.leftovers(ctx, tx)
		if err != nil || len(batches) == 0 {
			return err
		}
		if err := l.findUnsettled(ctx, tx, batches); err != nil {
			return err
		}
		orphans = l.plan(batches)
		return l.adopt(ctx, tx, batches)
	})
	if err != nil {
		return nil, l.s.explain("recover", err)
	}
	return orphans, nil
}

func (l *lease) leftovers(ctx context.Context, tx pgx.Tx) ([]*leftover, error) {
	rows, err := tx.Query(ctx, l.sql.Batches, l.s.mode, l.info.Shard, l.info.Epoch, l.excused)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (*leftover, error) {
		var b leftover
		var ids pgtype.Multirange[pgtype.Range[pgtype.Int8]]
		err := row.Scan(&b.epoch, &b.no, &ids, &b.crashes, &b.solo, &b.beat, &b.recordedAt, &b.lost)
		b.ids = expand(ids)
		b.adopted = b.epoch == l.info.Epoch
		return &b, err
	})
}

// expand lists the integers of a multirange, which PostgreSQL keeps in the form
// [lo,hi).
func expand(ranges pgtype.Multirange[pgtype.Range[pgtype.Int8]]) []int64 {
	var ids []int64
	for _, r := range ranges {
		for id := r.Lower.Int64; id < r.Upper.Int64; id++ {
			ids = append(ids, id)
		}
	}
	return ids
}

// findUnsettled finds the messages that are still in flight: unpublished, not
// dead, and not put back since their batch was recorded.
func (l *lease) findUnsettled(ctx context.Context, tx pgx.Tx, batches []*leftover) error {
	var all []int64
	for _, b := range batches {
		all = append(all, b.ids...)
	}
	rows, err := tx.Query(ctx, l.sql.Unsettled, l.s.mode, all)
	if err != nil {
		return err
	}
	available := make(map[int64]time.Time, len(all))
	var sequence, attempts int64
	var at time.Time
	_, err = pgx.ForEachRow(rows, []any{&sequence, &at, &attempts}, func() error {
		available[sequence] = at
		return nil
	})
	for _, b := range batches {
		for _, id := range b.ids {
			if at, ok := available[id]; ok && !at.After(b.recordedAt) {
				b.unsettled = append(b.unsettled, id)
			}
		}
	}
	return err
}

// plan numbers the batches that are left and describes them to the engine. The
// crash of an adopted batch has been counted.
func (l *lease) plan(batches []*leftover) []outbox.Orphan {
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
			No: b.newNo, IDs: b.unsettled, Crashes: int(b.crashes), Lost: b.lost, Solo: b.solo, Beat: b.beat,
		})
	}
	return orphans
}

// adopt writes the plan.
func (l *lease) adopt(ctx context.Context, tx pgx.Tx, batches []*leftover) error {
	var goneEpochs, gone, epochs, numbers, newNumbers, crashed []int64
	var lost []bool
	var crashes []int16
	for _, b := range batches {
		switch {
		case len(b.unsettled) == 0:
			goneEpochs, gone = append(goneEpochs, b.epoch), append(gone, b.no)
		case !b.adopted:
			epochs, numbers, newNumbers = append(epochs, b.epoch), append(numbers, b.no), append(newNumbers, b.newNo)
			lost, crashes = append(lost, b.lost), append(crashes, b.crashes)
			if b.lost {
				crashed = append(crashed, b.unsettled...)
			}
		}
	}
	if len(gone) > 0 {
		if _, err := tx.Exec(ctx, l.sql.DropBatch, l.s.mode, l.info.Shard, goneEpochs, gone); err != nil {
			return err
		}
	}
	if len(numbers) > 0 {
		if _, err := tx.Exec(ctx, l.sql.AdoptBatch, l.s.mode, l.info.Shard, l.info.Epoch, epochs, numbers, newNumbers, lost, crashes); err != nil {
			return err
		}
	}
	if len(crashed) > 0 {
		if _, err := tx.Exec(ctx, l.sql.Crashed, l.s.mode, crashed); err != nil {
			return err
		}
	}
	return nil
}
