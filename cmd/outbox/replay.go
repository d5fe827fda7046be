package main

import (
	"github.com/spf13/cobra"

	"github.com/go-outbox/outbox"
)

func (a *app) replayCommand() *cobra.Command {
	b := &bulkChange{verb: outbox.VerbReplay}
	cmd := a.oneOrMany(b, "replay [EVENT] --reason TEXT", "Send one message again, or all dead messages that flags select")
	cmd.Long = "Send one message again: a dead one, a published one or one that waits for its next attempt. Its attempts start\n" +
		"over. Consumers see the same event id; brokers see a new deduplication id.\n\n" +
		"Without an EVENT, the flags select dead messages. What would be sent is counted and printed; --yes with the\n" +
		"count sends it. It can be interrupted and resumed: see `outbox jobs`.\n\n" +
		"Who did this and why is recorded, in the same transaction."
	cmd.Example = "  outbox replay 0190d3a5-0000-7000-8000-000000000001 --reason 'the disk has space again'\n" +
		"  outbox replay --topic 'shop.**' --since 2h --rate 500\n" +
		"  outbox replay --topic 'shop.**' --since 2h --rate 500 --yes --expect 120 --reason 'outage is over'"
	b.rateFlag(cmd)
	return cmd
}

func (a *app) discardCommand() *cobra.Command {
	b := &bulkChange{verb: outbox.VerbDiscard}
	cmd := a.oneOrMany(b, "discard [EVENT] --reason TEXT", "Give up one message, or all dead messages that flags select")
	cmd.Long = "Give up a message that is not published: it stays, as discarded, is not delivered and no longer holds its key.\n" +
		"This also cancels a scheduled message. A replay takes it back.\n\n" +
		"Without an EVENT, the flags select dead messages. What would be discarded is counted and printed; --yes with\n" +
		"the count does it."
	return cmd
}

// oneOrMany is a command that changes the message it is given, or those that its
// flags select.
func (a *app) oneOrMany(b *bulkChange, use, short string) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: use, Short: short,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeEvents(outbox.StatusDead),
		RunE: func(cmd *cobra.Command, args []string) error {
			selected := all || b.sel.given()
			switch {
			case len(args) > 0 && selected:
				return usagef("an EVENT and flags that select others contradict each other: use one of them")
			case len(args) > 0:
				c := change{
					Action: outbox.Action{Verb: b.verb}, author: b.author, guard: b.guard, preview: b.preview,
					destroys: b.verb == outbox.VerbDiscard,
				}
				return a.changeEvent(cmd, &c, args)
			case !selected:
				return usagef("which messages? Name an EVENT, select dead ones with flags such as --topic, --error or --since, or say --all")
			}
			b.sel.status = string(outbox.StatusDead)
			return a.bulk(cmd, b)
		},
	}
	b.sel.flags(a, cmd)
	b.flags(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "select every dead message of the table")
	return cmd
}
