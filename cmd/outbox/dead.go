package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/go-outbox/outbox"
)

func (a *app) deadCommand() *cobra.Command {
	return group("dead", "Look at dead messages, take them out to a file and in again",
		a.deadGroupsCommand(), a.deadExportCommand(), a.deadImportCommand())
}

func (a *app) deadGroupsCommand() *cobra.Command {
	var sel selection
	cmd := &cobra.Command{
		Use:   "groups",
		Short: "Count dead messages by topic, route and error, the largest group first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := sel.check(); err != nil {
				return err
			}
			s, err := a.open(cmd)
			if err != nil {
				return err
			}
			defer s.close()
			return a.deadGroups(cmd.Context(), s.stores, sel)
		},
	}
	sel.flags(a, cmd)
	return cmd
}

// groupLine is one line of dead groups --json. Its names are fixed.
type groupLine struct {
	Table  string    `json:"table"`
	Count  int       `json:"count"`
	Topic  string    `json:"topic"`
	Route  string    `json:"route"`
	Reason string    `json:"reason"`
	Error  string    `json:"error"` // the fingerprint: --error takes it
	First  string    `json:"first"`
	Last   string    `json:"last"`
	Sample uuid.UUID `json:"sample_event_id"`
}

func (a *app) deadGroups(ctx context.Context, stores []store, sel selection) error {
	sel.status = string(outbox.StatusDead)
	c := newColumns(a.out)
	if !a.json {
		c.row("TABLE", "COUNT", "TOPIC", "ROUTE", "REASON", "FIRST", "LAST", "SAMPLE", "ERROR")
	}
	for _, s := range stores {
		f, err := sel.filter(ctx, s)
		if err != nil {
			return err
		}
		groups, err := s.Groups(ctx, f)
		if err != nil {
			return fmt.Errorf("dead messages of %s: %w", s.Table(), err)
		}
		for _, g := range groups.Groups {
			line := groupLine{s.Table(), g.Count, g.Topic, g.Route, g.Reason, g.Error, timestamp(g.First), timestamp(g.Last), g.Sample}
			if !a.json {
				c.row(line.Table, strconv.Itoa(g.Count), g.Topic, orDash(g.Route), g.Reason, since(groups.Now, g.First), since(groups.Now, g.Last),
					g.Sample.String(), orDash(g.Error))
			} else if err := a.printJSON(line); err != nil {
				return err
			}
		}
		if groups.Capped {
			a.warnf("%s has more dead messages: only the newest %d are counted", s.Table(), outbox.GroupCap)
		}
	}
	return c.flush()
}
