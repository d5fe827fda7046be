package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/go-outbox/outbox"
)

func (a *app) rescheduleCommand() *cobra.Command {
	c := change{Action: outbox.Action{Verb: outbox.VerbReschedule}}
	var at moment
	cmd := &cobra.Command{
		Use:   "reschedule EVENT --at TIME --reason TEXT",
		Short: "Deliver a message that waits earlier or later",
		Long: "Deliver a message that waits earlier or later. A message that is published, dead or in flight cannot be\n" +
			"rescheduled; `outbox discard` cancels one.",
		Example:           "  outbox reschedule 0190d3a5-0000-7000-8000-000000000001 --at 2h --reason 'after the maintenance'",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeEvents(outbox.StatusScheduled),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !at.given() {
				return usagef("--at is required: when? A time, `now`, or a distance such as 2h")
			}
			return a.reschedule(cmd, &c, &at, args)
		},
	}
	c.flags(cmd, false)
	cmd.Flags().Var(&at, "at", "when: 2026-11-15T06:00:00Z, now, or from now on: 2h")
	return cmd
}

// reschedule resolves the time with the database's clock, so it has to open the table
// before the action is complete.
func (a *app) reschedule(cmd *cobra.Command, c *change, at *moment, args []string) error {
	id, err := parseEvent(args[0])
	if err != nil {
		return err
	}
	c.EventID = id
	if err := c.ready(a, cmd); err != nil {
		return err
	}
	s, err := a.open(cmd)
	if err != nil {
		return err
	}
	defer s.close()
	st, _, err := find(cmd.Context(), s.stores, id)
	if err != nil {
		return err
	}
	clock, err := now(cmd.Context(), st)
	if err != nil {
		return err
	}
	c.At = at.ahead(clock)
	return a.apply(cmd.Context(), st, c)
}

func (a *app) pauseCommand() *cobra.Command {
	return a.routeCommand(outbox.VerbPause, "pause [ROUTE] --reason TEXT", "Stop delivering to a route, or a whole table",
		"Stop delivering to a route, or the whole table when none is named, until it is resumed. Messages wait and lose no\n"+
			"attempts. What is in flight is finished. It survives restarts of the relays.")
}

func (a *app) resumeCommand() *cobra.Command {
	return a.routeCommand(outbox.VerbResume, "resume [ROUTE] --reason TEXT", "Go on with what was paused",
		"Go on with a route that was paused, or with the whole table when none is named.")
}

func (a *app) routeCommand(verb outbox.Verb, use, short, long string) *cobra.Command {
	c := change{Action: outbox.Action{Verb: verb}}
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeRoutes,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				c.Route = args[0]
			}
			return a.changeTable(cmd, &c)
		},
	}
	c.flags(cmd, false)
	return cmd
}

func (a *app) triggerCommand() *cobra.Command {
	c := change{Action: outbox.Action{Verb: outbox.VerbTrigger}}
	cmd := &cobra.Command{
		Use:   "trigger --reason TEXT",
		Short: "Make the relays look at a table now, and retry what waits after a failure",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.changeTable(cmd, &c) },
	}
	c.flags(cmd, false)
	return cmd
}

func (a *app) leaseCommand() *cobra.Command {
	return group("lease", "Look at the leases of the relays, or end one", a.leaseListCommand(), a.leaseReleaseCommand())
}

func (a *app) leaseReleaseCommand() *cobra.Command {
	c := change{Action: outbox.Action{Verb: outbox.VerbReleaseLease}}
	cmd := &cobra.Command{
		Use:   "release SHARD --reason TEXT",
		Short: "End the lease of a shard, so that another relay need not wait for it to expire",
		Long: "End the lease of a shard, so that another relay need not wait for it to expire. Its owner, if it lives, is\n" +
			"fenced off: it writes nothing any more, and what it had in flight is dispatched again.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			shard, err := strconv.Atoi(args[0])
			if err != nil || shard < 0 || shard > 255 {
				return usagef("%q is not a shard: want a number such as `outbox lease list` prints", printable(ellipsis(args[0], 20)))
			}
			c.Shard = shard
			return a.changeTable(cmd, &c)
		},
	}
	c.flags(cmd, false)
	return cmd
}

func (a *app) leaseListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the shards of each table and who relays them",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.open(cmd)
			if err != nil {
				return err
			}
			defer s.close()
			all, err := readStats(cmd.Context(), s.stores)
			if err != nil {
				return err
			}
			return a.printLeases(all)
		},
	}
}

func (a *app) printLeases(all []outbox.Stats) error {
	c := newColumns(a.out)
	if !a.json {
		c.row("TABLE", "SHARD", "HELD", "INSTANCE", "EPOCH", "EXPIRES", "BATCHES")
	}
	for _, s := range all {
		for i, l := range leaseLines(s) {
			if !a.json {
				c.row(s.Table, strconv.Itoa(l.Shard), strconv.FormatBool(l.Held), orDash(l.Instance), strconv.FormatInt(l.Epoch, 10),
					orDash(l.ExpiresAt), strconv.Itoa(s.Leases[i].Batches))
				continue
			}
			line := struct {
				Table string `json:"table"`
				leaseStatus
				Batches int `json:"batches"`
			}{s.Table, l, s.Leases[i].Batches}
			if err := a.printJSON(line); err != nil {
				return err
			}
		}
	}
	return c.flush()
}
