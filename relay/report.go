package relay

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-outbox/outbox"
)

const (
	reportTimeout = 5 * time.Second
	// maxReports bounds what waits to be told to the store while it is down.
	maxReports = 100
)

// A report is something about a route that operators find in the store.
type report struct {
	entry outbox.AuditEntry
	pause bool
}

// report hands the turns of circuits and the routes that were stopped to the reporter.
func (s *shift) report(turns []turn, stops []stop) {
	if len(turns)+len(stops) == 0 {
		return
	}
	s.mu.Lock()
	for _, t := range turns {
		entry := outbox.AuditEntry{Actor: s.cfg.Instance, Verb: outbox.VerbCircuitClose, Route: t.route, Reason: "the destination answers again"}
		if t.open {
			entry.Verb, entry.Reason = outbox.VerbCircuitOpen, t.err
		}
		s.reports = append(s.reports, report{entry: entry})
	}
	for _, p := range stops {
		s.reports = append(s.reports, report{
			entry: outbox.AuditEntry{Actor: s.cfg.Instance, Verb: outbox.VerbPause, Route: p.route, Reason: p.reason}, pause: true,
		})
	}
	if over := len(s.reports) - maxReports; over > 0 {
		s.reports = slices.DeleteFunc(s.reports, func(r report) bool { // never a pause
			drop := over > 0 && !r.pause
			if drop {
				over--
			}
			return drop
		})
	}
	s.mu.Unlock()
	kick(s.reportKick)
}

// reportLoop writes reports to the store until ctx ends. They are for people: nothing
// waits for them.
func (s *shift) reportLoop(ctx context.Context) {
	retry := backoff{max: 10 * time.Second}
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.reportKick:
		}
		for {
			r, ok := s.firstReport()
			if !ok {
				break
			}
			if err := s.tell(ctx, r); err != nil {
				s.hooks.DatabaseError(s.table, "report", err)
				if !pause(ctx, retry.next()) {
					return
				}
				continue
			}
			retry.reset()
			s.mu.Lock()
			s.reports = s.reports[1:]
			s.mu.Unlock()
		}
	}
}

func (s *shift) firstReport() (report, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.reports) == 0 {
		return report{}, false
	}
	return s.reports[0], true
}

func (s *shift) tell(ctx context.Context, r report) error {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	if r.pause {
		if op, ok := s.store.(outbox.Operator); ok {
			_, err := op.Apply(ctx, outbox.Action{
				Verb: outbox.VerbPause, Actor: r.entry.Actor, Reason: r.entry.Reason, Route: r.entry.Route,
			})
			if errors.Is(err, outbox.ErrNotApplicable) {
				return nil // somebody has paused it already
			}
			return err
		}
		return nil
	}
	if recorder, ok := s.store.(outbox.Recorder); ok {
		return recorder.Record(ctx, r.entry)
	}
	return nil
}

// note is what operators see of this process.
func (r *Relay) note() outbox.RelayNote {
	r.mu.Lock()
	defer r.mu.Unlock()
	note := outbox.RelayNote{OnDead: r.cfg.OnDead.String()}
	seen, routes := map[string]bool{}, map[string]outbox.RouteNote{}
	for _, s := range r.shifts {
		s.mu.Lock()
		for _, c := range s.ledger.circuits {
			if c.open() && !seen[c.route] {
				seen[c.route] = true
				note.Circuits = append(note.Circuits, outbox.CircuitNote{Route: c.route, Since: c.since, Error: c.reason})
			}
			addNote(routes, c)
		}
		s.mu.Unlock()
	}
	slices.SortFunc(note.Circuits, func(a, b outbox.CircuitNote) int { return strings.Compare(a.Route, b.Route) })
	note.Routes = slices.SortedFunc(maps.Values(routes), func(a, b outbox.RouteNote) int { return strings.Compare(a.Route, b.Route) })
	note.Routes = note.Routes[:min(len(note.Routes), outbox.MaxRouteNotes)]
	return note
}

// addNote adds what a shard knows about a route to what the others know.
func addNote(routes map[string]outbox.RouteNote, c *circuit) {
	if c.note.Delivered+c.note.Failed == 0 {
		return
	}
	sum := routes[c.route]
	sum.Route = c.route
	sum.Delivered += c.note.Delivered
	sum.Failed += c.note.Failed
	sum.Latency = max(sum.Latency, c.note.Latency) // the worst of them is what matters
	if c.note.LastErrorAt.After(sum.LastErrorAt) {
		sum.LastError, sum.LastErrorAt = c.note.LastError, c.note.LastErrorAt
	}
	routes[c.route] = sum
}

// noteResult remembers how a dispatch went, for operators.
func (it *item) noteResult(err error, took time.Duration, now time.Time) {
	for c := range it.circuits() {
		result := err
		if it.legs != nil {
			result = legResult(err, c.route)
		}
		n := &c.note
		if n.Latency += (took - n.Latency) / 8; n.Delivered+n.Failed == 0 {
			n.Latency = took
		}
		if result == nil {
			n.Delivered++
			continue
		}
		n.Failed++
		n.LastError, n.LastErrorAt = it.text, now
	}
}
