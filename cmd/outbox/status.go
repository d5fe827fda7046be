package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-outbox/outbox"
)

func (a *app) statusCommand() *cobra.Command {
	var watching, byTenant bool
	var every time.Duration
	var limit int
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Print what waits in each table, what stops it and who relays it",
		Long: "Print what waits in each table, what stops it and who relays it, the table with the oldest message first, and\n" +
			"what to do next. With --watch the screen is redrawn until it is interrupted.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if every < minWatch {
				return usagef("--every: must be at least %s, got %s", minWatch, every)
			}
			if watching && byTenant {
				return usagef("--watch and --by-tenant: use one of them")
			}
			if limit < 1 || limit > outbox.MaxPage {
				return usagef("--limit: must be from 1 to %d, got %d", outbox.MaxPage, limit)
			}
			s, err := a.open(cmd)
			if err != nil {
				return err
			}
			defer s.close()
			if byTenant {
				return a.statusByTenant(cmd.Context(), s.stores, limit)
			}
			if watching {
				return a.watch(cmd.Context(), s.stores, every)
			}
			all, err := readStats(cmd.Context(), s.stores)
			if err != nil {
				return err
			}
			return a.printStatus(a.out, all, nil)
		},
	}
	cmd.Flags().BoolVar(&watching, "watch", false, "redraw until interrupted")
	cmd.Flags().BoolVar(&byTenant, "by-tenant", false, "count what waits and what is dead by tenant, those with the most first")
	cmd.Flags().IntVar(&limit, "limit", 20, fmt.Sprintf("how many tenants of each table --by-tenant prints, at most %d", outbox.MaxPage))
	cmd.Flags().DurationVar(&every, "every", 2*time.Second, "how often --watch looks")
	return cmd
}

// readStats reads the state of every table; the one whose messages wait longest is
// the first.
func readStats(ctx context.Context, stores []store) ([]outbox.Stats, error) {
	all := make([]outbox.Stats, len(stores))
	for i, s := range stores {
		stats, err := s.Stats(ctx)
		if err != nil {
			return nil, fmt.Errorf("status of %s: %w", s.Table(), err)
		}
		all[i] = stats
	}
	slices.SortStableFunc(all, func(a, b outbox.Stats) int { return cmp.Compare(b.OldestPending, a.OldestPending) })
	return all, nil
}

// tableStatus is one line of status --json. Its names are fixed.
type tableStatus struct {
	Table            string          `json:"table"`
	Pending          int             `json:"pending"`
	Scheduled        int             `json:"scheduled"`
	InFlight         int             `json:"in_flight"`
	Retrying         int             `json:"retrying"`
	Dead             int             `json:"dead"`
	Discarded        int             `json:"discarded"`
	Capped           bool            `json:"capped"` // counts mean "at least"
	OldestPendingAge float64         `json:"oldest_pending_age_seconds"`
	Leases           []leaseStatus   `json:"leases"`
	Relays           []relayStatus   `json:"relays"`
	Paused           []pausedStatus  `json:"paused"`
	Circuits         []circuitStatus `json:"circuits"`
	Next             string          `json:"next"`
}

type leaseStatus struct {
	Shard     int    `json:"shard"`
	Held      bool   `json:"held"`
	Instance  string `json:"instance"`
	Epoch     int64  `json:"epoch"`
	ExpiresAt string `json:"expires_at,omitempty"`
	Draining  bool   `json:"draining"`
}

type relayStatus struct {
	Instance string `json:"instance"`
	Version  string `json:"version"`
	SeenAt   string `json:"seen_at"`
	Live     bool   `json:"live"`
}

type pausedStatus struct {
	Route  string `json:"route"` // empty: the table
	At     string `json:"at"`
	By     string `json:"by"`
	Reason string `json:"reason"`
}

type circuitStatus struct {
	Route string `json:"route"`
	Since string `json:"since"`
	Error string `json:"error,omitempty"`
}

func statusLine(s outbox.Stats) tableStatus {
	line := tableStatus{
		Table: s.Table, Pending: s.Pending, Scheduled: s.Scheduled, InFlight: s.InFlight, Retrying: s.Retrying,
		Dead: s.Dead, Discarded: s.Discarded, Capped: s.Capped,
		OldestPendingAge: s.OldestPending.Seconds(),
		Leases:           leaseLines(s),
		Relays:           []relayStatus{}, Paused: []pausedStatus{}, Circuits: []circuitStatus{},
		Next: next(s),
	}
	for _, r := range s.Relays {
		line.Relays = append(line.Relays, relayStatus{r.Instance, r.Version, timestamp(r.SeenAt), r.Live})
	}
	for _, p := range s.Paused {
		line.Paused = append(line.Paused, pausedStatus{p.Route, timestamp(p.At), p.By, p.Reason})
	}
	for _, c := range circuits(s) {
		line.Circuits = append(line.Circuits, circuitStatus{c.Route, timestamp(c.Since), c.Error})
	}
	return line
}

func leaseLines(s outbox.Stats) []leaseStatus {
	lines := make([]leaseStatus, len(s.Leases))
	for i, l := range s.Leases {
		lines[i] = leaseStatus{l.Shard, l.Held, l.Instance, l.Epoch, timestamp(l.ExpiresAt), l.Draining}
	}
	return lines
}

