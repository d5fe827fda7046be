package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/go-outbox/outbox"
)

// A leftover is a batch of an earlier epoch.
type leftover struct {
	epoch, no  int64
	instance   string
	ids        string
	crashes    int
	inFlight   bool
	solo, beat bool
	recordedAt int64
}

// Recover adopts the batches that earlier owners left behind. A message counts as in
// flight with its batch while it is open and has not become available again since
// the batch was recorded: what was put back is found by its availability.
func (l *lease) Recover(ctx context.Context) ([]outbox.Orphan, error) {
	var orphans []outbox.Orphan
	err := l.write(ctx, func(ctx context.Context, conn *sql.Conn) error {
		orphans = nil
		left, top, err := l.leftovers(ctx, conn)
		if err != nil {
			return err
		}
		for i, b := range left {
			// A number of its own: two earlier epochs may have used the same.
			orphan, err := l.adopt(ctx, conn, b, top+1+int64(i))
			if err != nil {
				return err
			}
			if len(orphan.IDs) > 0 {
				orphans = append(orphans, orphan)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("recover: %w", err)
	}
	return orphans, nil
}

// leftovers lists the batches to adopt and the highest number in use.
func (l *lease) leftovers(ctx context.Context, conn *sql.Conn) ([]leftover, int64, error) {
	var left []leftover
	err := each(ctx, conn, func(rows *sql.Rows) error {
		var b leftover
		err := rows.Scan(&b.epoch, &b.no, &b.instance, &b.ids, &b.crashes, &b.inFlight, &b.solo, &b.beat, &b.recordedAt)
		left = append(left, b)
		return err
	}, l.store.sql.Orphans, l.info.Epoch)
	if err != nil {
		return nil, 0, err
	}
	var top int64
	err = conn.QueryRowContext(ctx, l.store.sql.TopBatch, l.info.Epoch).Scan(&top)
	return left, top, err
}

// adopt moves a batch to this epoch under the number no, or drops it when nothing of
// it is in flight any more.
func (l *lease) adopt(ctx context.Context, conn *sql.Conn, b leftover, no int64) (outbox.Orphan, error) {
	s := l.store
	ids, err := s.members(ctx, conn, b.ids, b.recordedAt)
	if err != nil {
		return outbox.Orphan{}, err
	}
	if len(ids) == 0 {
		return outbox.Orphan{}, exec(ctx, conn, s.sql.DropBatch, b.epoch, b.no)
	}
	orphan := outbox.Orphan{No: no, IDs: ids, Crashes: b.crashes, Solo: b.solo, Beat: b.beat}
	if b.inFlight && !l.excuses(b) {
		orphan.Lost = true
		orphan.Crashes++
		if err := exec(ctx, conn, s.sql.Crashed, jsonList(ids)); err != nil {
			return outbox.Orphan{}, err
		}
	}
	return orphan, exec(ctx, conn, s.sql.Adopt, b.epoch, b.no, l.info.Epoch, no, l.instance, encodeRuns(ids), orphan.Crashes)
}

// excuses reports whether the owner of a batch did not die of it: it is the process
// that asks, or it was stopping.
func (l *lease) excuses(b leftover) bool {
	return b.instance == l.instance || (l.drained && b.epoch == l.former)
}

// members are the messages that are still in flight with a batch.
func (s *Store) members(ctx context.Context, conn *sql.Conn, runs string, recordedAt int64) ([]int64, error) {
	var ids []int64
	err := each(ctx, conn, func(rows *sql.Rows) error {
		var id int64
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	}, s.sql.Members, runs, recordedAt)
	return ids, err
}

// Heads lists the keyed messages that can hold their key.
func (l *lease) Heads(ctx context.Context, after int64, limit int) ([]outbox.Head, error) {
	var heads []outbox.Head
	err := l.read(ctx, func(ctx context.Context, conn *sql.Conn) error {
		heads = nil
		return each(ctx, conn, func(rows *sql.Rows) error {
			var h outbox.Head
			err := rows.Scan(&h.Sequence, &h.Key, &h.Topic, &h.Dead)
			heads = append(heads, h)
			return err
		}, l.store.sql.Heads, after, limit)
	})
	if err != nil {
		return nil, fmt.Errorf("read heads: %w", err)
	}
	return heads, nil
}
