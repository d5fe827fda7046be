package main

import (
	"fmt"
	"os/user"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/go-outbox/outbox"
)

func (a *app) replayCommand() *cobra.Command {
	action := outbox.Action{Verb: outbox.VerbReplay}
	var preview bool
	cmd := &cobra.Command{
		Use:   "replay EVENT --reason TEXT",
		Short: "Send one message again",
		Long: "Send one message again: a dead one, a published one or one that waits for its next attempt. Its attempts start\n" +
			"over. Consumers see the same event id; brokers see a new deduplication id. Who did this and why is recorded\n" +
			"in outbox_audit, in the same transaction.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseEvent(args[0])
			if err != nil {
				return err
			}
			action.EventID = id
			if action.Reason == "" {
				return usagef("--reason is required: why is %s sent again?", id)
			}
			return a.replay(cmd, action, preview)
		},
	}
	cmd.Flags().StringVar(&action.Reason, "reason", "", "why, for the audit record")
	cmd.Flags().StringVar(&action.Actor, "actor", "", "who, for the audit record (default: the user of this process)")
	cmd.Flags().BoolVar(&preview, "dry-run", false, "say what would happen and change nothing")
	return cmd
}

func (a *app) replay(cmd *cobra.Command, action outbox.Action, preview bool) error {
	if action.Actor == "" {
		action.Actor = currentUser()
	}
	cfg, err := a.loadTables(cmd)
	if err != nil {
		return err
	}
	db, stores, err := checked(cmd.Context(), cfg, cfg.Relay.Tables)
	if err != nil {
		return err
	}
	defer db.close()

	s, _, err := find(cmd.Context(), stores, action.EventID)
	if err != nil {
		return err
	}
	do := s.Apply
	if preview {
		do = s.Preview
	}
	effect, err := do(cmd.Context(), action)
	if err != nil {
		return fmt.Errorf("replay %s: %w", action.EventID, err)
	}
	return a.printEffect(s.Table(), action.EventID, effect, preview)
}

func currentUser() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "unknown"
}

func (a *app) printEffect(table string, id uuid.UUID, e outbox.Effect, preview bool) error {
	if a.json {
		return a.printJSON(struct {
			Table    string        `json:"table"`
			EventID  uuid.UUID     `json:"event_id"`
			Messages int           `json:"messages"`
			Before   outbox.Status `json:"before"`
			After    outbox.Status `json:"after"`
			Preview  bool          `json:"preview"`
		}{table, id, e.Messages, e.Before, e.After, preview})
	}
	verb := "replayed"
	if preview {
		verb = "would replay"
	}
	_, err := fmt.Fprintf(a.out, "%s %s in %s: %s → %s\n", verb, id, table, e.Before, e.After)
	return err
}
