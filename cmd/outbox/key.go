package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/go-outbox/outbox"
)

func (a *app) keyCommand() *cobra.Command {
	return group("key", "Look at keys that a message holds, and let them go on", a.keyListCommand(),
		a.keyVerbCommand(outbox.VerbRetryHead, "retry", "Send the message at the head of a key again; the others follow in order", false),
		a.keyVerbCommand(outbox.VerbSkipHead, "skip", "Discard the message at the head of a key; the others go on", true),
		a.keyVerbCommand(outbox.VerbReleaseKey, "release", "Discard every dead message of a key; the others go on", true),
	)
}

func (a *app) keyVerbCommand(verb outbox.Verb, name, short string, destroys bool) *cobra.Command {
	c := change{Action: outbox.Action{Verb: verb}}
	cmd := &cobra.Command{
		Use: name + " KEY --reason TEXT", Short: short,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeKeys,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Key = args[0]
			return a.changeTable(cmd, &c)
		},
	}
	c.flags(cmd, destroys)
	return cmd
}

func (a *app) keyListCommand() *cobra.Command {
	var after int64
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List keys whose head is dead or waits, and how many messages wait behind it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 || limit > outbox.MaxPage {
				return usagef("--limit: must be from 1 to %d, got %d", outbox.MaxPage, limit)
			}
			s, err := a.open(cmd)
			if err != nil {
				return err
			}
			defer s.close()
			return a.keyList(cmd.Context(), s.stores, after, limit)
		},
	}
	cmd.Flags().Int64Var(&after, "after", 0, "only keys whose head has a higher sequence: the next page")
	cmd.Flags().IntVar(&limit, "limit", 50, fmt.Sprintf("how many to list, at most %d", outbox.MaxPage))
	return cmd
}

// heldKey is one line of key list --json. Its names are fixed.
type heldKey struct {
	Table    string    `json:"table"`
	Key      string    `json:"key"`
	EventID  uuid.UUID `json:"head_event_id"`
	Sequence int64     `json:"head_sequence"`
	Status   string    `json:"head_status"`
	Error    string    `json:"head_error,omitempty"`
	Waiting  int       `json:"waiting"`
	Capped   bool      `json:"capped"` // waiting means "at least"
}

func (a *app) keyList(ctx context.Context, stores []store, after int64, limit int) error {
	c := newColumns(a.out)
	if !a.json {
		c.row("TABLE", "KEY", "WAITING", "HEAD", "SEQUENCE", "STATUS", "ERROR")
	}
	for _, s := range stores {
		keys, err := s.Keys(ctx, after, limit)
		if err != nil {
			return fmt.Errorf("keys of %s: %w", s.Table(), err)
		}
		at, err := now(ctx, s)
		if err != nil {
			return err
		}
		for _, k := range keys {
			line := heldKey{
				s.Table(), k.Key, k.Head.EventID, k.Head.Sequence, string(k.Head.Status(at)), k.Head.LastError,
				k.Waiting, k.Waiting >= outbox.HeldCap,
			}
			if err := a.printKey(c, line); err != nil {
				return err
			}
		}
		if n := len(keys); n == limit {
			a.warnf("more in %s: add --after %d", s.Table(), keys[n-1].Head.Sequence)
		}
	}
	return c.flush()
}

func (a *app) printKey(c columns, k heldKey) error {
	if a.json {
		return a.printJSON(k)
	}
	waiting := strconv.Itoa(k.Waiting)
	if k.Capped {
		waiting += "+"
	}
	c.row(k.Table, k.Key, waiting, k.EventID.String(), strconv.FormatInt(k.Sequence, 10), k.Status, orDash(ellipsis(k.Error, 60)))
	return nil
}
