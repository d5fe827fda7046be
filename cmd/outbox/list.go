package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/go-outbox/outbox"
)

func (a *app) listCommand() *cobra.Command {
	var sel selection
	var following bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List messages, newest first",
		Example: "  outbox list --status dead --topic 'shop.**' --since 2h\n" +
			"  outbox list --follow --status dead --json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := sel.check(); err != nil {
				return err
			}
			if sel.f.Limit < 1 || sel.f.Limit > outbox.MaxPage {
				return usagef("--limit: must be from 1 to %d, got %d", outbox.MaxPage, sel.f.Limit)
			}
			if following && (sel.f.OldestFirst || sel.f.Before != 0 || sel.until.given()) {
				return usagef("--follow goes forward: it does not go with --oldest-first, --before or --until")
			}
			s, err := a.open(cmd)
			if err != nil {
				return err
			}
			defer s.close()
			if following {
				return a.follow(cmd.Context(), s.stores, sel)
			}
			return a.list(cmd.Context(), s.stores, sel)
		},
	}
	sel.statusFlag(cmd)
	sel.flags(a, cmd)
	flags := cmd.Flags()
	flags.Int64Var(&sel.f.Before, "before", 0, "only messages with a lower sequence: the next page")
	flags.Int64Var(&sel.f.After, "after", 0, "only messages with a higher sequence: the next page, oldest first")
	flags.BoolVar(&sel.f.OldestFirst, "oldest-first", false, "begin with the oldest")
	flags.IntVar(&sel.f.Limit, "limit", 50, fmt.Sprintf("how many to list, at most %d", outbox.MaxPage))
	flags.BoolVar(&following, "follow", false, "go on with what is new until interrupted")
	return cmd
}

func (a *app) list(ctx context.Context, stores []store, sel selection) error {
	c := newColumns(a.out)
	if !a.json {
		c.row("TABLE", "SEQUENCE", "EVENT", "STATUS", "ATTEMPTS", "TOPIC", "KEY", "ERROR")
	}
	for _, s := range stores {
		f, err := sel.filter(ctx, s)
		if err != nil {
			return err
		}
		page, err := s.List(ctx, f)
		if err != nil {
			return fmt.Errorf("list %s: %w", s.Table(), err)
		}
		for _, r := range page.Records {
			m := newMessage(s.Table(), r, page.Now)
			if a.json {
				err = a.printJSON(m)
			} else {
				c.row(m.Table, strconv.FormatInt(m.Sequence, 10), m.EventID.String(), m.Status, strconv.Itoa(m.Attempts),
					m.Topic, orDash(m.Key), orDash(ellipsis(m.LastError, 60)))
			}
			if err != nil {
				return err
			}
		}
		if page.Next != 0 {
			a.warnf("more in %s: %s", s.Table(), nextPage(f, page.Next))
		}
	}
	return c.flush()
}

func nextPage(f outbox.Filter, next int64) string {
	if f.OldestFirst {
		return fmt.Sprintf("add --after %d", next)
	}
	return fmt.Sprintf("add --before %d", next)
}

func ellipsis(s string, n int) string {
	if runes := []rune(s); len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return s
}

// A message is a record in JSON. Its names are fixed.
type message struct {
	Table         string            `json:"table"`
	Sequence      int64             `json:"sequence"`
	EventID       uuid.UUID         `json:"event_id"`
	Status        string            `json:"status"`
	Topic         string            `json:"topic"`
	Key           string            `json:"key"`
	TenantID      string            `json:"tenant_id"`
	Attempts      int               `json:"attempts"`
	Crashes       int               `json:"crashes"`
	Replays       int               `json:"replays"`
	CreatedAt     string            `json:"created_at"`
	AvailableAt   string            `json:"available_at"`
	PublishedAt   string            `json:"published_at,omitempty"`
	DeadAt        string            `json:"dead_at,omitempty"`
	DeadReason    string            `json:"dead_reason,omitempty"`
	LastError     string            `json:"last_error,omitempty"`
	AggregateType string            `json:"aggregate_type,omitempty"`
	AggregateID   string            `json:"aggregate_id,omitempty"`
	EventType     string            `json:"event_type,omitempty"`
	EventVersion  int               `json:"event_version,omitempty"`
	ContentType   string            `json:"content_type,omitempty"`
	Headers       map[string]string `json:"headers,omitempty"`
	TraceParent   string            `json:"traceparent,omitempty"`
	TraceState    string            `json:"tracestate,omitempty"`
}

func newMessage(table string, r *outbox.Record, now time.Time) message {
	return message{
		Table: table, Sequence: r.Sequence, EventID: r.EventID, Status: string(r.Status(now)), Topic: r.Topic, Key: r.Key,
		TenantID: r.TenantID, Attempts: r.Attempts, Crashes: r.Crashes, Replays: r.Replays,
		CreatedAt: timestamp(r.CreatedAt), AvailableAt: timestamp(r.AvailableAt), PublishedAt: timestamp(r.PublishedAt),
		DeadAt: timestamp(r.DeadAt), DeadReason: r.DeadReason, LastError: r.LastError,
		AggregateType: r.AggregateType, AggregateID: r.AggregateID, EventType: r.EventType, EventVersion: r.EventVersion,
		ContentType: r.ContentType, Headers: r.Headers, TraceParent: r.TraceParent, TraceState: r.TraceState,
	}
}
