package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

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
	partStray
)

// Read returns messages as of one snapshot: the parts are one statement.
func (l *lease) Read(ctx context.Context, req outbox.ReadRequest) (outbox.Page, error) {
	text, err := l.query(req)
	if err != nil {
		return outbox.Page{}, l.store.explain("read", err)
	}
	var page outbox.Page
	err = l.store.committed(ctx, func(ctx context.Context, conn *sql.Conn) (err error) {
		page, err = l.page(ctx, conn, text, req)
		return err
	})
	if err != nil {
		return outbox.Page{}, l.store.explain("read", err)
	}
	return page, nil
}

// committed runs fn, which is one statement, on a connection where it sees what is
// committed and nothing else, even if sessions there are READ UNCOMMITTED.
func (s *Store) committed(ctx context.Context, fn func(context.Context, *sql.Conn) error) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	// It holds for the next transaction only, which is the statement.
	if _, err := conn.ExecContext(ctx, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"); err != nil {
		return err
	}
	err = fn(ctx, conn)
	if errors.Is(err, errNoAutocommit) {
		discard(conn)
	}
	return err
}

// query is the statement of a read: the parts that are asked for.
func (l *lease) query(req outbox.ReadRequest) (string, error) {
	var b union
	s, lo, hi := &l.store.sql, l.info.SlotLo, l.info.SlotHi
	b.add(s.ReadClock, l.info.Shard, l.owner, l.info.Epoch)
	switch {
	case req.Limit <= 0:
	case req.All:
		b.add(s.ReadAll, req.After, lo, hi, l.rows(req))
	default:
		b.add(s.ReadFresh, req.After, lo, hi, l.rows(req))
	}
	if err := inSlices(req.IDs, func(ids []int64) error {
		b.add(s.ReadIDs, ids, lo, hi)
		return nil
	}); err != nil {
		return "", err
	}
	if req.Due > 0 {
		after := req.DueAfter
		if after.AvailableAt.IsZero() {
			after.AvailableAt = time.Unix(0, 0)
		}
		b.add(s.ReadDue, after.AvailableAt, after.Sequence, lo, hi, req.Due)
	}
	if r := req.Rewind; r != nil && r.Limit > 0 {
		b.add(s.ReadRewind, r.After, r.To, lo, hi, r.Limit, len(r.Keys)+len(r.Topics) == 0, r.Keys, r.Topics)
	}
	if r := req.Sweep; r != nil {
		b.add(s.ReadStrays, r.From, r.To, lo, hi, maxStrays)
	}
	return b.text()
}

// maxStrays is more than any sweep looks at.
const maxStrays = 10_000_000

// rows is how many rows of the fresh part to ask for. Payloads beyond MaxBytes would be
// sent only to be dropped, so the last page's size bounds the next.
func (l *lease) rows(req outbox.ReadRequest) int {
	if req.MaxBytes <= 0 || l.mean == 0 {
		return req.Limit
	}
	return min(req.Limit, req.MaxBytes/l.mean+1)
}

// A union is a statement in the making.
type union struct {
	parts []string
	err   error
}

func (u *union) add(statement string, args ...any) {
	text, err := bind(statement, args...)
	u.parts = append(u.parts, text)
	u.err = errors.Join(u.err, err)
}

func (u *union) text() (string, error) {
	return "(" + strings.Join(u.parts, ")\nUNION ALL\n(") + ")", u.err
}

// page reads the rows of a statement and sorts them into their parts.
func (l *lease) page(ctx context.Context, conn *sql.Conn, text string, req outbox.ReadRequest) (outbox.Page, error) {
	p := pager{lease: l, req: req, page: outbox.Page{Last: req.After, DueEnd: req.DueAfter}}
	if req.Rewind != nil {
		p.page.RewindEnd = req.Rewind.After
	}
	if err := eachText(ctx, conn, p.row, text); err != nil {
		return outbox.Page{}, err
	}
	if !p.held {
		return outbox.Page{}, outbox.ErrLeaseLost
	}
	if !slices.IsSortedFunc(p.page.Fresh, bySequence) {
		return outbox.Page{}, errors.New("fresh messages came out of order")
	}
	p.page.Others = unique(p.page.Fresh, p.page.Others)
	if len(p.page.Fresh) > 0 {
		l.mean = max(p.bytes/len(p.page.Fresh), 1)
	}
	return p.page, nil
}

// A pager fills one page.
type pager struct {
	lease *lease
	req   outbox.ReadRequest
	page  outbox.Page
	held  bool
	bytes int
	full  bool // the fresh part has reached MaxBytes
}

func (p *pager) row(rows *sql.Rows) error {
	s := &p.lease.seen
	if err := s.read(rows); err != nil {
		return err
	}
	switch s.part {
	case partClock:
		return p.clock(s)
	case partStray:
		p.page.Strays = append(p.page.Strays, outbox.Stray{
			Sequence: s.sequence, Key: string(s.text[textKey]), Topic: s.short(textTopic),
		})
	case partSeen:
		if !p.full {
			p.page.Seen, p.page.Last = append(p.page.Seen, s.sequence), s.sequence
		}
	case partFresh:
		p.fresh(s)
	case partDue:
		r := s.record()
		p.page.Due++
		p.page.DueEnd = outbox.DueCursor{AvailableAt: r.AvailableAt, Sequence: r.Sequence}
		p.page.Others = append(p.page.Others, r)
	case partRewind:
		p.page.Rewound++
		p.page.RewindEnd = s.sequence
		p.page.Others = append(p.page.Others, s.record())
	default:
		p.page.Others = append(p.page.Others, s.record())
	}
	return nil
}

// clock reads the row that says that the lease is held.
func (p *pager) clock(s *scanner) error {
	if s.sequence != p.lease.server {
		return p.lease.otherServer()
	}
	if s.due == 0 {
		return errNoAutocommit
	}
	p.held = true
	p.page.Now = moment(s.created)
	return nil
}

// errNoAutocommit: a read would leave a transaction open on the caller's connection, and
// the next one would see what this one saw.
var errNoAutocommit = outbox.ErrInvalidConfig.With("autocommit", "is off: remove autocommit=0 from the DSN")

func (p *pager) fresh(s *scanner) {
	p.bytes += len(s.payload)
	if p.full || p.req.MaxBytes > 0 && p.bytes > p.req.MaxBytes && len(p.page.Fresh) > 0 {
		p.bytes -= len(s.payload)
		p.full = true
		return
	}
	p.page.Fresh, p.page.Last = append(p.page.Fresh, s.record()), s.sequence
}

// unique drops from others what is in fresh, which is sorted, or occurs twice.
func unique(fresh, others []*outbox.Record) []*outbox.Record {
	if len(others) == 0 {
		return nil
	}
	seen := make(map[int64]bool, len(others))
	return slices.DeleteFunc(others, func(r *outbox.Record) bool {
		twice := seen[r.Sequence]
		seen[r.Sequence] = true
		_, inFresh := slices.BinarySearchFunc(fresh, r, bySequence)
		return twice || inFresh
	})
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
