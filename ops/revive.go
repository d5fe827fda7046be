package ops

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-outbox/outbox"
)

// An Outage is a time during which a relay did not deliver to a route, because its
// circuit was open. Outages of one route that overlap, in several relays, are one.
type Outage struct {
	Route string
	// Since is when it was noticed. Until is zero while it goes on.
	Since, Until time.Time
	// Error is the reason of the relay that noticed first.
	Error string
}

// Outages lists the recorded outages of a route, or of all when it is empty, newest
// first. It looks at the newest 1,000 records.
func Outages(ctx context.Context, in outbox.Inspector, route string) ([]Outage, error) {
	var spans []Outage
	entries, err := circuitEntries(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("list outages: %w", err)
	}
	type relay struct{ actor, route string }
	open := map[relay]int{}
	for _, e := range entries {
		if route != "" && e.Route != route {
			continue
		}
		r := relay{e.Actor, e.Route}
		i, isOpen := open[r]
		switch {
		case e.Verb == outbox.VerbCircuitOpen && !isOpen:
			open[r] = len(spans)
			spans = append(spans, Outage{Route: e.Route, Since: e.At, Error: e.Reason})
		case e.Verb == outbox.VerbCircuitClose && isOpen:
			spans[i].Until = e.At
			delete(open, r)
		}
	}
	return merge(spans), nil
}

// circuitEntries reads what relays have recorded about circuits, oldest first.
func circuitEntries(ctx context.Context, in outbox.Inspector) ([]outbox.AuditEntry, error) {
	var all []outbox.AuditEntry
	for _, verb := range []outbox.Verb{outbox.VerbCircuitOpen, outbox.VerbCircuitClose} {
		f := outbox.AuditFilter{Verb: verb, Limit: outbox.MaxPage}
		for range 1000 / outbox.MaxPage {
			page, err := in.Audit(ctx, f)
			if err != nil {
				return nil, err
			}
			all = append(all, page...)
			if len(page) < outbox.MaxPage {
				break
			}
			f.Before = page[len(page)-1].ID
		}
	}
	slices.SortFunc(all, func(a, b outbox.AuditEntry) int { return cmp.Compare(a.ID, b.ID) })
	return all, nil
}

// merge joins outages of a route that overlap.
func merge(spans []Outage) []Outage {
	slices.SortFunc(spans, func(a, b Outage) int { return cmp.Or(cmp.Compare(a.Route, b.Route), a.Since.Compare(b.Since)) })
	var merged []Outage
	for _, s := range spans {
		if n := len(merged); n > 0 && merged[n-1].Route == s.Route && (merged[n-1].Until.IsZero() || !s.Since.After(merged[n-1].Until)) {
			last := &merged[n-1]
			if !last.Until.IsZero() && (s.Until.IsZero() || s.Until.After(last.Until)) {
				last.Until = s.Until
			}
			continue
		}
		merged = append(merged, s)
	}
	slices.SortFunc(merged, func(a, b Outage) int { return b.Since.Compare(a.Since) })
	return merged
}

// Revive is the request for a job that replays what died in an outage. It begins lead
// before the outage was noticed, because the failures that open a circuit come first.
// Who and why, the expected count and the rate are for the caller to fill in.
func Revive(o Outage, lead time.Duration) outbox.JobRequest {
	return outbox.JobRequest{
		Verb: outbox.VerbReplay,
		Filter: outbox.Filter{
			Status: outbox.StatusDead, Route: o.Route, Since: o.Since.Add(-lead), Until: o.Until,
		},
	}
}
