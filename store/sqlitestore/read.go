package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"time"

	"github.com/go-outbox/outbox"
)

// Read returns messages as of one snapshot: the parts are statements of one read
// transaction.
func (l *lease) Read(ctx context.Context, req outbox.ReadRequest) (outbox.Page, error) {
	var page outbox.Page
	err := l.read(ctx, func(ctx context.Context, conn *sql.Conn) error {
		now := l.store.now()
		r := &reader{store: l.store, conn: conn, now: now, have: map[int64]bool{}}
		r.page.Last = req.After
		r.page.Now = time.UnixMicro(now).UTC()
		err := r.read(ctx, req)
		page = r.page
		return err
	})
	if err != nil {
		return outbox.Page{}, fmt.Errorf("read: %w", err)
	}
	return page, nil
}

// A reader fills one page.
type reader struct {
	store *Store
	conn  *sql.Conn
	now   int64
	page  outbox.Page
	have  map[int64]bool // sequences that are on the page
}

func (r *reader) read(ctx context.Context, req outbox.ReadRequest) error {
	if req.Limit > 0 {
		if err := r.fresh(ctx, req); err != nil {
			return err
		}
	}
	if len(req.IDs) == 0 && req.Due == 0 && req.Rewind == nil && req.Sweep == nil {
		return nil
	}
	for _, rec := range r.page.Fresh {
		r.have[rec.Sequence] = true
	}
	return r.others(ctx, req)
}

// fresh reads the fresh part. With All, the sequences are listed first and only the
// open ones are read.
func (r *reader) fresh(ctx context.Context, req outbox.ReadRequest) error {
	last := int64(math.MaxInt64)
	if req.All {
		var err error
		if last, err = r.seen(ctx, req); err != nil {
			return err
		}
	}
	bytes := 0
	full := false
	err := each(ctx, r.conn, func(rows *sql.Rows) error {
		rec, err := scanRecord(rows, r.now)
		if err != nil {
			return err
		}
		bytes += len(rec.Payload)
		if full = req.MaxBytes > 0 && bytes > req.MaxBytes && len(r.page.Fresh) > 0; full {
			return errEnough
		}
		r.page.Fresh = append(r.page.Fresh, rec)
		return nil
	}, r.store.sql.ReadFresh, req.After, last, req.Limit)
	if err != nil && !full {
		return err
	}
	switch n := len(r.page.Fresh); {
	case req.All && !full:
		r.page.Last = last
	case n > 0:
		r.page.Last = r.page.Fresh[n-1].Sequence
	}
	r.forgetSeenAfter(r.page.Last)
	return nil
}

// seen lists every sequence of the fresh part, notes the settled ones and returns the
// highest.
func (r *reader) seen(ctx context.Context, req outbox.ReadRequest) (int64, error) {
	last := req.After
	err := each(ctx, r.conn, func(rows *sql.Rows) error {
		var open bool
		if err := rows.Scan(&last, &open); err != nil {
			return err
		}
		if !open {
			r.page.Seen = append(r.page.Seen, last)
		}
		return nil
	}, r.store.sql.ReadSeen, req.After, req.Limit)
	return last, err
}

// forgetSeenAfter drops what lies behind the point where MaxBytes ended the part.
func (r *reader) forgetSeenAfter(last int64) {
	seen := r.page.Seen
	for len(seen) > 0 && seen[len(seen)-1] > last {
		seen = seen[:len(seen)-1]
	}
	r.page.Seen = seen
}

// others reads the remaining parts. Each counts what it found; a message that is on
// the page already is not added again.
func (r *reader) others(ctx context.Context, req outbox.ReadRequest) error {
	if len(req.IDs) > 0 {
		if _, _, err := r.add(ctx, r.store.sql.ReadIDs, jsonList(req.IDs)); err != nil {
			return err
		}
	}
	if req.Due > 0 {
		if err := r.due(ctx, req); err != nil {
			return err
		}
	}
	if req.Rewind != nil {
		if err := r.rewind(ctx, *req.Rewind); err != nil {
			return err
		}
	}
	if req.Sweep != nil {
		return r.sweep(ctx, *req.Sweep)
	}
	return nil
}

func (r *reader) rewind(ctx context.Context, w outbox.Rewind) error {
	every := len(w.Keys)+len(w.Topics) == 0
	n, end, err := r.add(ctx, r.store.sql.ReadRewind, w.After, w.To, jsonList(w.Keys), jsonList(w.Topics), w.Limit, every)
	if err != nil {
		return err
	}
	r.page.Rewound = n
	r.page.RewindEnd = w.After
	if end != nil {
		r.page.RewindEnd = end.Sequence
	}
	return nil
}

func (r *reader) sweep(ctx context.Context, w outbox.Range) error {
	return each(ctx, r.conn, func(rows *sql.Rows) error {
		var stray outbox.Stray
		err := rows.Scan(&stray.Sequence, &stray.Key, &stray.Topic)
		r.page.Strays = append(r.page.Strays, stray)
		return err
	}, r.store.sql.ReadStrays, w.From, w.To)
}

func (r *reader) due(ctx context.Context, req outbox.ReadRequest) error {
	after := int64(math.MinInt64)
	if !req.DueAfter.AvailableAt.IsZero() {
		after = req.DueAfter.AvailableAt.UnixMicro()
	}
	n, end, err := r.add(ctx, r.store.sql.ReadDue, r.now, after, req.DueAfter.Sequence, req.Due)
	if err != nil {
		return err
	}
	r.page.Due = n
	r.page.DueEnd = req.DueAfter
	if end != nil {
		r.page.DueEnd = outbox.DueCursor{AvailableAt: end.AvailableAt, Sequence: end.Sequence}
	}
	return nil
}

// add reads one part and returns how many rows it has and the last of them.
func (r *reader) add(ctx context.Context, query string, args ...any) (n int, end *outbox.Record, err error) {
	err = each(ctx, r.conn, func(rows *sql.Rows) error {
		rec, err := scanRecord(rows, r.now)
		if err != nil {
			return err
		}
		n, end = n+1, rec
		if !r.have[rec.Sequence] {
			r.have[rec.Sequence] = true
			r.page.Others = append(r.page.Others, rec)
		}
		return nil
	}, query, args...)
	return n, end, err
}
