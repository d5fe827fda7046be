package console

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-outbox/outbox"
)

const (
	// history is how many samples of a table are kept: ten minutes at the default
	// interval.
	history = 300
	// freshEnough is how old a sample may be for a page, so that viewers cannot
	// load the database. A sample that took long is used for longer: looking takes
	// at most a tenth of the time, whatever the backlog and however many look.
	freshEnough = time.Second
	restFactor  = 10
	maxRest     = 30 * time.Second
	// groupsFor is how long the groups of dead messages are used.
	groupsFor = 5 * time.Second
	maxGroups = 32 // tenants whose groups are kept
	// rateWindow is what rates are averaged over.
	rateWindow = time.Minute
	// sampleTimeout bounds one look at a table: one slow database must not hide the
	// others.
	sampleTimeout = 5 * time.Second
)

// A sampler looks at the tables while somebody watches. It has no goroutine of its own:
// whoever wants to see does the looking, one at a time for each table.
type sampler struct {
	every  time.Duration
	tables []*watched
}

type watched struct {
	source Source
	turn   chan struct{} // held by the one who looks

	mu     sync.Mutex
	last   snapshot
	points []point // oldest first, at most history
	groups map[string]grouped
}

// grouped are the groups of a tenant's dead messages, or of all.
type grouped struct {
	at   time.Time
	took time.Duration
	outbox.Groups
}

// A snapshot is the last look at a table.
type snapshot struct {
	at     time.Time
	took   time.Duration
	stats  outbox.Stats
	newest int64 // the highest sequence
	err    error
}

// now is the database's clock: what it said, and the time since.
func (s snapshot) now() time.Time { return s.stats.Now.Add(time.Since(s.at)) }

// A point is what charts keep of a snapshot.
type point struct {
	at                      time.Time
	pending, retrying, dead int
	oldest                  time.Duration
	newest                  int64
	capped                  bool
}

func newSampler(sources []Source, every time.Duration) *sampler {
	s := &sampler{every: every}
	for _, source := range sources {
		s.tables = append(s.tables, &watched{source: source, turn: make(chan struct{}, 1), groups: map[string]grouped{}})
	}
	return s
}

// look returns a snapshot of a table that is fresh enough.
func (s *sampler) look(ctx context.Context, name string) snapshot {
	return s.table(name).look(ctx, s.every)
}

// table finds a table by a name that the configuration has.
func (s *sampler) table(name string) *watched {
	i := slices.IndexFunc(s.tables, func(w *watched) bool { return w.source.Name == name })
	return s.tables[i]
}

// lookAll looks at every table.
func (s *sampler) lookAll(ctx context.Context) {
	for _, w := range s.tables {
		w.look(ctx, s.every)
	}
}

// deadGroups are the groups of dead messages of a tenant, or of all, from a moment ago.
func (s *sampler) deadGroups(ctx context.Context, name, tenant string) (outbox.Groups, error) {
	w := s.table(name)
	w.mu.Lock()
	g, ok := w.groups[tenant]
	w.mu.Unlock()
	if ok && time.Since(g.at) < rest(groupsFor, g.took) {
		return g.Groups, nil
	}
	began := time.Now()
	found, err := w.source.Inspector.Groups(ctx, outbox.Filter{Status: outbox.StatusDead, TenantID: tenant})
	if err != nil {
		return outbox.Groups{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.groups) >= maxGroups {
		clear(w.groups)
	}
	w.groups[tenant] = grouped{at: time.Now(), took: time.Since(began), Groups: found}
	return found, nil
}

// forget makes the next look a real one: something was changed.
func (s *sampler) forget(name string) {
	w := s.table(name)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last.at = time.Time{}
	clear(w.groups)
}

func (s *sampler) points(name string) []point {
	w := s.table(name)
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.points)
}

func (w *watched) look(ctx context.Context, every time.Duration) snapshot {
	if last, ok := w.fresh(); ok {
		return last
	}
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return snapshot{err: context.Cause(ctx)}
	}
	if last, ok := w.fresh(); ok { // somebody else has just looked
		return last
	}
	began := time.Now()
	next := w.read(ctx)
	next.took = time.Since(began)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = next
	if next.err == nil && (len(w.points) == 0 || next.at.Sub(w.points[len(w.points)-1].at) >= every/2) {
		w.points = append(w.points, newPoint(next))
		w.points = w.points[max(0, len(w.points)-history):]
	}
	return next
}

func (w *watched) fresh() (snapshot, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last, !w.last.at.IsZero() && time.Since(w.last.at) < rest(freshEnough, w.last.took)
}

// rest is how long what took so long is good for.
func rest(least, took time.Duration) time.Duration { return max(least, min(restFactor*took, maxRest)) }

func (w *watched) read(ctx context.Context) snapshot {
	ctx, cancel := context.WithTimeoutCause(ctx, sampleTimeout, errSlow)
	defer cancel()
	s := snapshot{at: time.Now()}
	if s.stats, s.err = w.source.Inspector.Stats(ctx); s.err != nil {
		return s
	}
	newest, err := w.source.Inspector.List(ctx, outbox.Filter{Limit: 1})
	if err != nil {
		s.err = err
		return s
	}
	if len(newest.Records) > 0 {
		s.newest = newest.Records[0].Sequence
	}
	return s
}

func newPoint(s snapshot) point {
	return point{
		at: s.at, pending: s.stats.Pending, retrying: s.stats.Retrying, dead: s.stats.Dead,
		oldest: s.stats.OldestPending, newest: s.newest, capped: s.stats.Capped,
	}
}

// rates are per second, over the last minute that was watched.
type rates struct {
	Known   bool
	In, Out float64
	// Dying is how many messages died, per minute.
	Dying float64
	// Failing is the share of the backlog that has failed at least once, in percent.
	Failing float64
}

// newRates derives rates from what a store counts: numbers given out come in, and what
// came in and is neither waiting nor dead went out. Sequences of rolled back
// transactions count as in and out, so both are upper bounds.
func newRates(points []point) rates {
	if len(points) < 2 {
		return rates{}
	}
	last := points[len(points)-1]
	first := last
	for i := len(points) - 2; i >= 0 && last.at.Sub(points[i].at) <= rateWindow; i-- {
		first = points[i]
	}
	took := last.at.Sub(first.at).Seconds()
	if took <= 0 || last.capped || first.capped {
		return rates{}
	}
	in := float64(last.newest - first.newest)
	died := max(0, float64(last.dead-first.dead))
	out := in - float64(last.pending-first.pending) - float64(last.dead-first.dead)
	r := rates{Known: true, In: max(0, in/took), Out: max(0, out/took), Dying: died / took * 60}
	if last.pending > 0 {
		r.Failing = 100 * float64(last.retrying) / float64(last.pending)
	}
	return r
}
