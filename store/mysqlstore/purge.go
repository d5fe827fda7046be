package mysqlstore

import (
	"context"
	"database/sql"
	"sync"

	"github.com/go-outbox/outbox"
)

// A purgePosition is where the last purge stopped. It is only an economy: a process that
// starts anew begins at the bottom.
type purgePosition struct {
	mu      sync.Mutex
	table   int64
	history int64
}

const (
	// purgeScan is how many rows a purge looks at at once, purgeScans how often it may,
	// and purgeSlice how many it deletes in one transaction.
	purgeScan  = 10_000
	purgeScans = 64
	purgeSlice = 500
)

// Purge deletes what retention allows, at most req.Limit messages. It walks the primary
// key from where the last purge stopped and looks at no more than 640,000 rows per call.
func (s *Store) Purge(ctx context.Context, req outbox.PurgeRequest) (outbox.PurgeResult, error) {
	s.purge.mu.Lock()
	defer s.purge.mu.Unlock()
	var result outbox.PurgeResult
	var err error
	p := purge{s, req}
	if req.Dead > 0 {
		result.Dead, err = p.dead(ctx)
	}
	if err == nil {
		result.Published, err = p.published(ctx, req.Limit-result.Dead)
	}
	if err == nil {
		err = p.history(ctx)
	}
	result.More = req.Limit > 0 && result.Published+result.Dead >= req.Limit
	return result, s.explain("purge", err)
}

// purge is one call of Purge.
type purge struct {
	s   *Store
	req outbox.PurgeRequest
}

// published walks the table at most once around.
func (p purge) published(ctx context.Context, limit int) (deleted int, err error) {
	pos := &p.s.purge.table
	start, wrapped := *pos, *pos == 0
	for range purgeScans {
		if deleted >= limit {
			return deleted, nil
		}
		var rows, end int64
		err := p.s.committed(ctx, func(ctx context.Context, conn *sql.Conn) error {
			return one(ctx, conn, []any{&rows, &end}, p.s.sql.PurgeSlice, *pos, purgeScan)
		})
		if err != nil {
			return deleted, err
		}
		if rows > 0 {
			n, stop, err := p.slice(ctx, *pos, end, limit-deleted)
			deleted += n
			if err != nil {
				return deleted, err
			}
			end = stop
		}
		switch {
		case rows == purgeScan || deleted >= limit:
			*pos = end
		case wrapped:
			*pos = 0
			return deleted, nil
		default:
			*pos, wrapped = 0, true
		}
		if wrapped && start > 0 && *pos >= start {
			return deleted, nil
		}
	}
	return deleted, nil
}

// slice deletes between two sequences and says how far it came.
func (p purge) slice(ctx context.Context, from, to int64, limit int) (deleted int, end int64, err error) {
	for deleted < limit {
		size := min(limit-deleted, purgeSlice)
		age := p.req.Published.Microseconds()
		ids, err := p.find(ctx, p.s.sql.ExpiredPublished, from, to, age, size)
		if err != nil || len(ids) == 0 {
			return deleted, to, err
		}
		n, err := p.remove(ctx, ids, false, p.s.sql.PurgePublished, age)
		deleted, from = deleted+n, ids[len(ids)-1]
		if err != nil {
			return deleted, from, err
		}
		if len(ids) < size {
			return deleted, to, nil
		}
	}
	return deleted, from, nil
}

// dead deletes dead messages. The relays are told first, because a dead message may hold
// its key in their memory.
func (p purge) dead(ctx context.Context) (deleted int, err error) {
	var from int64
	for deleted < p.req.Limit {
		size := min(p.req.Limit-deleted, purgeSlice)
		age := p.req.Dead.Microseconds()
		ids, err := p.find(ctx, p.s.sql.ExpiredDead, from, age, size)
		if err != nil || len(ids) == 0 {
			return deleted, err
		}
		n, err := p.remove(ctx, ids, true, p.s.sql.PurgeDead, age)
		deleted, from = deleted+n, ids[len(ids)-1]
		if err != nil || len(ids) < size {
			return deleted, err
		}
	}
	return deleted, nil
}

func (p purge) find(ctx context.Context, statement string, args ...any) ([]int64, error) {
	var ids []int64
	err := p.s.committed(ctx, func(ctx context.Context, conn *sql.Conn) error {
		return each(ctx, conn, func(rows *sql.Rows) error {
			var id int64
			err := rows.Scan(&id)
			ids = append(ids, id)
			return err
		}, statement, args...)
	})
	return ids, err
}

// remove deletes messages, after the archive has taken them, with their history.
func (p purge) remove(ctx context.Context, ids []int64, nudge bool, statement string, age int64) (int, error) {
	ids, err := p.archived(ctx, ids)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	var n int64
	err = p.s.write(ctx, operatorPatience, func(ctx context.Context, tx *sql.Tx) (err error) {
		if nudge {
			if err := p.s.nudge(ctx, tx); err != nil {
				return err
			}
		}
		n, err = affected(ctx, tx, statement, ids, age)
		return err
	})
	return int(n), err
}

// archived hands messages to the archive, outside of any transaction, and returns those
// it took.
func (p purge) archived(ctx context.Context, ids []int64) ([]int64, error) {
	if p.req.Archive == nil {
		return ids, nil
	}
	var taken []int64
	var records []*outbox.Record
	err := p.s.committed(ctx, func(ctx context.Context, conn *sql.Conn) (err error) {
		records, err = p.s.shown(ctx, conn, p.s.sql.Messages, ids)
		return err
	})
	for _, r := range records {
		if p.req.Archive(r) == nil {
			taken = append(taken, r.Sequence)
		}
	}
	return taken, err
}

// history forgets attempts of messages that no longer exist.
func (p purge) history(ctx context.Context) error {
	pos := &p.s.purge.history
	var orphans []int64
	looked := 0
	err := p.s.committed(ctx, func(ctx context.Context, conn *sql.Conn) error {
		return each(ctx, conn, func(rows *sql.Rows) error {
			var gone bool
			looked++
			err := rows.Scan(pos, &gone)
			if gone {
				orphans = append(orphans, *pos)
			}
			return err
		}, p.s.sql.HistorySlice, *pos, purgeScan)
	})
	if looked < purgeScan {
		*pos = 0
	}
	if err != nil || len(orphans) == 0 {
		return err
	}
	return inSlices(orphans, func(ids []int64) error {
		return p.s.write(ctx, operatorPatience, func(ctx context.Context, tx *sql.Tx) error {
			return exec(ctx, tx, p.s.sql.ForgetHistory, ids)
		})
	})
}