// circuits are the routes whose circuit some live relay has open, each with the one
// that noticed first.
func circuits(s outbox.Stats) []outbox.CircuitNote {
	var open []outbox.CircuitNote
	for _, r := range s.Relays {
		if r.Live {
			open = append(open, r.Note.Circuits...)
		}
	}
	slices.SortFunc(open, func(a, b outbox.CircuitNote) int {
		return cmp.Or(cmp.Compare(a.Route, b.Route), a.Since.Compare(b.Since))
	})
	return slices.CompactFunc(open, func(a, b outbox.CircuitNote) bool { return a.Route == b.Route })
}

// printStatus prints the tables. trends say how fast each backlog grows, where that
// is known.
func (a *app) printStatus(w io.Writer, all []outbox.Stats, trends map[string]string) error {
	if a.json {
		for _, s := range all {
			if err := a.printJSON(statusLine(s)); err != nil {
				return err
			}
		}
		return nil
	}
	heading := []string{"TABLE", "OLDEST", "PENDING", "IN FLIGHT", "RETRYING", "SCHEDULED", "DEAD", "RELAYED BY"}
	if trends != nil {
		heading = slices.Insert(heading, 3, "TREND")
	}
	c := newColumns(w, heading...)
	for _, s := range all {
		row := []string{
			s.Table, age(s.OldestPending), count(s, s.Pending), count(s, s.InFlight), count(s, s.Retrying),
			count(s, s.Scheduled), count(s, s.Dead), holders(s.Leases),
		}
		if trends != nil {
			row = slices.Insert(row, 3, orDash(trends[s.Table]))
		}
		c.row(row...)
	}
	return errors.Join(c.flush(), printTrouble(w, all))
}

// troubleLines bounds what is printed about each table, so that it stays one screen.
const troubleLines = 5

// printTrouble prints what is stopped in each table, and what to do next.
func printTrouble(w io.Writer, all []outbox.Stats) error {
	c := newColumns(w)
	any := false
	line := func(cells ...string) {
		if !any {
			fmt.Fprintln(w)
		}
		any = true
		c.row(cells...)
	}
	for _, s := range all {
		for i, p := range s.Paused {
			if i == troubleLines {
				line("paused", s.Table, fmt.Sprintf("and %d more", len(s.Paused)-i))
				break
			}
			line("paused", s.Table, what(p.Route), fmt.Sprintf("since %s by %s: %s", since(s.Now, p.At), p.By, ellipsis(p.Reason, 80)))
		}
		open := circuits(s)
		for i, n := range open {
			if i == troubleLines {
				line("circuit open", s.Table, fmt.Sprintf("and %d more", len(open)-i))
				break
			}
			line("circuit open", s.Table, what(n.Route), fmt.Sprintf("since %s: %s", since(s.Now, n.Since), ellipsis(n.Error, 80)))
		}
	}
	if err := c.flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nnext: %s\n", printable(nextOf(all)))
	return err
}

// what names a route, or the table that the empty route stands for.
func what(route string) string {
	if route == "" {
		return "the table"
	}
	return "route " + route
}

func since(now, at time.Time) string {
	if at.IsZero() {
		return "ever"
	}
	return age(max(now.Sub(at), time.Second)) + " ago"
}

func count(s outbox.Stats, n int) string {
	if s.Capped && n >= outbox.CountCap {
		return strconv.Itoa(n) + "+"
	}
	return strconv.Itoa(n)
}

func age(d time.Duration) string {
	switch {
	case d == 0:
		return "-"
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd", int(d.Hours())/24)
	}
	return d.Round(time.Second).String()
}

func holders(leases []outbox.LeaseState) string {
	held, last := 0, ""
	for _, l := range leases {
		if l.Held {
			held++
			last = l.Instance
		}
	}
	switch {
	case held == 0:
		return "nobody"
	case len(leases) == 1:
		return last
	}
	return fmt.Sprintf("%d of %d shards held", held, len(leases))
}

// allWell is what to do when there is nothing to do.
const allWell = "nothing to do"

// nextOf is the advice for the first table that needs any.
func nextOf(all []outbox.Stats) string {
	for _, s := range all {
		if text := next(s); text != allWell {
			return text
		}
	}
	return allWell
}

// late is how old a message may get before it is worth a look.
const late = time.Minute

// next says what a person on call does about a table: the one thing that has to go
// first.
func next(s outbox.Stats) string {
	table := " --table " + s.Table
	open := circuits(s)
	switch {
	case slices.ContainsFunc(s.Paused, func(p outbox.PausedRoute) bool { return p.Route == "" }):
		return fmt.Sprintf("%s is paused: `outbox resume%s --reason …` when that is over", s.Table, table)
	case s.Pending > 0 && holders(s.Leases) == "nobody":
		return fmt.Sprintf("nobody relays %s: start `outbox relay%s`", s.Table, table)
	case len(open) > 0:
		return fmt.Sprintf("mend the destination of route %s; if messages died meanwhile, `outbox revive --route %s%s`",
			open[0].Route, open[0].Route, table)
	case len(s.Paused) > 0:
		return fmt.Sprintf("route %s is paused: `outbox resume %s%s --reason …` when that is over", s.Paused[0].Route, s.Paused[0].Route, table)
	case s.Dead > 0:
		return fmt.Sprintf("look at the dead messages: `outbox dead groups%s`", table)
	case s.Retrying > 0:
		return fmt.Sprintf("see what fails: `outbox list --status retrying%s`", table)
	case s.OldestPending > late:
		return fmt.Sprintf("ask why the oldest waits: `outbox list --status pending --oldest-first --limit 1%s`, then `outbox explain EVENT`", table)
	}
	return allWell
}
