package pgstore

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/go-outbox/outbox"
)

// A trail is how far a lease has read a verbatim table. Messages have no keys there
// and sequence has no index, so they are read in the order in which they become
// available, by the pending index. That order holds retries and scheduled messages
// too: each stands where it becomes due.
//
// A transaction that began early and commits late puts its messages behind the
// place that was reached. So laps go through everything unpublished up to there,
// except what is in flight. They are cheap unless dead rows, parked messages or
// versions that no vacuum may remove lie in the way; then they are made rarely.
type trail struct {
	at   outbox.DueCursor
	busy bool // there is more ahead

	// The current lap goes on at back and ends at end; the zero end is none. It
	// has taken this long so far.
	back, end outbox.DueCursor
	took      time.Duration
	last      time.Duration // that the lap before took
	// The next one may begin after rest, and while busy not before lapBusy, since
	// the last one ended or since it became busy.
	since time.Time
	rest  time.Duration
}

const (
	// After two laps that took longer than lapCheap there is a rest of lapShare times
	// as long, up to lapRest. A single one may just have waited for its turn.
	lapCheap = 10 * time.Millisecond
	lapShare = 5
	lapRest  = 10 * time.Second
	// lapBusy is between two laps while there is more to read ahead.
	lapBusy = time.Second
)

// Parts of a read that only this layout has.
const (
	partLate = iota + 6
	partNext
)

// colID follows the columns that a scanner reads.
const colID = colDue + 1

// lap is how many messages to read behind the trail's place. It begins a lap when
// it is time for one.
func (t *trail) lap(limit int, now time.Time) int {
	start := outbox.DueCursor{}
	if t.end == start {
		pause := t.rest
		if t.busy {
			pause = max(pause, lapBusy)
		}
		if now.Sub(t.since) < pause {
			return 0
		}
		t.end = t.at
	}
	if t.end == start {
		return 0
	}
	return limit
}

// A stretch is what one read saw of the fresh part or of a lap.
type stretch struct {
	asked, got int
	end        outbox.DueCursor
}

func (s *stretch) add(r *outbox.Record) {
	s.got++
	s.end = outbox.DueCursor{AvailableAt: r.AvailableAt, Sequence: r.Sequence}
}

// whole reports whether the part reached its end.
func (s *stretch) whole(cut bool) bool { return !cut && s.got < s.asked }

// moved notes a read. cut says that the payload limit kept some messages out.
func (t *trail) moved(fresh, late stretch, cut bool, clock time.Time, took time.Duration) {
	if fresh.got > 0 {
		t.at = fresh.end
	}
	if t.at.AvailableAt.After(clock) {
		t.at = outbox.DueCursor{} // the clock was set back: what comes next would be behind
	}
	if fresh.asked > 0 {
		more := !fresh.whole(cut)
		if more && !t.busy {
			t.since = time.Now()
		}
		t.busy = more
	}
	if late.asked > 0 {
		t.took += took
		if late.got > 0 {
			t.back = late.end
		}
		if late.whole(cut) {
			t.finish()
		}
	}
}

func (t *trail) finish() {
	t.rest = 0
	if cost := min(t.took, t.last); cost > lapCheap {
		t.rest = min(cost*lapShare, lapRest)
	}
	t.since, t.took, t.last = time.Now(), 0, t.took
	t.back, t.end = outbox.DueCursor{}, outbox.DueCursor{}
}

// readVerbatim is Read on a verbatim table.
func (l *lease) readVerbatim(ctx context.Context, req outbox.ReadRequest) (outbox.Page, error) {
	var page outbox.Page
	err := again(func() error {
		start := time.Now()
		fresh := stretch{asked: l.rows(req)}
		late := stretch{asked: l.trail.lap(fresh.asked, start)}
		statement, args := l.verbatimQuery(req, fresh.asked, late.asked)
		rows, err := l.s.pool.Query(ctx, statement, args...)
		if err != nil {
			return err
		}
		var cut bool
		page, cut, err = l.verbatimPage(rows, req, &fresh, &late)
		if err == nil {
			l.trail.moved(fresh, late, cut, page.Now, time.Since(start))
		}
		return err
	})
	return page, l.s.explain("read", err)
}

