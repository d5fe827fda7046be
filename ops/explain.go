package ops

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

// Cause is why a message has not been delivered, or that it has. The values are
// stable.
type Cause string

// The causes. An explanation has exactly one.
const (
	NotFound    Cause = "not_found"
	Published   Cause = "published"
	Discarded   Cause = "discarded"
	Dead        Cause = "dead"
	NoRoute     Cause = "no_route"
	Paused      Cause = "paused"
	NoRelay     Cause = "no_relay"
	InFlight    Cause = "in_flight"
	Held        Cause = "held"
	CircuitOpen Cause = "circuit_open"
	Scheduled   Cause = "scheduled"
	Backoff     Cause = "backoff"
	Pending     Cause = "pending"
)

// An Explanation says why a message has not been delivered.
type Explanation struct {
	Cause Cause
	// Text is one sentence for people.
	Text string
	// Fix is what a person can do about it. Empty means: nothing, or wait.
	Fix string
	// Until is when it ends by itself, if that is known.
	Until time.Time
	// Route is the one that is paused or whose circuit is open.
	Route string
	// Behind is the message that holds this one, and why that one waits.
	Behind *Behind
}

// Behind is a message that holds later ones of its key.
type Behind struct {
	EventID  uuid.UUID
	Sequence int64
	Why      Explanation
}

// Facts are what an explanation is made of. Record, Stats and Ahead are as of about
// the same moment.
type Facts struct {
	// Record is nil when there is no such message.
	Record *outbox.Record
	Stats  outbox.Stats
	// Ahead is the message that holds the record by its key, if one does.
	Ahead *outbox.Record
	// Discard is the audit entry of a discarded message, if there is one.
	Discard *outbox.AuditEntry
	// Routes says where messages of a topic go. None means that nothing takes
	// them; a nil function means that it is not known here.
	Routes func(topic string) []string
	// FanOut: some topics go to several routes, so a key orders its messages
	// across all of them. Otherwise it does so within a route.
	FanOut bool
	// LastRoute is where the last recorded attempt went, if there was one.
	LastRoute string
	// MaxBackoff is the longest that a relay puts a message back for. What is
	// available later than that was scheduled by its producer. Defaults to an
	// hour.
	MaxBackoff time.Duration
}

// Why gathers the facts about a message and explains them. routes may be nil.
func Why(ctx context.Context, in outbox.Inspector, id uuid.UUID, routes func(topic string) []string) (Explanation, error) {
	f, err := Gather(ctx, in, id)
	if err != nil {
		return Explanation{}, fmt.Errorf("explain %s: %w", id, err)
	}
	f.Routes = routes
	return Explain(f), nil
}

// Gather reads the facts about a message. Routes are the caller's to add.
func Gather(ctx context.Context, in outbox.Inspector, id uuid.UUID) (Facts, error) {
	var f Facts
	rec, err := in.Get(ctx, id)
	if err != nil && !errors.Is(err, outbox.ErrNotFound) {
		return f, err
	}
	f.Record = rec
	if f.Stats, err = in.Stats(ctx); err != nil || rec == nil {
		return f, err
	}
	attempts, err := in.Attempts(ctx, rec.Sequence)
	if err != nil {
		return f, err
	}
	if len(attempts) > 0 {
		f.LastRoute = attempts[0].Route
	}
	if rec.DeadReason == outbox.DeadDiscarded {
		f.Discard, err = discardOf(ctx, in, id)
		return f, err
	}
	if rec.Key != "" && rec.PublishedAt.IsZero() {
		f.Ahead, err = in.Ahead(ctx, rec.Key, rec.Sequence, blocks(f.Stats))
		if errors.Is(err, outbox.ErrNotFound) {
			err = nil
		}
	}
	return f, err
}

// discardOf finds who discarded a message by itself. A message that a job or a whole
// key took along has no entry of its own.
func discardOf(ctx context.Context, in outbox.Inspector, id uuid.UUID) (*outbox.AuditEntry, error) {
	entries, err := in.Audit(ctx, outbox.AuditFilter{EventID: id})
	for i, e := range entries {
		if e.After == outbox.StatusDiscarded {
			return &entries[i], err
		}
	}
	return nil, err
}

