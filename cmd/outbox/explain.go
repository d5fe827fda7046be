package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/config"
	"github.com/go-outbox/outbox/ops"
)

func (a *app) explainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain EVENT",
		Short: "Say why a message has not been delivered, and what to do about it",
		Long: "Say why a message has not been delivered: the one cause that has to go first. It exits 0 whenever there is an\n" +
			"answer, also when that is that there is no such message.",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeEvents(""),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseEvent(args[0])
			if err != nil {
				return err
			}
			s, err := a.open(cmd)
			if err != nil {
				return err
			}
			defer s.close()
			table, e, err := why(cmd.Context(), s, id)
			if err != nil {
				return err
			}
			return a.printExplanation(table, id, e)
		},
	}
	return cmd
}

// why asks the tables until one knows the message.
func why(ctx context.Context, s *session, id uuid.UUID) (table string, e ops.Explanation, err error) {
	for _, st := range s.stores {
		e, err = ops.Why(ctx, st, id, routesOf(s.cfg))
		if err != nil {
			return "", e, err
		}
		if e.Cause != ops.NotFound {
			return st.Table(), e, nil
		}
	}
	return tableNames(s.stores), e, nil
}

// routesOf says where the messages of a topic go, as the router does. Without routes
// everything goes to one sink, and the function is nil.
func routesOf(cfg *config.Config) func(topic string) []string {
	if len(cfg.Routes) == 0 {
		return nil
	}
	return func(topic string) []string {
		var names []string
		for _, r := range cfg.Routes {
			if !slices.ContainsFunc(r.Topics, func(pattern string) bool { return outbox.MatchTopic(pattern, topic) }) {
				continue
			}
			names = append(names, r.Name)
			if !r.Continue {
				break
			}
		}
		return names
	}
}

// explanation is the JSON of explain. Its names and the causes are fixed.
type explanation struct {
	Table   string       `json:"table,omitempty"`
	EventID uuid.UUID    `json:"event_id"`
	Cause   ops.Cause    `json:"cause"`
	Text    string       `json:"text"`
	Fix     string       `json:"fix,omitempty"`
	Until   string       `json:"until,omitempty"`
	Route   string       `json:"route,omitempty"`
	Behind  *explanation `json:"behind,omitempty"`
}

func newExplanation(table string, id uuid.UUID, e ops.Explanation) *explanation {
	out := &explanation{
		Table: table, EventID: id, Cause: e.Cause, Text: e.Text, Fix: e.Fix, Until: timestamp(e.Until), Route: e.Route,
	}
	if e.Behind != nil {
		out.Behind = newExplanation("", e.Behind.EventID, e.Behind.Why)
	}
	return out
}

func (a *app) printExplanation(table string, id uuid.UUID, e ops.Explanation) error {
	if a.json {
		return a.printJSON(newExplanation(table, id, e))
	}
	c := newColumns(a.out)
	c.row("event", id.String())
	c.row("table", table)
	c.row("cause", string(e.Cause))
	c.row("why", e.Text)
	if e.Behind != nil {
		c.row("behind", fmt.Sprintf("%s (sequence %d): %s", e.Behind.EventID, e.Behind.Sequence, e.Behind.Why.Cause))
	}
	if e.Fix != "" {
		c.row("what to do", e.Fix)
	}
	return c.flush()
}