// verbatimQuery chooses the short text unless messages are asked for by anything but
// their turn. Due messages have theirs in the fresh part.
func (l *lease) verbatimQuery(req outbox.ReadRequest, fresh, late int) (string, []any) {
	flying := []int64{}
	if late > 0 {
		flying = l.flight.sequences()
	}
	next, due := 0, max(req.Due, 0)
	if fresh > 0 {
		next, due = min(due, 1), 0
	}
	args := []any{
		l.s.mode, binaryResults, available(l.trail.at), fresh, l.info.SlotLo, l.info.SlotHi, l.trail.at.Sequence,
		l.info.Shard, l.owner, l.info.Epoch, available(l.trail.back), l.trail.back.Sequence,
		available(l.trail.end), l.trail.end.Sequence, late, flying, next,
	}
	if len(req.IDs) == 0 && due == 0 && req.Rewind == nil && req.Sweep == nil {
		return l.sql.ReadFresh, args
	}
	var lo, hi int64
	if len(req.IDs) > 0 {
		lo, hi = slices.Min(req.IDs), slices.Max(req.IDs)
	}
	var rewind outbox.Rewind
	if req.Rewind != nil {
		rewind = *req.Rewind
	}
	var sweep outbox.Range
	if req.Sweep != nil {
		sweep = *req.Sweep
	}
	everything := len(rewind.Keys)+len(rewind.Topics) == 0
	return l.sql.ReadAll, append(args, orEmpty(req.IDs), lo, hi, due, available(req.DueAfter), req.DueAfter.Sequence,
		rewind.After, rewind.To, max(rewind.Limit, 0), everything, orEmpty(rewind.Topics), sweep.From, sweep.To)
}

// available is the time of a place as a parameter. The start, and whatever lies
// before the times that Go and PostgreSQL share, is the beginning of time.
func available(at outbox.DueCursor) pgtype.Timestamptz {
	if at.AvailableAt.Year() <= 1 {
		return pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
	}
	return pgtype.Timestamptz{Time: at.AvailableAt, Valid: true}
}

// verbatimPage sorts the rows of a read into its parts and remembers their ids. cut
// says that the payload limit kept some out.
func (l *lease) verbatimPage(rows pgx.Rows, req outbox.ReadRequest, fresh, late *stretch) (page outbox.Page, cut bool, err error) {
	defer rows.Close()
	page.Last = req.After
	read := make([]known, 0, fresh.asked)
	bytes := 0
	for rows.Next() {
		values := rows.RawValues()
		part := integer(values[colPart])
		turn := part == partFresh || part == partLate
		switch {
		case part == partClock:
			page.Oldest = uint64(integer(values[colSequence]))
			page.Next, _ = strconv.ParseUint(string(values[colTenant]), 10, 64)
			page.Now = timestamp(values[colCreatedAt])
			if !boolean(values[colDue]) {
				return page, cut, outbox.ErrLeaseLost
			}
			continue
		case cut && turn:
			continue
		case part == partSweep:
			page.Strays = append(page.Strays, outbox.Stray{
				Sequence: int64(integer(values[colSequence])), Topic: string(values[colTopic]),
			})
			continue
		}
		r, err := l.seen.scan(values, rows.FieldDescriptions()[colPayload].DataTypeOID)
		if err != nil {
			return page, cut, err
		}
		r.EventVersion = l.versions.of(r.Topic)
		if turn {
			bytes += len(r.Payload)
			if cut = req.MaxBytes != 0 && bytes > req.MaxBytes && len(page.Fresh) > 0; cut {
				continue
			}
			page.Fresh = append(page.Fresh, r)
		} else {
			page.Others = append(page.Others, r)
		}
		switch part {
		case partFresh:
			fresh.add(r)
		case partLate:
			late.add(r)
		case partDue:
			page.Due++
			page.DueEnd = outbox.DueCursor{AvailableAt: r.AvailableAt, Sequence: r.Sequence}
		case partRewind:
			page.Rewound++
			page.RewindEnd = r.Sequence
		case partNext:
			continue
		}
		read = append(read, knownFrom(r, values[colID]))
	}
	if err := rows.Err(); err != nil {
		return page, cut, err
	}
	l.flight.learn(read)
	if n := len(page.Fresh); n > 0 {
		slices.SortFunc(page.Fresh, bySequence)
		page.Last = max(page.Last, page.Fresh[n-1].Sequence)
		l.mean = bytes / n
	}
	page.Others = unique(page.Fresh, page.Others)
	return page, cut, nil
}

// A versioner reads the versions of topics. The last one is remembered: most rows
// have the topic of the row before.
type versioner struct {
	topic   string
	version int
}

// of is the N of a topic that ends in .vN, or 0; the view says the same.
func (v *versioner) of(topic string) int {
	if topic != v.topic {
		v.topic, v.version = topic, version(topic)
	}
	return v.version
}

func version(topic string) int {
	i := strings.LastIndex(topic, ".v")
	if i < 0 {
		return 0
	}
	digits := topic[i+2:]
	if len(digits) == 0 || len(digits) > 9 || digits[0] == '0' || strings.Trim(digits, "0123456789") != "" {
		return 0
	}
	n, _ := strconv.Atoi(digits)
	return n
}
