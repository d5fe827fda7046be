package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/go-outbox/outbox"
)

// Recover adopts the batches of earlier epochs, oldest first.
func (l *lease) Recover(ctx context.Context) ([]outbox.Orphan, error) {
	if err := l.enter(ctx); err != nil {
		return nil, fmt.Errorf("recover: %w", err)
	}
	defer l.store.mu.Unlock()
	var orphans []outbox.Orphan
	for _, b := range l.row.left(l.info.Epoch) {
		delete(l.row.batches, b.key)
		rows := b.unsettled()
		if len(rows) == 0 {
			continue
		}
		orphans = append(orphans, l.adopt(b, rows))
	}
	return orphans, nil
}

// left lists the batches that were recorded before an epoch.
func (l *leaseRow) left(epoch int64) []*batch {
	var left []*batch
	for _, b := range l.batches {
		if b.key.epoch < epoch {
			left = append(left, b)
		}
	}
	slices.SortFunc(left, func(a, b *batch) int {
		return cmp.Or(cmp.Compare(a.key.epoch, b.key.epoch), cmp.Compare(a.key.no, b.key.no))
	})
	return left
}

func (l *lease) adopt(b *batch, rows []*row) outbox.Orphan {
	lost := b.inFlight && !l.excused(b)
	if lost {
		b.crashes++
	}
	ids := make([]int64, len(rows))
	for i, r := range rows {
		ids[i] = r.Sequence
		if lost {
			r.Crashes++
		}
	}
	orphan := outbox.Orphan{IDs: ids, Crashes: b.crashes, Lost: lost, Solo: b.solo, Beat: b.beat}
	b.key = l.freeKey()
	b.rows = rows
	b.inFlight = false
	b.instance = l.row.instance
	l.row.batches[b.key] = b
	orphan.No = b.key.no
	return orphan
}

// excused: the owner of the batch did not die of it. It is the process that asks,
// or it was stopping.
func (l *lease) excused(b *batch) bool {
	return b.instance == l.row.instance || (b.instance == l.before.instance && l.before.draining)
}

// freeKey is the lowest unused batch number of the epoch.
func (l *lease) freeKey() batchKey {
	key := batchKey{l.info.Epoch, 1}
	for l.row.batches[key] != nil {
		key.no++
	}
	return key
}
