package relay

import (
	"maps"
	"slices"
	"time"

	"github.com/go-outbox/outbox"
)

const (
	minPoll    = 2 * time.Millisecond
	dueEvery   = 50 * time.Millisecond // between two looks for due retries while busy
	dueLimit   = 100
	sweepEvery = 2 * time.Second
	sweepSlice = 10_000
)

// A scan is the reading position of a shard. Fresh messages are read above pos;
// what committed late below it comes in through the gaps, what is due again through
// the due cursor, what was parked through the rewind, and whatever all of these
// missed through the sweep: it walks the whole table by state and is the guarantee.
// The rest is the fast path.
type scan struct {
	pos  int64
	top  int64 // up to here missing numbers are mostly settled messages
	all  bool  // other shards' messages look like gaps
	gaps gaps

	// gen numbers the reads; reading counts those whose page was not taken in yet.
	gen     uint64
	reading int

	pollAt  time.Time
	foundAt time.Time
	kicked  bool
	// quiet: the last read looked everywhere and brought nothing. eager: look for
	// due messages with every read.
	quiet bool
	eager bool
	more  bool // the last page was full: there is a backlog

	dueAt     time.Time // the soonest message known to become due; zero is none
	dueNext   time.Time // when to look again anyway
	dueCursor outbox.DueCursor

	rewind *rewind
	// asked is what the outstanding read goes back for.
	asked *rewind

	sweepAt  time.Time
	sweepPos int64
}

// A rewind goes back for parked messages. Fresh messages of its keys and routes wait
// until it has caught up with them.
type rewind struct {
	after  int64
	keys   map[laneKey]struct{}
	routes map[*circuit]map[string]struct{} // and the topics of what was parked there
	// stale, of an outstanding read: something was added to the rewind since, so
	// the read's end is not the rewind's.
	stale bool
}

func (r *rewind) copy() *rewind {
	routes := make(map[*circuit]map[string]struct{}, len(r.routes))
	for c, topics := range r.routes {
		routes[c] = maps.Clone(topics)
	}
	return &rewind{after: r.after, keys: maps.Clone(r.keys), routes: routes}
}

func (r *rewind) topics() []string {
	all := map[string]struct{}{}
	for _, topics := range r.routes {
		maps.Copy(all, topics)
	}
	return slices.Collect(maps.Keys(all))
}

func (r *rewind) plainKeys() []string {
	all := make(map[string]struct{}, len(r.keys))
	for k := range r.keys {
		all[k.key] = struct{}{}
	}
	return slices.Collect(maps.Keys(all))
}

// hasKey and hasRoute report what the rewind goes back for; nil goes back for nothing.
func (r *rewind) hasKey(key laneKey) bool {
	if r == nil || key == noLane {
		return false
	}
	_, ok := r.keys[key]
	return ok
}

func (r *rewind) hasRoute(c *circuit) bool { return r != nil && r.routes[c] != nil }

func newScan(info outbox.LeaseInfo) scan {
	return scan{
		pos: info.Low, top: info.Top, all: info.Shards > 1,
		gaps: gaps{off: info.Gapless},
	}
}

// next builds the next read, or says how long to wait before asking again.
func (s *scan) next(now time.Time, room int, cfg *Config, bytes int) (outbox.ReadRequest, time.Duration) {
	s.asked = nil
	if s.sweepDue(now) {
		return s.sweepRequest(now), 0
	}
	if wait := s.wait(now); wait > 0 {
		return outbox.ReadRequest{}, wait
	}
	if room < min(cfg.Batch, (cfg.Window+1)/2) { // as roomToRead
		return outbox.ReadRequest{}, never // until something is settled
	}
	s.kicked = false
	// A statement costs the database something whatever it returns: read several
	// batches at once while there is a backlog. The first page shows whether there is,
	// and its messages go out while the next is read.
	limit := min(room, cfg.Batch)
	if s.more {
		limit = min(room, max(cfg.Batch, cfg.Window/2))
	}
	req := outbox.ReadRequest{After: s.pos, Limit: limit, MaxBytes: cfg.MaxBytes - bytes, All: s.all || s.pos < s.top}
	req.IDs = s.gaps.ids()
	if s.eager || !now.Before(s.dueNext) || (!s.dueAt.IsZero() && !now.Before(s.dueAt)) {
		req.Due, req.DueAfter = dueLimit, s.dueCursor
	}
	if s.rewind != nil {
		s.asked = s.rewind.copy()
		req.Rewind = &outbox.Rewind{
			After: s.rewind.after, To: s.pos, Limit: limit,
			Keys: s.rewind.plainKeys(), Topics: s.rewind.topics(),
		}
	}
	s.begin()
	return req, 0
}

