package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/go-outbox/outbox"
)

func (a *app) auditCommand() *cobra.Command {
	var f outbox.AuditFilter
	var event, verb string
	cmd := &cobra.Command{
		Use:     "audit",
		Short:   "List who changed what, when and why, newest first",
		Example: "  outbox audit --verb replay --actor ada",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.Limit < 1 || f.Limit > outbox.MaxPage {
				return usagef("--limit: must be from 1 to %d, got %d", outbox.MaxPage, f.Limit)
			}
			f.Verb = outbox.Verb(verb)
			if event != "" {
				id, err := uuid.Parse(event)
				if err != nil {
					return usagef("--event: %q is not the id of a message or a job", printable(ellipsis(event, 60)))
				}
				f.EventID = id
			}
			s, err := a.open(cmd)
			if err != nil {
				return err
			}
			defer s.close()
			return a.audit(cmd.Context(), s.stores, f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&event, "event", "", "only entries about this message or job")
	flags.StringVar(&verb, "verb", "", "only this verb, such as replay, discard or purge")
	flags.StringVar(&f.Actor, "actor", "", "only what this person or relay did")
	flags.Int64Var(&f.Before, "before", 0, "only entries with a lower id: the next page")
	flags.IntVar(&f.Limit, "limit", 50, fmt.Sprintf("how many to list, at most %d", outbox.MaxPage))
	completeFlag(cmd, "verb", fixed(auditVerbs()...))
	return cmd
}

func auditVerbs() []string {
	verbs := make([]string, 0, len(past))
	for v := range past {
		verbs = append(verbs, string(v))
	}
	for _, v := range []outbox.Verb{
		outbox.VerbStartJob, outbox.VerbPauseJob, outbox.VerbResumeJob, outbox.VerbCancelJob,
		outbox.VerbCircuitOpen, outbox.VerbCircuitClose, verbImport,
	} {
		verbs = append(verbs, string(v))
	}
	return verbs
}

// auditLine is one line of audit --json. Its names are fixed.
type auditLine struct {
	Table    string          `json:"table"`
	ID       int64           `json:"id"`
	At       string          `json:"at"`
	Actor    string          `json:"actor"`
	Verb     string          `json:"verb"`
	Reason   string          `json:"reason"`
	EventID  *uuid.UUID      `json:"event_id,omitempty"` // of a message or a job
	Sequence int64           `json:"sequence,omitempty"`
	Route    string          `json:"route,omitempty"`
	Key      string          `json:"key,omitempty"`
	Filter   json.RawMessage `json:"filter,omitempty"`
	Messages int             `json:"messages"`
	Before   outbox.Status   `json:"before,omitempty"`
	After    outbox.Status   `json:"after,omitempty"`
}

func newAuditLine(e outbox.AuditEntry) auditLine {
	line := auditLine{
		Table: e.Table, ID: e.ID, At: timestamp(e.At), Actor: e.Actor, Verb: string(e.Verb), Reason: e.Reason,
		Sequence: e.Sequence, Route: e.Route, Key: e.Key, Messages: e.Messages, Before: e.Before, After: e.After,
	}
	if e.EventID != uuid.Nil {
		line.EventID = &e.EventID
	}
	if json.Valid([]byte(e.Filter)) {
		line.Filter = json.RawMessage(e.Filter)
	}
	return line
}

func (a *app) audit(ctx context.Context, stores []store, f outbox.AuditFilter) error {
	c := newColumns(a.out)
	if !a.json {
		c.row("AT", "TABLE", "ACTOR", "VERB", "MESSAGES", "ABOUT", "REASON")
	}
	for _, s := range stores {
		entries, err := s.Audit(ctx, f)
		if err != nil {
			return fmt.Errorf("audit of %s: %w", s.Table(), err)
		}
		for _, e := range entries {
			if !a.json {
				c.row(timestamp(e.At), e.Table, e.Actor, string(e.Verb), strconv.Itoa(e.Messages), orDash(about(e)), e.Reason)
			} else if err := a.printJSON(newAuditLine(e)); err != nil {
				return err
			}
		}
		if n := len(entries); n == f.Limit {
			a.warnf("more in %s: add --before %d", s.Table(), entries[n-1].ID)
		}
	}
	return c.flush()
}

// about is what an entry is about, for people.
func about(e outbox.AuditEntry) string {
	switch {
	case e.Route != "":
		return "route " + e.Route
	case e.Key != "" && e.Sequence == 0:
		return "key " + e.Key
	case e.Filter != "" && e.Filter != "{}":
		return ellipsis(e.Filter, 80)
	case e.EventID != uuid.Nil:
		return e.EventID.String()
	}
	return ""
}
