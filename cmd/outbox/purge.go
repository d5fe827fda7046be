package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/go-outbox/outbox"
)

// purgeable are the states that a message ends in.
var purgeable = []string{string(outbox.StatusPublished), string(outbox.StatusDead), string(outbox.StatusDiscarded)}

func (a *app) purgeCommand() *cobra.Command {
	b := &bulkChange{verb: outbox.VerbPurge}
	cmd := &cobra.Command{
		Use:   "purge --status STATUS --before TIME --reason TEXT",
		Short: "Delete messages that are published, dead or discarded",
		Long: "Delete messages of one table that are published, dead or discarded, with their history. They are gone for good:\n" +
			"retention does this for published ones by itself, and `outbox dead export` keeps dead ones in a file. What\n" +
			"would be deleted is counted and printed; --yes with the count deletes it. Where " + envVariable + " is set, --env has to\n" +
			"name the same environment.",
		Example: "  outbox purge --status discarded --before 30d --tenant acme\n" +
			"  outbox purge --status discarded --before 30d --tenant acme --yes --expect 12 --reason 'contract ended'",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case !slices.Contains(purgeable, b.sel.status):
				return usagef("--status: must be published, dead or discarded: others are not delivered yet")
			case !b.sel.until.given():
				return usagef("--before is required: delete what is older than when?")
			}
			return a.bulk(cmd, b)
		},
	}
	b.sel.scopeFlags(a, cmd)
	b.flags(cmd)
	cmd.Flags().StringVar(&b.sel.status, "status", "", "published, dead or discarded")
	cmd.Flags().Var(&b.sel.until, "before", "created (dead and discarded ones: given up) before this time, or longer ago than this: 30d")
	completeFlag(cmd, "status", fixed(purgeable...))
	return cmd
}
