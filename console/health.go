package console

import (
	"errors"
	"slices"
	"time"

	"github.com/go-outbox/outbox"
)

// Severities of a problem, worst first.
const (
	severityBad  = "bad"
	severityWarn = "warn"
	severityOK   = "ok"
)

// A problem is one thing that is wrong, and what to open about it.
type problem struct {
	Severity string
	Code     string
	Table    string
	Text     string
	Detail   string
	Link     string
	Open     string // what the link says
}

// A banner says whether anything is wrong.
type banner struct {
	Severity string
	Problems []problem // worst first
}

// First is the worst problem.
func (b *banner) First() problem { return b.Problems[0] }

// Rest are the others.
func (b *banner) Rest() []problem { return b.Problems[1:] }

// newBanner judges all tables.
func (v *view) newBanner(looks []snapshot) *banner {
	b := &banner{Severity: severityOK}
	var warnings []problem
	for i, s := range looks {
		for _, p := range v.judge(v.c.cfg.Stores[i].Name, s) {
			if p.Severity == severityBad {
				b.Problems = append(b.Problems, p)
			} else {
				warnings = append(warnings, p)
			}
		}
	}
	switch {
	case len(b.Problems) > 0:
		b.Severity = severityBad
	case len(warnings) > 0:
		b.Severity = severityWarn
	}
	b.Problems = append(b.Problems, warnings...)
	return b
}

// judge lists what is wrong with one table: first what stops delivery, then what it
// leads to.
func (v *view) judge(table string, s snapshot) []problem {
	var found []problem
	add := func(severity, code, text, detail, link, open string) {
		found = append(found, problem{severity, code, table, text, detail, link, open})
	}
	if s.err != nil {
		text := v.T("The table cannot be read: the database does not answer.")
		if errors.Is(s.err, outbox.ErrSchema) {
			text = v.T("The table cannot be read: its schema is missing or of another version.")
		}
		add(severityBad, "unreachable", text, "", v.Link("/settings", "table", table), v.T("Settings"))
		return found
	}
	v.judgeDelivery(table, s.stats, add)
	v.judgeDepth(table, s.stats, add)
	return found
}

type addProblem func(severity, code, text, detail, link, open string)

func (v *view) judgeDelivery(table string, s outbox.Stats, add addProblem) {
	relays := v.Link("/relays", "table", table)
	routes := v.Link("/routes", "table", table)
	for _, p := range s.Paused {
		if p.Route == "" {
			add(severityWarn, "paused", v.T("Delivery is paused by %s since %s.", plain(p.By), v.since(p.At)), plain(p.Reason), routes, v.T("Routes"))
		} else {
			add(severityWarn, "route_paused", v.T("Route %s is paused by %s since %s.", plain(p.Route), plain(p.By), v.since(p.At)), plain(p.Reason), routes, v.T("Routes"))
		}
	}
	free, held := 0, 0
	for _, l := range s.Leases {
		if l.Held {
			held++
		} else {
			free++
		}
	}
	switch {
	case held == 0 && s.Pending > 0:
		add(severityBad, "no_relay", v.T("No relay is running: %s messages wait and nobody delivers them.", v.Count(s.Pending, s.Capped)), "", relays, v.T("Relays"))
	case held == 0:
		add(severityWarn, "no_relay", v.T("No relay is running. Nothing waits yet."), "", relays, v.T("Relays"))
	case free > 0:
		add(severityBad, "unowned", v.T("%d of %d shards have no relay.", free, free+held), "", relays, v.T("Relays"))
	}
	for _, c := range openCircuits(s) {
		add(severityBad, "circuit", v.T("Destination %s is down since %s.", plain(c.Route), v.since(c.Since)), plain(c.Error), routes, v.T("Routes"))
	}
}