// blocks reports whether a dead message holds its key. Relays that say nothing block:
// it is their default.
func blocks(s outbox.Stats) bool {
	for _, r := range s.Relays {
		if r.Live && r.Note.OnDead != "" && r.Note.OnDead != "block" {
			return false
		}
	}
	return true
}

// Explain says why a message has not been delivered. It is a pure function: the same
// facts have the same explanation.
func Explain(f Facts) Explanation {
	if f.MaxBackoff <= 0 {
		f.MaxBackoff = time.Hour
	}
	if f.Record == nil {
		return Explanation{
			Cause: NotFound,
			Text:  "there is no such event in " + f.Stats.Table + ": it was never enqueued, its transaction has not committed, or it was purged",
			Fix:   "check the event id and the table; look for the producer's transaction",
		}
	}
	if !f.sameLane() {
		f.Ahead = nil
	}
	for _, ask := range []func() (Explanation, bool){
		f.over, f.stopped, f.flying, f.wanted, f.unrouted, f.blocked, f.routeStopped, f.held, f.waiting,
	} {
		if e, ok := ask(); ok {
			return e
		}
	}
	return f.pending()
}

// over: nothing will happen to it any more, unless a person acts.
func (f Facts) over() (Explanation, bool) {
	r := f.Record
	switch r.Status(f.Stats.Now) {
	case outbox.StatusPublished:
		return Explanation{Cause: Published, Text: fmt.Sprintf("it was published at %s, attempt %d", f.at(r.PublishedAt), max(r.Attempts, 1))}, true
	case outbox.StatusDiscarded:
		who := "an operator (in a job or with its key; see the audit trail)"
		if f.Discard != nil {
			who = fmt.Sprintf("%s: %s", f.Discard.Actor, f.Discard.Reason)
		}
		return Explanation{
			Cause: Discarded, Text: fmt.Sprintf("it was discarded at %s by %s", f.at(r.DeadAt), who),
			Fix: "replay it if that was a mistake",
		}, true
	case outbox.StatusDead:
		return f.dead(), true
	}
	return Explanation{}, false
}

func (f Facts) dead() Explanation {
	r := f.Record
	e := Explanation{Cause: Dead, Fix: "mend the cause, then replay it, or discard it"}
	switch r.DeadReason {
	case outbox.DeadNoRoute:
		return Explanation{
			Cause: NoRoute, Text: fmt.Sprintf("it is dead since %s: no route takes the topic %s", f.at(r.DeadAt), r.Topic),
			Fix: "add a route for the topic, then replay it",
		}
	case outbox.DeadAttempts:
		e.Text = fmt.Sprintf("it is dead since %s: the last of %d attempts failed: %s", f.at(r.DeadAt), r.Attempts, quote(r.LastError))
	case outbox.DeadPermanent:
		e.Text = fmt.Sprintf("it is dead since %s: its destination will never accept it: %s", f.at(r.DeadAt), quote(r.LastError))
	case outbox.DeadCrash:
		e.Text = fmt.Sprintf("it is dead since %s: the relay crashed while it dispatched it alone (%d crashes)", f.at(r.DeadAt), r.Crashes)
	default:
		e.Text = fmt.Sprintf("it is dead since %s: %s: %s", f.at(r.DeadAt), r.DeadReason, quote(r.LastError))
	}
	return e
}

// stopped: the table is paused, or nobody relays it.
func (f Facts) stopped() (Explanation, bool) {
	if p, ok := f.paused(""); ok {
		return p, true
	}
	var last time.Time
	for _, l := range f.Stats.Leases {
		if l.Held {
			return Explanation{}, false
		}
		last = later(last, l.ExpiresAt)
	}
	for _, r := range f.Stats.Relays {
		last = later(last, r.SeenAt)
	}
	e := Explanation{Cause: NoRelay, Text: "nobody relays " + f.Stats.Table, Fix: "start a relay: `outbox relay`"}
	if !last.IsZero() {
		e.Text += "; the last lease or heartbeat is of " + f.at(last)
	}
	if f.Record.InFlight {
		e.Text += "; the message was in flight then and will be recovered"
	}
	return e, true
}

