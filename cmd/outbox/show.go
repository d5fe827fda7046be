package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/go-outbox/outbox"
)

func (a *app) showCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "show EVENT",
		Short:             "Print one message with its payload and everything that happened to it",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeEvents(""),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseEvent(args[0])
			if err != nil {
				return err
			}
			return a.show(cmd, id)
		},
	}
}

func (a *app) show(cmd *cobra.Command, id uuid.UUID) error {
	s, err := a.open(cmd)
	if err != nil {
		return err
	}
	defer s.close()
	st, record, err := find(cmd.Context(), s.stores, id)
	if err != nil {
		return err
	}
	d, err := readDetails(cmd.Context(), st, record)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(d)
	}
	return a.printDetails(d, record)
}

func parseEvent(text string) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		return uuid.Nil, usagef("%q is not an event id: want a UUID such as `outbox list` prints", printable(ellipsis(text, 60)))
	}
	return id, nil
}

// details is the JSON of show.
type details struct {
	message
	Payload       json.RawMessage `json:"payload,omitempty"`
	PayloadBase64 []byte          `json:"payload_base64,omitempty"`
	History       []attempt       `json:"history"`
	Audit         []auditLine     `json:"audit"`
}

type attempt struct {
	At      string  `json:"at"`
	Attempt int     `json:"attempt"`
	Route   string  `json:"route,omitempty"`
	Outcome string  `json:"outcome"`
	Error   string  `json:"error,omitempty"`
	Took    float64 `json:"took_seconds"`
}

func readDetails(ctx context.Context, s store, r *outbox.Record) (details, error) {
	attempts, err := s.Attempts(ctx, r.Sequence)
	if err != nil {
		return details{}, fmt.Errorf("attempts of %s: %w", r.EventID, err)
	}
	entries, err := s.Audit(ctx, outbox.AuditFilter{EventID: r.EventID})
	if err != nil {
		return details{}, fmt.Errorf("audit of %s: %w", r.EventID, err)
	}
	at, err := now(ctx, s) // the status depends on it
	if err != nil {
		return details{}, err
	}
	d := details{message: newMessage(s.Table(), r, at), History: make([]attempt, len(attempts)), Audit: make([]auditLine, len(entries))}
	d.Payload, d.PayloadBase64 = splitPayload(r.Payload)
	for i, t := range attempts {
		d.History[i] = attempt{timestamp(t.At), t.Attempt, t.Route, t.Outcome, t.Error, t.Took.Seconds()}
	}
	for i, e := range entries {
		d.Audit[i] = newAuditLine(e)
	}
	return d, nil
}

// splitPayload keeps JSON as it is and everything else as base64.
func splitPayload(payload []byte) (object json.RawMessage, base64 []byte) {
	if json.Valid(payload) && utf8.Valid(payload) {
		return payload, nil
	}
	return nil, payload
}

func (a *app) printDetails(d details, r *outbox.Record) error {
	c := newColumns(a.out)
	field := func(name, value string) {
		if value != "" {
			c.row(name, value)
		}
	}
	field("event", d.EventID.String())
	field("status", d.Status)
	field("reason", d.DeadReason)
	field("error", d.LastError)
	field("table", d.Table)
	field("sequence", strconv.FormatInt(d.Sequence, 10))
	field("topic", d.Topic)
	field("key", d.Key)
	field("tenant", d.TenantID)
	field("attempts", strconv.Itoa(d.Attempts))
	field("replays", strconv.Itoa(d.Replays))
	field("created", d.CreatedAt)
	field("available", d.AvailableAt)
	for _, name := range slices.Sorted(maps.Keys(d.Headers)) {
		field("header "+name, d.Headers[name])
	}
	if d.Payload != nil {
		field("payload", string(r.Payload))
	} else {
		field("payload", fmt.Sprintf("%d bytes that are not JSON; use --json", len(r.Payload)))
	}
	if err := c.flush(); err != nil {
		return err
	}
	return a.printTimeline(timeline(d, r))
}

// A happening is one line of a timeline.
type happening struct{ at, what, text string }

// timeline is what happened to a message, the oldest first.
func timeline(d details, r *outbox.Record) []happening {
	lines := []happening{{d.CreatedAt, "created", ""}}
	for _, t := range d.History {
		text := t.Outcome
		if t.Route != "" {
			text += ", route " + t.Route
		}
		text += fmt.Sprintf(", took %s", time.Duration(t.Took*float64(time.Second)).Round(time.Millisecond))
		if t.Error != "" {
			text += ": " + t.Error
		}
		lines = append(lines, happening{t.At, fmt.Sprintf("attempt %d", t.Attempt), text})
	}
	for _, e := range d.Audit {
		text := fmt.Sprintf("by %s: %s", e.Actor, e.Reason)
		if e.Before != "" {
			text = fmt.Sprintf("%s → %s, %s", e.Before, e.After, text)
		}
		lines = append(lines, happening{e.At, e.Verb, text})
	}
	if d.PublishedAt != "" {
		lines = append(lines, happening{d.PublishedAt, "published", ""})
	}
	if d.DeadAt != "" {
		lines = append(lines, happening{d.DeadAt, d.Status, d.DeadReason})
	}
	if r.Flight != nil {
		lines = append(lines, happening{timestamp(r.Flight.Since), "in flight", "at relay " + r.Flight.Instance})
	}
	slices.SortStableFunc(lines, func(a, b happening) int { return cmp.Compare(padded(a.at), padded(b.at)) })
	return lines
}

// padded makes timestamps comparable as text, whatever their fraction.
func padded(at string) string {
	t, err := time.Parse(time.RFC3339Nano, at)
	if err != nil {
		return at
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000000")
}

func (a *app) printTimeline(lines []happening) error {
	fmt.Fprintln(a.out)
	c := newColumns(a.out)
	for _, l := range lines {
		c.row(l.at, l.what, l.text)
	}
	return c.flush()
}
