package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/go-outbox/outbox"
)

// A change is one action of an operator: what it does, who wants it and why.
type change struct {
	outbox.Action
	author   author
	guard    guard
	preview  bool
	destroys bool
}

// flags adds --reason, --actor and --dry-run, and for a change that destroys
// something --yes and --env.
func (c *change) flags(cmd *cobra.Command, destroys bool) {
	c.author.flags(cmd)
	cmd.Flags().BoolVar(&c.preview, "dry-run", false, "say what would happen and change nothing")
	if c.destroys = destroys; destroys {
		c.guard.flags(cmd)
	}
}

// ready completes the action and checks that it may be done.
func (c *change) ready(a *app, cmd *cobra.Command) error {
	if err := c.author.complete(a, cmd); err != nil {
		return err
	}
	c.Actor, c.Reason = c.author.actor, c.author.reason
	if c.preview || !c.destroys {
		return nil
	}
	return c.guard.allow(a)
}

// changeEvent makes the change to the message that args name, wherever it is.
func (a *app) changeEvent(cmd *cobra.Command, c *change, args []string) error {
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
	return a.apply(cmd.Context(), st, c)
}

// changeTable makes a change to the one table that is configured.
func (a *app) changeTable(cmd *cobra.Command, c *change) error {
	if err := c.ready(a, cmd); err != nil {
		return err
	}
	s, st, err := a.openOne(cmd)
	if err != nil {
		return err
	}
	defer s.close()
	return a.apply(cmd.Context(), st, c)
}

func (a *app) apply(ctx context.Context, s store, c *change) error {
	do := s.Apply
	if c.preview {
		do = s.Preview
	}
	effect, err := do(ctx, c.Action)
	if err != nil {
		return fmt.Errorf("%s in %s: %w", words(c.Verb), s.Table(), err)
	}
	return a.printEffect(s.Table(), c, effect)
}

// words is a verb for people.
func words(v outbox.Verb) string { return strings.ReplaceAll(string(v), "_", " ") }

// changed is the JSON of a change. Its names are fixed.
type changed struct {
	Table    string        `json:"table"`
	Verb     outbox.Verb   `json:"verb"`
	EventID  *uuid.UUID    `json:"event_id,omitempty"`
	Route    string        `json:"route,omitempty"`
	Key      string        `json:"key,omitempty"`
	Messages int           `json:"messages"`
	Before   outbox.Status `json:"before,omitempty"`
	After    outbox.Status `json:"after,omitempty"`
	Preview  bool          `json:"preview"`
}

func (a *app) printEffect(table string, c *change, e outbox.Effect) error {
	if a.json {
		line := changed{
			Table: table, Verb: c.Verb, Route: c.Route, Key: c.Key, Messages: e.Messages, Before: e.Before, After: e.After, Preview: c.preview,
		}
		if c.EventID != uuid.Nil {
			line.EventID = &c.EventID
		}
		return a.printJSON(line)
	}
	_, err := fmt.Fprintln(a.out, printable(effectText(table, c, e)))
	return err
}

func effectText(table string, c *change, e outbox.Effect) string {
	text := past[c.Verb]
	if c.preview {
		text = "would " + words(c.Verb)
	}
	switch c.Verb {
	case outbox.VerbReplay, outbox.VerbDiscard, outbox.VerbReschedule:
		return fmt.Sprintf("%s %s in %s: %s → %s", text, c.EventID, table, e.Before, e.After)
	case outbox.VerbPause, outbox.VerbResume:
		if c.Route == "" {
			return text + " " + table
		}
		return fmt.Sprintf("%s route %s of %s", text, c.Route, table)
	case outbox.VerbRetryHead, outbox.VerbSkipHead:
		return fmt.Sprintf("%s of key %s in %s: %s → %s", text, c.Key, table, e.Before, e.After)
	case outbox.VerbReleaseKey:
		return fmt.Sprintf("%s %s in %s: %d messages discarded", text, c.Key, table, e.Messages)
	case outbox.VerbReleaseLease:
		return fmt.Sprintf("%s of shard %d of %s", text, c.Shard, table)
	}
	return fmt.Sprintf("%s %s: %d messages need not wait", text, table, e.Messages)
}

// past is what was done.
var past = map[outbox.Verb]string{
	outbox.VerbReplay: "replayed", outbox.VerbDiscard: "discarded", outbox.VerbReschedule: "rescheduled",
	outbox.VerbPause: "paused", outbox.VerbResume: "resumed",
	outbox.VerbRetryHead: "retried the head", outbox.VerbSkipHead: "skipped the head", outbox.VerbReleaseKey: "released the key",
	outbox.VerbTrigger: "triggered", outbox.VerbReleaseLease: "released the lease", outbox.VerbPurge: "purged",
}
