package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/go-outbox/outbox"
)

// purgeSlice is how many rows one transaction deletes: few enough that writers hardly
// notice.
const purgeSlice = 500

// Purge deletes messages that were published, or have been dead, for long enough.
func (s *Store) Purge(ctx context.Context, req outbox.PurgeRequest) (outbox.PurgeResult, error) {
	var result outbox.PurgeResult
	var err error
	result.Published, err = s.purge(ctx, retention{
		age: req.Published, limit: req.Limit, archive: req.Archive,
		purge: s.sql.PurgePublished, expired: s.sql.ExpiredPublished, archived: s.sql.ArchivedPublished,
	})
	if err == nil && req.Dead > 0 {
		result.Dead, err = s.purge(ctx, retention{
			age: req.Dead, limit: req.Limit - result.Published, archive: req.Archive,
			purge: s.sql.PurgeDead, expired: s.sql.ExpiredDead, archived: s.sql.ArchivedDead,
			nudge: true, // a dead message may hold its key in a relay's memory
		})
	}
	result.More = req.Limit > 0 && result.Published+result.Dead >= req.Limit
	if err != nil {
		return result, fmt.Errorf("purge: %w", err)
	}
	return result, nil
}

// A retention is what is purged after which age, and the statements for it.
type retention struct {
	age     time.Duration
	limit   int
	archive func(*outbox.Record) error

	purge    string // deletes by age
	expired  string // reads what purge would delete
	archived string // deletes by id, if still of that age
	nudge    bool   // the relay is told
}

// purge deletes in slices and returns how many it deleted, also with an error.
func (s *Store) purge(ctx context.Context, r retention) (int, error) {
	done := 0
	for done < r.limit {
		size := min(r.limit-done, purgeSlice)
		var n int
		var err error
		if r.archive == nil {
			n, err = s.deleteWhere(ctx, r, r.purge, s.now()-r.age.Microseconds(), size)
		} else {
			n, err = s.archiveSlice(ctx, r, size)
		}
		done += n
		if err != nil || n < size {
			return done, err
		}
	}
	return done, nil
}

func (s *Store) deleteWhere(ctx context.Context, r retention, statement string, args ...any) (int, error) {
	var n int64
	err := s.write(ctx, func(ctx context.Context, conn *sql.Conn) (err error) {
		if n, err = affected(ctx, conn, statement, args...); err != nil || n == 0 || !r.nudge {
			return err
		}
		return exec(ctx, conn, s.sql.Nudge)
	})
	return int(n), err
}

// archiveSlice hands messages to the archive outside of any transaction, then deletes
// those it took.
func (s *Store) archiveSlice(ctx context.Context, r retention, size int) (int, error) {
	cutoff := s.now() - r.age.Microseconds()
	var expired []*outbox.Record
	err := s.read(ctx, func(ctx context.Context, conn *sql.Conn) error {
		expired = nil
		return each(ctx, conn, func(rows *sql.Rows) error {
			rec, err := scanRecord(rows, cutoff)
			expired = append(expired, rec)
			return err
		}, r.expired, cutoff, size)
	})
	if err != nil {
		return 0, err
	}
	var taken []int64
	for _, rec := range expired {
		if err = r.archive(rec); err != nil {
			err = fmt.Errorf("archive %s: %w", rec.EventID, err)
			break
		}
		taken = append(taken, rec.Sequence)
	}
	if len(taken) == 0 {
		return 0, err
	}
	n, deleteErr := s.deleteWhere(ctx, r, r.archived, cutoff, jsonList(taken))
	if err == nil {
		err = deleteErr
	}
	return n, err
}
