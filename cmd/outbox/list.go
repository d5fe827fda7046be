package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/go-outbox/outbox"
)

func (a *app) listCommand() *cobra.Command {
	var f outbox.Filter
	var status string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List messages, newest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.Status = outbox.Status(status)
			if err := checkFilter(f); err != nil {
				return err
			}
			return a.list(cmd, f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&status, "status", "", "only messages in this state: "+statusNames())
	flags.StringVar(&f.Topic, "topic", "", "only topics that match this pattern, such as shop.*.placed.v1 or shop.**")
	flags.StringVar(&f.Key, "key", "", "only messages with this key")
	flags.StringVar(&f.TenantID, "tenant", "", "only messages of this tenant")
	flags.Int64Var(&f.Before, "before", 0, "only messages with a lower sequence: the next page")
	flags.Int64Var(&f.After, "after", 0, "only messages with a higher sequence: the next page, oldest first")
	flags.BoolVar(&f.OldestFirst, "oldest-first", false, "begin with the oldest")
	flags.IntVar(&f.Limit, "limit", 50, fmt.Sprintf("how many to list, at most %d", outbox.MaxPage))
	return cmd
}

func statusNames() string {
	names := make([]string, len(outbox.Statuses))
	for i, s := range outbox.Statuses {
		names[i] = string(s)
	}
	return strings.Join(names, ", ")
}

func checkFilter(f outbox.Filter) error {
	switch {
	case f.Status != "" && !slices.Contains(outbox.Statuses, f.Status):
		return usagef("--status: %q is not one of %s", f.Status, statusNames())
	case f.Limit < 1 || f.Limit > outbox.MaxPage:
		return usagef("--limit: must be from 1 to %d, got %d", outbox.MaxPage, f.Limit)
	case f.Topic != "":
		return outbox.CheckPattern(f.Topic)
	}
	return nil
}

func (a *app) list(cmd *cobra.Command, f outbox.Filter) error {
	cfg, err := a.loadTables(cmd)
	if err != nil {
		return err
	}
	db, stores, err := checked(cmd.Context(), cfg, cfg.Relay.Tables)
	if err != nil {
		return err
	}
	defer db.close()

	c := newColumns(a.out)
	if !a.json {
		c.row("TABLE", "SEQUENCE", "EVENT", "STATUS", "ATTEMPTS", "TOPIC", "KEY", "ERROR")
	}
	for _, s := range stores {
		page, err := s.List(cmd.Context(), f)
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