func (f Facts) flying() (Explanation, bool) {
	if !f.Record.InFlight {
		return Explanation{}, false
	}
	e := Explanation{Cause: InFlight, Text: "it is being dispatched"}
	if fl := f.Record.Flight; fl != nil {
		e.Text = fmt.Sprintf("it is in flight at relay %s since %s", fl.Instance, f.at(fl.Since))
	}
	return e, true
}

// wanted: its producer does not want it delivered yet.
func (f Facts) wanted() (Explanation, bool) {
	r := f.Record
	if r.Attempts > 0 || r.LastError != "" || r.AvailableAt.Sub(f.Stats.Now) <= f.MaxBackoff {
		return Explanation{}, false
	}
	return f.scheduled(), true
}

func (f Facts) scheduled() Explanation {
	return Explanation{
		Cause: Scheduled, Text: "it is scheduled for " + f.at(f.Record.AvailableAt), Until: f.Record.AvailableAt,
		Fix: "reschedule it if it must go earlier",
	}
}

func (f Facts) unrouted() (Explanation, bool) {
	if f.Routes == nil || len(f.Routes(f.Record.Topic)) > 0 {
		return Explanation{}, false
	}
	return Explanation{
		Cause: NoRoute, Text: fmt.Sprintf("no route takes the topic %s: its dispatch will fail for good", f.Record.Topic),
		Fix: "add a route for the topic",
	}, true
}

// sameLane reports whether the message ahead can hold this one: a key orders what
// shares a route, as far as routes are known.
func (f Facts) sameLane() bool {
	if f.Ahead == nil || f.Routes == nil || f.FanOut {
		return true
	}
	mine, ahead := f.Routes(f.Record.Topic), f.Routes(f.Ahead.Topic)
	return len(mine) != 1 || len(ahead) != 1 || mine[0] == ahead[0]
}

// blocked: a dead message holds its key.
func (f Facts) blocked() (Explanation, bool) {
	if f.Ahead == nil || f.Ahead.DeadAt.IsZero() {
		return Explanation{}, false
	}
	return f.held()
}

func (f Facts) held() (Explanation, bool) {
	if f.Ahead == nil {
		return Explanation{}, false
	}
	ahead := f
	ahead.Record, ahead.Ahead, ahead.LastRoute = f.Ahead, nil, ""
	why := Explain(ahead)
	e := Explanation{
		Cause: Held, Route: why.Route, Until: why.Until,
		Text:   fmt.Sprintf("it is held behind sequence %d of its key %q: %s", f.Ahead.Sequence, f.Record.Key, why.Text),
		Fix:    why.Fix,
		Behind: &Behind{EventID: f.Ahead.EventID, Sequence: f.Ahead.Sequence, Why: why},
	}
	if why.Cause == Dead || why.Cause == NoRoute {
		e.Fix = "retry, skip or release the head of the key"
	}
	return e, true
}

// routes are those that the message still has to take, and whether they are known.
func (f Facts) routes() ([]string, bool) {
	var routes []string
	switch {
	case f.Routes != nil:
		routes = f.Routes(f.Record.Topic)
	case f.LastRoute != "":
		routes = []string{f.LastRoute}
	default:
		return nil, false
	}
	return slices.DeleteFunc(slices.Clone(routes), func(r string) bool { return slices.Contains(f.Record.RoutesDone, r) }), true
}

// routeStopped: a route of its own is paused or has its circuit open.
func (f Facts) routeStopped() (Explanation, bool) {
	routes, _ := f.routes()
	for _, route := range routes {
		if e, ok := f.paused(route); ok {
			return e, true
		}
	}
	for _, route := range routes {
		if e, ok := f.circuit(route); ok {
			return e, true
		}
	}
	return Explanation{}, false
}

