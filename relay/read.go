package relay

import (
	"context"
	"sync"
	"time"

	"github.com/go-outbox/outbox"
)

// readLoop looks at the table whenever there may be something to see and room for
// it.
func (s *shift) readLoop(ctx context.Context) error {
	retry := backoff{max: s.cfg.Poll}
	for {
		req, wait := s.nextRead()
		if wait > 0 {
			if !s.awaitKick(ctx, wait) {
				return nil
			}
			continue
		}
		if err := s.readOnce(ctx, req); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			s.log.databaseDown(ctx, "read", err)
			s.hooks.DatabaseError(s.table, "read", err)
			if !pause(ctx, retry.next()) {
				return nil
			}
			continue
		}
		retry.reset()
		s.log.databaseUp(ctx)
		if s.once && s.drained() {
			return errDrained
		}
	}
}

func (s *shift) nextRead() (outbox.ReadRequest, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.halted() {
		return outbox.ReadRequest{}, never
	}
	return s.ledger.nextRead(time.Now())
}

func (l *ledger) nextRead(now time.Time) (outbox.ReadRequest, time.Duration) {
	probe := l.probeAt(now)
	crowded := l.makeRoom(now)
	req, wait := l.scan.next(now, l.room(), l.cfg, l.bytes)
	if wait > 0 {
		wait = min(wait, crowded)
		if !probe.IsZero() {
			wait = max(min(wait, probe.Sub(now)), time.Nanosecond)
		}
	}
	return req, wait
}

// follow asks for what comes after a page that is not taken in yet. That is only
// right while nothing but fresh messages is to be read: a gap must be probed in the
// snapshot of what is read behind it.
func (l *ledger) follow(req outbox.ReadRequest, page outbox.Page, now time.Time) (outbox.ReadRequest, bool) {
	rows := len(page.Fresh) + len(page.Seen)
	gapless := l.scan.gaps.off || l.scan.gaps.count == 0 && page.Last-req.After == int64(rows)
	if req.Limit == 0 || rows < req.Limit || !gapless || req.Rewind != nil || !l.scan.plain(now) {
		return outbox.ReadRequest{}, false
	}
	bytes := l.bytes
	for _, rec := range page.Fresh {
		bytes += len(rec.Payload)
	}
	room := l.room() - len(page.Fresh)
	if room < l.roomToRead() || bytes >= l.cfg.MaxBytes {
		return outbox.ReadRequest{}, false
	}
	next := outbox.ReadRequest{
		After: page.Last, Limit: min(room, max(l.cfg.Batch, l.cfg.Window/2)), MaxBytes: l.cfg.MaxBytes - bytes,
		All: l.scan.all || page.Last < l.scan.top,
	}
	l.scan.begin()
	return next, true
}

func (s *shift) awaitKick(ctx context.Context, wait time.Duration) bool {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-s.readKick:
	case <-t.C:
	}
	return true
}

func (s *shift) readOnce(ctx context.Context, req outbox.ReadRequest) error {
	if err := s.refresh(ctx); err != nil {
		s.abandonRead()
		return err
	}
	page, took, err := s.read(ctx, req)
	for err == nil {
		next, more := s.follow(req, page)
		if !more {
			s.accept(req, page, took)
			return nil
		}
		// The database makes the next page while this one is taken in.
		var taking sync.WaitGroup
		taking.Go(func() { s.accept(req, page, took) })
		following, tookNext, readErr := s.read(ctx, next)
		taking.Wait()
		req, page, took, err = next, following, tookNext, readErr
	}
	return err
}

func (s *shift) read(ctx context.Context, req outbox.ReadRequest) (outbox.Page, time.Duration, error) {
	start := time.Now()
	page, err := s.lease.Read(ctx, req)
	if err != nil {
		s.abandonRead()
	}
	return page, time.Since(start), err
}

func (s *shift) accept(req outbox.ReadRequest, page outbox.Page, took time.Duration) {
	s.mu.Lock()
	known := len(s.ledger.circuits)
	n := s.ledger.accept(req, page, time.Now())
	grown := len(s.ledger.circuits) > known
	s.mu.Unlock()
	if grown {
		s.hire()
	}
	if n > 0 {
		s.kickWriter()
		s.hooks.Read(s.table, n, took)
	}
}

func (s *shift) follow(req outbox.ReadRequest, page outbox.Page) (outbox.ReadRequest, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paused || s.nudged || s.once { // once has to look everywhere before it is done
		return outbox.ReadRequest{}, false
	}
	return s.ledger.follow(req, page, time.Now())
}

// abandonRead forgets a read that brought no page: nothing has moved, and the next
// one asks for the same.
func (s *shift) abandonRead() {
	s.mu.Lock()
	s.ledger.scan.reading--
	s.ledger.scan.kicked = true
	s.mu.Unlock()
}

// refresh learns again which keys are held, after an operator has changed rows.
func (s *shift) refresh(ctx context.Context) error {
	s.mu.Lock()
	nudged := s.nudged
	s.nudged = false
	s.mu.Unlock()
	if !nudged {
		return nil
	}
	heads, err := s.readHeads(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.nudged = true
		return err
	}
	s.ledger.reconcile(heads)
	for _, h := range heads {
		// One that is in our hands, or was settled since we asked, is no news: a
		// hold on it would never be lifted.
		if !s.ledger.owns(h.Sequence, s.ledger.scan.gen) {
			s.hold(h)
		}
	}
	return nil
}

// reconcile releases the keys whose head is no longer one in the table, unless its
// outcome is ours and still on its way there.
func (l *ledger) reconcile(heads []outbox.Head) {
	held := make(map[int64]bool, len(heads))
	for _, h := range heads {
		held[h.Sequence] = true
	}
	for key, h := range l.holds {
		if !held[h.head] && !l.owns(h.head, l.scan.gen) {
			l.releaseKey(key, h.head)
		}
	}
	l.scan.dueNext = time.Time{}
}

// drained reports whether nothing is due and nothing is in flight.
func (s *shift) drained() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.ledger
	return s.paused || (l.idle() && len(l.suspects) == 0 && l.scan.quiet)
}
