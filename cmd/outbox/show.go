package main

import (
	"context"
	"encoding/json"
	"errors"
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
		Use:   "show EVENT",
		Short: "Print one message with its payload and its failed attempts",
		Args:  cobra.ExactArgs(1),
		RunE:  func(cmd *cobra.Command, args []string) error { return a.show(cmd, args[0]) },
	}
}

func (a *app) show(cmd *cobra.Command, event string) error {
	id, err := parseEvent(event)
	if err != nil {
		return err
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

	s, record, err := find(cmd.Context(), stores, id)
	if err != nil {
		return err
	}
	attempts, err := s.Attempts(cmd.Context(), record.Sequence)
	if err != nil {
		return fmt.Errorf("attempts of %s: %w", id, err)
	}
	stats, err := s.Stats(cmd.Context()) // for the database's clock, which the status depends on
	if err != nil {
		return fmt.Errorf("status of %s: %w", s.Table(), err)
	}
	d := newDetails(s.Table(), record, stats.Now, attempts)
	if a.json {
		return a.printJSON(d)
	}
	return a.printDetails(d, record.Payload)
}

func parseEvent(text string) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		return uuid.Nil, usagef("%q is not an event id: want a UUID such as `outbox list` prints", printable(ellipsis(text, 60)))
	}
	return id, nil
}

// find looks for an event in the tables, in order.
func find(ctx context.Context, stores []store, id uuid.UUID) (store, *outbox.Record, error) {
	for _, s := range stores {
		record, err := s.Get(ctx, id)
		switch {
		case err == nil:
			return s, record, nil
		case !errors.Is(err, outbox.ErrNotFound):
			return nil, nil, fmt.Errorf("get %s from %s: %w", id, s.Table(), err)
		}
	}
	return nil, nil, outbox.ErrNotFound.With("", fmt.Sprintf(
		"no event %s in %s: it may be in another table, or deleted after its retention", id, tableNames(stores)))
}

func tableNames(stores []store) string {
	names := ""
	for i, s := range stores {
		if i > 0 {
			names += ", "
		}
		names += s.Table()
	}
	return names
}

// details is the JSON of show.
type details struct {
	message
	Payload       json.RawMessage `json:"payload,omitempty"`
	PayloadBase64 []byte          `json:"payload_base64,omitempty"`
	History       []attempt       `json:"history"`
}

type attempt struct {
	At      string  `json:"at"`
	Attempt int     `json:"attempt"`
	Route   string  `json:"route,omitempty"`
	Outcome string  `json:"outcome"`
	Error   string  `json:"error,omitempty"`
	Took    float64 `json:"took_seconds"`
}

func newDetails(table string, r *outbox.Record, now time.Time, attempts []outbox.Attempt) details {
	d := details{message: newMessage(table, r, now), History: make([]attempt, len(attempts))}
	if json.Valid(r.Payload) && utf8.Valid(r.Payload) {
		d.Payload = r.Payload
	} else {
		d.PayloadBase64 = r.Payload
	}
	for i, at := range attempts {
		d.History[i] = attempt{timestamp(at.At), at.Attempt, at.Route, at.Outcome, at.Error, at.Took.Seconds()}
	}
	return d
}

func (a *app) printDetails(d details, payload []byte) error {
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
	field("published", d.PublishedAt)
	field("dead", d.DeadAt)
	for _, name := range slices.Sorted(maps.Keys(d.Headers)) {
		field("header "+name, d.Headers[name])
	}
	if d.Payload != nil {
		field("payload", string(payload))
	} else {
		field("payload", fmt.Sprintf("%d bytes that are not JSON; use --json", len(payload)))
	}
	for _, at := range d.History {
		field(fmt.Sprintf("attempt %d", at.Attempt), fmt.Sprintf("%s %s %s", at.At, at.Outcome, at.Error))
	}
	return c.flush()
}
