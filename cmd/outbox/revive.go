package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/ops"
)

func (a *app) reviveCommand() *cobra.Command {
	b := &bulkChange{verb: outbox.VerbReplay}
	var route string
	var number int
	cmd := &cobra.Command{
		Use:   "revive [--route ROUTE] --reason TEXT",
		Short: "Send what died in an outage of a route again",
		Long: "Send what died in a recorded outage of a route again. Without --route it lists the outages that the relays have\n" +
			"recorded. It is a replay of the dead messages of that route and time: counted and printed first, done with\n" +
			"--yes and the count.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case route == "":
				return a.outages(cmd)
			case number < 1:
				return usagef("--outage: must be at least 1, the newest")
			case b.lead < 0:
				return usagef("--lead: must not be negative")
			}
			return a.revive(cmd, b, route, number)
		},
	}
	b.flags(cmd)
	b.rateFlag(cmd)
	cmd.Flags().StringVar(&route, "route", "", "the route whose outage it was")
	cmd.Flags().IntVar(&number, "outage", 1, "which outage of the route, 1 is the newest")
	cmd.Flags().DurationVar(&b.lead, "lead", time.Minute, "also what died so long before the outage was noticed")
	completeFlag(cmd, "route", a.completeRoutes)
	return cmd
}

func (a *app) revive(cmd *cobra.Command, b *bulkChange, route string, number int) error {
	if err := b.check(a, cmd); err != nil {
		return err
	}
	s, st, err := a.openOne(cmd)
	if err != nil {
		return err
	}
	defer s.close()
	found, err := ops.Outages(cmd.Context(), st, route)
	if err != nil {
		return err
	}
	if len(found) < number {
		return outbox.ErrNotFound.With("", fmt.Sprintf("%d outages of route %s are recorded in %s: see `outbox revive`", len(found), route, st.Table()))
	}
	o := found[number-1]
	if o.Until.IsZero() {
		a.warnf("the outage goes on since %s: what is sent now waits for its end", timestamp(o.Since))
	}
	return a.bulkFilter(cmd.Context(), s.cfg, st, b, ops.Revive(o, b.lead).Filter)
}

// outageLine is one line of revive --json. Its names are fixed.
type outageLine struct {
	Table  string `json:"table"`
	Route  string `json:"route"`
	Outage int    `json:"outage"`
	Since  string `json:"since"`
	Until  string `json:"until,omitempty"`
	Error  string `json:"error,omitempty"`
}

// outages lists what the relays have recorded.
func (a *app) outages(cmd *cobra.Command) error {
	s, err := a.open(cmd)
	if err != nil {
		return err
	}
	defer s.close()
	c := newColumns(a.out)
	if !a.json {
		c.row("TABLE", "ROUTE", "OUTAGE", "SINCE", "UNTIL", "ERROR")
	}
	for _, st := range s.stores {
		lines, err := readOutages(cmd.Context(), st)
		if err != nil {
			return err
		}
		for _, l := range lines {
			if !a.json {
				c.row(l.Table, l.Route, strconv.Itoa(l.Outage), l.Since, orDash(l.Until), orDash(ellipsis(l.Error, 60)))
			} else if err := a.printJSON(l); err != nil {
				return err
			}
		}
	}
	return c.flush()
}

func readOutages(ctx context.Context, st store) ([]outageLine, error) {
	found, err := ops.Outages(ctx, st, "")
	if err != nil {
		return nil, err
	}
	numbers := map[string]int{}
	lines := make([]outageLine, len(found))
	for i, o := range found {
		numbers[o.Route]++
		lines[i] = outageLine{st.Table(), o.Route, numbers[o.Route], timestamp(o.Since), timestamp(o.Until), o.Error}
	}
	return lines, nil
}