func (f Facts) paused(route string) (Explanation, bool) {
	for _, p := range f.Stats.Paused {
		if p.Route != route {
			continue
		}
		what, fix := "the table "+f.Stats.Table, "resume the table when the reason is gone"
		if route != "" {
			what, fix = "the route "+route, "resume the route when the reason is gone"
		}
		return Explanation{
			Cause: Paused, Route: route, Fix: fix,
			Text: fmt.Sprintf("%s is paused since %s by %s: %s", what, f.at(p.At), p.By, p.Reason),
		}, true
	}
	return Explanation{}, false
}

// circuit looks for the relay that has had the circuit of a route open the longest.
func (f Facts) circuit(route string) (Explanation, bool) {
	var found *outbox.CircuitNote
	for _, r := range f.Stats.Relays {
		if !r.Live {
			continue
		}
		for i := range r.Note.Circuits {
			c := &r.Note.Circuits[i]
			if c.Route == route && (found == nil || c.Since.Before(found.Since)) {
				found = c
			}
		}
	}
	if found == nil {
		return Explanation{}, false
	}
	return Explanation{
		Cause: CircuitOpen, Route: route, Fix: "mend the destination; the relay tries again by itself",
		Text: fmt.Sprintf("the circuit of the route %s is open since %s: %s", route, f.at(found.Since), quote(found.Error)),
	}, true
}

// waiting: its own time has not come.
func (f Facts) waiting() (Explanation, bool) {
	r := f.Record
	switch {
	case !r.AvailableAt.After(f.Stats.Now):
		return Explanation{}, false
	case r.Attempts == 0 && r.LastError == "":
		return f.scheduled(), true
	}
	return Explanation{
		Cause: Backoff, Until: r.AvailableAt,
		Text: fmt.Sprintf("it is in backoff until %s after attempt %d failed: %s", f.at(r.AvailableAt), r.Attempts, quote(r.LastError)),
		Fix:  "trigger the relay to try at once",
	}, true
}

// pending: nothing is known to be in its way, unless its route is not known here.
func (f Facts) pending() Explanation {
	if _, known := f.routes(); !known {
		if e, ok := f.perhaps(); ok {
			return e
		}
	}
	e := Explanation{Cause: Pending, Text: "it is due since " + f.at(later(f.Record.CreatedAt, f.Record.AvailableAt)) + " and about to be picked up"}
	var free []string
	for _, l := range f.Stats.Leases {
		if !l.Held {
			free = append(free, fmt.Sprint(l.Shard))
		}
	}
	if len(free) > 0 {
		e.Text += ", unless it belongs to a shard that nobody relays: " + strings.Join(free, ", ")
	}
	return e
}

// perhaps: some route is stopped, and it may be the one.
func (f Facts) perhaps() (Explanation, bool) {
	for _, p := range f.Stats.Paused {
		if e, ok := f.paused(p.Route); ok {
			e.Text = "it is due, and " + e.Text + " (if that is its route)"
			return e, true
		}
	}
	for _, r := range f.Stats.Relays {
		for _, c := range r.Note.Circuits {
			if e, ok := f.circuit(c.Route); ok {
				e.Text = "it is due, and " + e.Text + " (if that is its route)"
				return e, true
			}
		}
	}
	return Explanation{}, false
}

// at is a time for people: absolute, and relative to now.
func (f Facts) at(t time.Time) string {
	d := f.Stats.Now.Sub(t).Round(time.Second)
	switch {
	case d == 0:
		return t.UTC().Format(time.RFC3339) + " (now)"
	case d > 0:
		return fmt.Sprintf("%s (%s ago)", t.UTC().Format(time.RFC3339), span(d))
	}
	return fmt.Sprintf("%s (in %s)", t.UTC().Format(time.RFC3339), span(-d))
}

// span is a duration in its two largest units.
func span(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd", int(d.Hours())/24)
	case d >= time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return d.String()
}

func quote(text string) string {
	if text == "" {
		return "no reason was given"
	}
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "…"
	}
	return text
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