func (s *scan) begin() {
	s.gen++
	s.reading++
}

// plain reports whether there is nothing to look for but fresh messages.
func (s *scan) plain(now time.Time) bool {
	return s.rewind == nil && !s.eager && now.Before(s.dueNext) && now.Before(s.sweepAt) && (s.dueAt.IsZero() || now.Before(s.dueAt))
}

// wait is how long nothing needs to be read.
func (s *scan) wait(now time.Time) time.Duration {
	if s.kicked || s.rewind != nil {
		return 0
	}
	wait := s.pollAt.Sub(now)
	if !s.dueAt.IsZero() {
		wait = min(wait, s.dueAt.Sub(now))
	}
	return max(min(wait, s.sweepAt.Sub(now)), 0)
}

// arrived moves the positions past a page.
func (s *scan) arrived(req outbox.ReadRequest, page outbox.Page, now time.Time, cfg *Config) {
	if req.Limit > 0 {
		s.gaps.observe(s.pos, page, now)
		s.pos = max(s.pos, page.Last)
	}
	if len(req.IDs) > 0 { // a gap is only given up by a read that has just looked into it
		s.gaps.expire(page, now)
	}
	if req.Due > 0 {
		s.dueNext = now.Add(dueEvery)
		s.dueAt = time.Time{}
		if s.dueCursor = page.DueEnd; page.Due < req.Due {
			s.dueCursor = outbox.DueCursor{}
		} else {
			s.dueNext = now // there is more: go on from the cursor
		}
	}
	if req.Sweep != nil {
		if s.sweepPos = req.Sweep.To; s.sweepPos >= s.pos {
			s.sweepPos = 0
		}
		return
	}
	if s.more = len(page.Fresh)+len(page.Seen) >= req.Limit; s.more {
		s.pollAt = now
		return
	}
	if s.foundAt.IsZero() {
		s.foundAt = now // a relay that has just begun knows of no silence
	}
	idle := now.Sub(s.foundAt)
	// The longer nothing came, the longer the wait: a message waits for a small
	// share of the silence before it, and an idle table costs almost nothing.
	s.pollAt = now.Add(min(max(idle/4, minPoll), cfg.Poll))
}

// found notes what a read brought.
func (s *scan) found(n int, req outbox.ReadRequest, page outbox.Page, now time.Time) {
	if n > 0 {
		s.foundAt = now
		s.pollAt = minTime(s.pollAt, now.Add(minPoll))
	}
	if req.Sweep == nil {
		s.quiet = n == 0 && s.rewind == nil && len(page.Fresh)+len(page.Seen) < req.Limit && page.Due < req.Due
	}
}

// dueIn notes that a message becomes due after d.
func (s *scan) dueIn(d time.Duration, now time.Time) {
	at := now.Add(max(d, 0))
	if s.dueAt.IsZero() || at.Before(s.dueAt) {
		s.dueAt = at
	}
}

func (s *scan) dueAfter(o outbox.Outcome, now time.Time) {
	if o.Kind == outbox.Retry || o.Kind == outbox.Deferred {
		s.dueIn(o.Delay, now)
	}
}

// rewindKey sends the scan back for the messages of a key above seq.
func (s *scan) rewindKey(key laneKey, seq int64) {
	s.openRewind(seq)
	s.rewind.keys[key] = struct{}{}
	if s.asked != nil {
		delete(s.asked.keys, key)
	}
}