func (v *view) judgeDepth(table string, s outbox.Stats, add addProblem) {
	h := v.c.cfg.Health
	waiting := v.Link("/messages", "table", table, "status", "pending", "order", "oldest")
	switch {
	case s.OldestPending > h.OldestBad:
		add(severityBad, "oldest", v.T("The oldest message has been waiting for %s.", v.Age(s.OldestPending)), "", waiting, v.T("Messages"))
	case s.OldestPending > h.OldestWarn:
		add(severityWarn, "oldest", v.T("The oldest message has been waiting for %s.", v.Age(s.OldestPending)), "", waiting, v.T("Messages"))
	}
	dead := v.Link("/dead", "table", table)
	switch {
	case s.Dead > h.Dead:
		add(severityBad, "dead", v.T("%s messages are dead and wait for a decision.", v.Count(s.Dead, s.Capped)), "", dead, v.T("Dead letters"))
	case s.Dead > 0:
		add(severityWarn, "dead", v.T("%s messages are dead and wait for a decision.", v.Count(s.Dead, s.Capped)), "", dead, v.T("Dead letters"))
	}
	if s.Retrying > h.Retrying {
		add(severityWarn, "retrying", v.T("%s messages have failed and are being retried.", v.Count(s.Retrying, s.Capped)), "",
			v.Link("/messages", "table", table, "status", "retrying"), v.T("Messages"))
	}
	if s.Pending > h.Backlog {
		add(severityWarn, "backlog", v.T("%s messages are waiting.", v.Count(s.Pending, s.Capped)), "", waiting, v.T("Messages"))
	}
}

// A circuit is a destination that relays do not deliver to just now.
type circuit struct {
	outbox.CircuitNote
	Instances []string
}

// openCircuits merges what the live relays say.
func openCircuits(s outbox.Stats) []circuit {
	var open []circuit
	for _, r := range s.Relays {
		if !r.Live {
			continue
		}
		for _, note := range r.Note.Circuits {
			i := indexCircuit(open, note.Route)
			if i < 0 {
				open = append(open, circuit{CircuitNote: note, Instances: []string{r.Instance}})
				continue
			}
			open[i].Instances = append(open[i].Instances, r.Instance)
			if note.Since.Before(open[i].Since) {
				open[i].Since = note.Since
			}
		}
	}
	return open
}

// routeNotes adds up what the live relays know about their routes.
func routeNotes(s outbox.Stats) []outbox.RouteNote {
	var notes []outbox.RouteNote
	for _, r := range s.Relays {
		if !r.Live {
			continue
		}
		for _, n := range r.Note.Routes {
			i := slices.IndexFunc(notes, func(other outbox.RouteNote) bool { return other.Route == n.Route })
			if i < 0 {
				notes = append(notes, n)
				continue
			}
			sum := &notes[i]
			sum.Delivered, sum.Failed, sum.Latency = sum.Delivered+n.Delivered, sum.Failed+n.Failed, max(sum.Latency, n.Latency)
			if n.LastErrorAt.After(sum.LastErrorAt) {
				sum.LastError, sum.LastErrorAt = n.LastError, n.LastErrorAt
			}
		}
	}
	return notes
}

func indexCircuit(open []circuit, route string) int {
	for i := range open {
		if open[i].Route == route {
			return i
		}
	}
	return -1
}

// Alarm is the banner in short, for the navigation: pages other than the overview show
// that something is wrong as well, from the last look.
func (v *view) Alarm() *banner {
	if v.Who == nil {
		return nil
	}
	if v.banner == nil {
		looks := make([]snapshot, len(v.c.samples.tables))
		for i, w := range v.c.samples.tables {
			w.mu.Lock()
			looks[i] = w.last
			w.mu.Unlock()
			if looks[i].stats.Now.IsZero() && looks[i].err == nil {
				return nil // not looked at yet
			}
		}
		v.banner = v.newBanner(looks)
	}
	return v.banner
}

// recently is how new the last death of a group is for it to count as growing.
const recently = 10 * time.Minute

// since is a time of today without its date.
func (v *view) since(t time.Time) string {
	if at := t.In(v.zone); v.Now.Sub(t) < 20*time.Hour {
		return at.Format("15:04:05")
	}
	return v.Time(t)
}
