package pgstore

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/go-outbox/outbox"
)

// Parts of a read, as the statements number them.
const (
	partClock = iota - 1
	partFresh
	partSeen
	partIDs
	partDue
	partRewind
	partSweep
)

// Read returns messages as of one snapshot, in one statement.
func (l *lease) Read(ctx context.Context, req outbox.ReadRequest) (outbox.Page, error) {
	if l.verbatim {
		return l.readVerbatim(ctx, req)
	}
	var page outbox.Page
	err := again(func() (err error) {
		page, err = l.read(ctx, req)
		if err == nil && page.Now.IsZero() { // the backlog is over, and nobody has told the time
			page, err = l.read(ctx, req)
		}
		return err
	})
	return page, l.s.explain("read", err)
}

func (l *lease) read(ctx context.Context, req outbox.ReadRequest) (outbox.Page, error) {
	asked := l.rows(req)
	statement, args := l.query(req, asked)
	rows, err := l.s.pool.Query(ctx, statement, args...)
	if err != nil {
		return outbox.Page{}, err
	}
	page, err := l.page(rows, req)
	l.backlog = err == nil && asked > 0 && len(page.Fresh)+len(page.Seen) >= asked
	return page, err
}

// query chooses the shortest text that answers the request.
func (l *lease) query(req outbox.ReadRequest, rows int) (string, []any) {
	args := []any{
		l.s.mode, binaryResults, req.After, rows, l.info.SlotLo, l.info.SlotHi, req.All,
		l.info.Shard, l.owner, l.info.Epoch,
	}
	if len(req.IDs) == 0 && req.Due <= 0 && req.Rewind == nil && req.Sweep == nil {
		return pick(l.backlog, l.sql.ReadOn, l.sql.ReadFresh), args
	}
	var rewind outbox.Rewind
	if req.Rewind != nil {
		rewind = *req.Rewind
	}
	var sweep outbox.Range
	if req.Sweep != nil {
		sweep = *req.Sweep
	}
	after := req.DueAfter
	if after.AvailableAt.IsZero() {
		after.AvailableAt = time.Unix(0, 0)
		after.Sequence = math.MinInt64
	}
	lo, hi := runs(req.IDs)
	return l.sql.ReadAll, append(args, lo, max(req.Due, 0), after.AvailableAt, after.Sequence,
		rewind.After, rewind.To, max(rewind.Limit, 0), orEmpty(rewind.Keys), orEmpty(rewind.Topics), sweep.From, sweep.To, hi)
}

// runs are ids as ranges. Those that a transaction has taken lie side by side: a tenth as
// many places to look at.
func runs(ids []int64) (lo, hi []int64) {
	if !slices.IsSorted(ids) {
		ids = slices.Sorted(slices.Values(ids))
	}
	lo, hi = []int64{}, []int64{}
	for i, id := range ids {
		if i > 0 && id <= ids[i-1]+1 {
			hi[len(hi)-1] = id
			continue
		}
		lo, hi = append(lo, id), append(hi, id)
	}
	return lo, hi
}

// rows is how many rows of the fresh part to ask for. Payloads beyond MaxBytes would
// be sent only to be dropped, so the last page's size bounds the next.
func (l *lease) rows(req outbox.ReadRequest) int {
	if req.MaxBytes == 0 || l.mean == 0 || req.Limit == 0 {
		return req.Limit
	}
	return min(req.Limit, max(req.MaxBytes, 0)/l.mean+1)
}

// orEmpty makes an absent array an empty one: NULL would be neither.
func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// page sorts the rows of a read into its parts.
func (l *lease) page(rows pgx.Rows, req outbox.ReadRequest) (outbox.Page, error) {
	defer rows.Close()
	page := outbox.Page{Last: req.After}
	bytes := 0
	full := false
	for rows.Next() {
		values := rows.RawValues()
		part := integer(values[colPart])
		switch {
		case part == partClock:
			page.Oldest = uint64(integer(values[colSequence]))
			page.Next, _ = strconv.ParseUint(string(values[colTenant]), 10, 64) // empty in the short text
			page.Now = timestamp(values[colCreatedAt])
			if !boolean(values[colDue]) {
				return page, outbox.ErrLeaseLost
			}
			continue
		case page.Now.IsZero(): // the first row of read_on
			if values[colDue] == nil {
				return page, outbox.ErrLeaseLost
			}
			page.Now = timestamp(values[colDue])
		}
		switch {
		case full && part <= partSeen:
			continue // beyond MaxBytes: not even copied
		case part == partSeen:
			page.Last = int64(integer(values[colSequence]))
			page.Seen = append(page.Seen, page.Last)
			continue
		case part == partSweep:
			page.Strays = append(page.Strays, outbox.Stray{
				Sequence: int64(integer(values[colSequence])), Key: string(values[colKey]), Topic: string(values[colTopic]),
			})
			continue
		}
		r, err := l.seen.scan(values, rows.FieldDescriptions()[colPayload].DataTypeOID)
		if err != nil {
			return page, err
		}
		switch part {
		case partFresh:
			bytes += len(r.Payload)
			if req.MaxBytes != 0 && bytes > req.MaxBytes && len(page.Fresh) > 0 {
				full = true
				continue
			}
			page.Fresh = append(page.Fresh, r)
			page.Last = r.Sequence
			continue
		case partDue:
			page.Due++
			page.DueEnd = outbox.DueCursor{AvailableAt: r.AvailableAt, Sequence: r.Sequence}
		case partRewind:
			page.Rewound++
			page.RewindEnd = r.Sequence
		}
		page.Others = append(page.Others, r)
	}
	if err := rows.Err(); err != nil {
		return page, err
	}
	if !slices.IsSortedFunc(page.Fresh, bySequence) {
		return page, fmt.Errorf("fresh messages came out of order")
	}
	if len(page.Fresh) > 0 {
		l.mean = bytes / len(page.Fresh)
	}
	page.Others = unique(page.Fresh, page.Others)
	return page, nil
}

func bySequence(a, b *outbox.Record) int {
	switch {
	case a.Sequence < b.Sequence:
		return -1
	case a.Sequence > b.Sequence:
		return 1
	}
	return 0
}

// unique drops from others what is in fresh or occurs twice.
func unique(fresh, others []*outbox.Record) []*outbox.Record {
	if len(others) == 0 {
		return nil
	}
	seen := make(map[int64]struct{}, len(others))
	return slices.DeleteFunc(others, func(r *outbox.Record) bool {
		_, twice := seen[r.Sequence]
		seen[r.Sequence] = struct{}{}
		if twice {
			return true
		}
		_, inFresh := slices.BinarySearchFunc(fresh, r, bySequence)
		return inFresh
	})
}