// rewindRoute sends the scan back for what is parked on a route.
func (s *scan) rewindRoute(c *circuit) {
	s.openRewind(c.parked - 1)
	for topic := range c.topics {
		s.rewind.add(c, topic)
	}
	if s.asked != nil {
		delete(s.asked.routes, c)
	}
}

func (r *rewind) add(c *circuit, topic string) {
	if r.routes[c] == nil {
		r.routes[c] = map[string]struct{}{}
	}
	r.routes[c][topic] = struct{}{}
}

func (s *scan) openRewind(after int64) {
	if s.rewind == nil {
		s.rewind = &rewind{after: after, keys: map[laneKey]struct{}{}, routes: map[*circuit]map[string]struct{}{}}
	}
	s.rewind.after = min(s.rewind.after, after)
	if s.asked != nil {
		s.asked.stale = true
	}
}

// beyondRewind reports whether a message must wait for the rewind to reach it:
// earlier messages of its key may not have been read yet. A message whose topic was
// not parked joins those that the rewind goes back for, or nobody would find it again.
func (s *scan) beyondRewind(rec *outbox.Record, key laneKey, routes []*circuit, req outbox.ReadRequest, page outbox.Page) bool {
	if s.rewind == nil || rec.Sequence <= s.rewind.after {
		return false
	}
	back, asked := s.rewind.hasKey(key), true
	if back {
		asked = s.asked.hasKey(key)
	}
	for _, c := range routes {
		if s.rewind.hasRoute(c) {
			back, asked = true, asked && s.asked.hasRoute(c)
		}
	}
	if !back || asked && (rewound(req, page) || rec.Sequence <= page.RewindEnd) {
		return false
	}
	for _, c := range routes {
		if s.rewind.hasRoute(c) {
			s.rewind.add(c, rec.Topic)
		}
	}
	return true
}

// rewound reports whether the page's rewind part reached its end.
func rewound(req outbox.ReadRequest, page outbox.Page) bool {
	return page.Rewound < req.Rewind.Limit
}

// finishRewind moves or closes the rewind after its part has been taken in. What
// was added to it meanwhile stays, and is read from its own beginning.
func (s *scan) finishRewind(req outbox.ReadRequest, page outbox.Page) {
	if req.Rewind == nil || s.rewind == nil {
		return
	}
	if !rewound(req, page) {
		if !s.asked.stale {
			s.rewind.after = page.RewindEnd
		}
		return
	}
	for key := range s.asked.keys {
		delete(s.rewind.keys, key)
	}
	for c, topics := range s.asked.routes {
		maps.DeleteFunc(s.rewind.routes[c], func(topic string, _ struct{}) bool {
			_, read := topics[topic]
			return read
		})
		if len(s.rewind.routes[c]) == 0 {
			delete(s.rewind.routes, c)
		}
	}
	s.closeRewind()
}

// cancelRewind stops going back for a route: its probe has been found, and the
// others wait for the answer.
func (s *scan) cancelRewind(c *circuit) {
	if s.rewind == nil {
		return
	}
	delete(s.rewind.routes, c)
	s.closeRewind()
}

func (s *scan) closeRewind() {
	if len(s.rewind.keys)+len(s.rewind.routes) == 0 {
		s.rewind = nil
	}
}

func (s *scan) sweepDue(now time.Time) bool {
	if s.sweepAt.IsZero() {
		s.sweepAt = now.Add(sweepEvery)
	}
	return !now.Before(s.sweepAt)
}

func (s *scan) sweepRequest(now time.Time) outbox.ReadRequest {
	s.sweepAt = now.Add(sweepEvery)
	from := s.sweepPos
	s.begin()
	return outbox.ReadRequest{Sweep: &outbox.Range{From: from, To: min(from+sweepSlice, max(s.pos, from))}}
}

// low is the lowest position that reading must not forget.
func (s *scan) low() int64 {
	low := min(s.pos, s.gaps.low(s.pos))
	if s.rewind != nil {
		low = min(low, s.rewind.after)
	}
	return low
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
