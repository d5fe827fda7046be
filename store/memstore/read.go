package memstore

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/go-outbox/outbox"
)

// Read answers all parts of req from one state of the store.
func (l *lease) Read(ctx context.Context, req outbox.ReadRequest) (outbox.Page, error) {
	if err := l.enter(ctx); err != nil {
		return outbox.Page{}, fmt.Errorf("read: %w", err)
	}
	defer l.store.mu.Unlock()
	p := &reader{lease: l, seen: make(map[int64]bool)}
	p.page.Now = l.store.clock.now()
	p.page.Oldest, p.page.Next = l.store.transactions()
	if req.All {
		p.readAll(req)
	} else {
		p.readFresh(req)
	}
	p.readIDs(req.IDs)
	p.readDue(req.Due, req.DueAfter)
	p.readRewind(req.Rewind)
	p.readSweep(req.Sweep)
	return p.page, nil
}

// transactions returns the numbers of the oldest running and of the next one.
func (s *Store) transactions() (oldest, next uint64) {
	oldest = s.next
	for number := range s.running {
		oldest = min(oldest, number)
	}
	return oldest, s.next
}

// A reader fills one page.
type reader struct {
	lease *lease
	page  outbox.Page
	bytes int
	seen  map[int64]bool
}

func (p *reader) mine(r *row) bool { return r.open() && p.lease.row.owns(r) }

func (p *reader) readFresh(req outbox.ReadRequest) {
	p.page.Last = req.After
	for r := range p.lease.store.open.after(1, req.After) {
		if len(p.page.Fresh) >= req.Limit {
			return
		}
		if p.mine(r) && !p.addFresh(r, req.MaxBytes) {
			return
		}
	}
}

// readAll is readFresh over every visible row.
func (p *reader) readAll(req outbox.ReadRequest) {
	p.page.Last = req.After
	for r := range p.lease.store.all.after(1, req.After) {
		switch {
		case len(p.page.Fresh)+len(p.page.Seen) >= req.Limit:
			return
		case !p.mine(r):
			p.page.Seen = append(p.page.Seen, r.Sequence)
			p.page.Last = r.Sequence
		case !p.addFresh(r, req.MaxBytes):
			return
		}
	}
}

func (p *reader) addFresh(r *row, maxBytes int) bool {
	p.bytes += len(r.Payload)
	if maxBytes > 0 && p.bytes > maxBytes && len(p.page.Fresh) > 0 {
		return false
	}
	p.page.Fresh = append(p.page.Fresh, r.record(p.page.Now))
	p.page.Last = r.Sequence
	p.seen[r.Sequence] = true
	return true
}

// add adds a row of another part, unless the page has it.
func (p *reader) add(r *row) {
	if !p.seen[r.Sequence] {
		p.seen[r.Sequence] = true
		p.page.Others = append(p.page.Others, r.record(p.page.Now))
	}
}

func (p *reader) readIDs(ids []int64) {
	for _, id := range ids {
		if r := p.lease.store.open.find(id); r != nil && p.mine(r) {
			p.add(r)
		}
	}
}

func (p *reader) readDue(limit int, after outbox.DueCursor) {
	p.page.DueEnd = after
	for r := range p.lease.store.due.after(place(after.AvailableAt), after.Sequence) {
		if p.page.Due == limit || r.AvailableAt.After(p.page.Now) {
			return
		}
		if p.mine(r) {
			p.add(r)
			p.page.Due++
			p.page.DueEnd = outbox.DueCursor{AvailableAt: r.AvailableAt, Sequence: r.Sequence}
		}
	}
}

// place is where a time stands in an index; the zero time comes first.
func place(t time.Time) int64 {
	if t.IsZero() {
		return math.MinInt64
	}
	return t.UnixMicro()
}

func (p *reader) readRewind(w *outbox.Rewind) {
	if w == nil {
		return
	}
	all := len(w.Keys)+len(w.Topics) == 0
	p.page.RewindEnd = w.After
	for r := range p.lease.store.open.after(1, w.After) {
		if p.page.Rewound == w.Limit || r.Sequence > w.To {
			return
		}
		if p.mine(r) && (all || slices.Contains(w.Keys, r.Key) || slices.Contains(w.Topics, r.Topic)) {
			p.add(r)
			p.page.Rewound++
			p.page.RewindEnd = r.Sequence
		}
	}
}

func (p *reader) readSweep(w *outbox.Range) {
	if w == nil {
		return
	}
	for r := range p.lease.store.open.after(1, w.From) {
		if r.Sequence > w.To {
			return
		}
		if p.mine(r) && !r.waits() {
			p.page.Strays = append(p.page.Strays, outbox.Stray{Sequence: r.Sequence, Key: r.Key, Topic: r.Topic})
		}
	}
}
