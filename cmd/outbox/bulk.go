package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/config"
)

// A bulkChange is one change to all messages that a selection finds. It is previewed
// unless it is confirmed, with the count that the preview showed.
type bulkChange struct {
	verb    outbox.Verb
	sel     selection
	author  author
	guard   guard
	preview bool

	expect, cap, rate int
	lead              time.Duration // revive only
}

// flags adds what every bulk change has besides its selection.
func (b *bulkChange) flags(cmd *cobra.Command) {
	b.author.flags(cmd)
	b.guard.flags(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&b.preview, "dry-run", false, "say what would happen and change nothing, whatever else is given")
	flags.IntVar(&b.expect, "expect", 0, "with --yes: how many messages that is; if the count has moved by more than a tenth, nothing is changed")
	flags.IntVar(&b.cap, "cap", 0, fmt.Sprintf("change at most so many (default %d)", outbox.MaxJob))
}

func (b *bulkChange) rateFlag(cmd *cobra.Command) {
	cmd.Flags().IntVar(&b.rate, "rate", 0, "send at most so many a second (default: as fast as it goes)")
}

// act reports whether the change is to be made, or only previewed.
func (b *bulkChange) act(a *app) bool { return !b.preview && b.guard.confirmed(a) }

// check finds mistakes before a database is opened.
func (b *bulkChange) check(a *app, cmd *cobra.Command) error {
	if err := b.sel.check(); err != nil {
		return err
	}
	switch {
	case !b.act(a):
		b.author.actor = a.actor(b.author.actor)
		return nil
	case !cmd.Flags().Changed("expect"):
		return usagef("--expect is required: how many messages did the preview show? Run it without --yes first; nothing was changed")
	}
	if err := b.guard.here(a); err != nil {
		return err
	}
	return b.author.complete(a, cmd)
}

// bulk previews the change or makes it.
func (a *app) bulk(cmd *cobra.Command, b *bulkChange) error {
	if err := b.check(a, cmd); err != nil {
		return err
	}
	s, st, err := a.openOne(cmd)
	if err != nil {
		return err
	}
	defer s.close()
	f, err := b.sel.filter(cmd.Context(), st)
	if err != nil {
		return err
	}
	return a.bulkFilter(cmd.Context(), s.cfg, st, b, f)
}

func (a *app) bulkFilter(ctx context.Context, cfg *config.Config, st store, b *bulkChange, f outbox.Filter) error {
	req := outbox.JobRequest{
		Verb: b.verb, Filter: f, Expect: b.expect, Cap: b.cap, Rate: b.rate, Actor: b.author.actor, Reason: b.author.reason,
	}
	if !b.act(a) {
		return a.bulkPreview(ctx, cfg, st, req)
	}
	job, err := st.StartJob(ctx, req)
	switch {
	case errors.Is(err, outbox.ErrDrift):
		return fmt.Errorf("%s in %s: %w; nothing was changed: look again without --yes", words(b.verb), st.Table(), err)
	case err != nil:
		return fmt.Errorf("%s in %s: %w", words(b.verb), st.Table(), err)
	}
	return a.drive(ctx, st, job)
}

// bulkPreview prints what the change would do.
func (a *app) bulkPreview(ctx context.Context, cfg *config.Config, st store, req outbox.JobRequest) error {
	if req.Reason == "" {
		req.Reason = "preview" // it is recorded nowhere
	}
	p, err := st.PreviewJob(ctx, req)
	if err != nil {
		return fmt.Errorf("preview %s in %s: %w", words(req.Verb), st.Table(), err)
	}
	if a.json {
		return a.printJSON(newPreviewLine(st.Table(), req, p))
	}
	if err := a.printPreview(cfg, st.Table(), req, p); err != nil {
		return err
	}
	if p.Count == 0 {
		return nil
	}
	env := ""
	if name, _ := a.env(envVariable); name != "" {
		env = " --env " + name
	}
	a.warnf("nothing was changed; to do it, add: --yes --expect %d%s --reason …", p.Count, env)
	return nil
}

// previewLine is the JSON of a preview. Its names are fixed.
type previewLine struct {
	Table        string       `json:"table"`
	Verb         outbox.Verb  `json:"verb"`
	Count        int          `json:"count"`
	Capped       bool         `json:"capped"` // there are more than the cap
	Topics       []topicCount `json:"topics"`
	KeyConflicts int          `json:"key_conflicts"`
	TakesSeconds float64      `json:"takes_seconds"`
	Preview      bool         `json:"preview"`
}

type topicCount struct {
	Topic string `json:"topic"`
	Count int    `json:"count"`
}

func newPreviewLine(table string, req outbox.JobRequest, p outbox.JobPreview) previewLine {
	line := previewLine{
		Table: table, Verb: req.Verb, Count: p.Count, Capped: p.Capped, Topics: make([]topicCount, len(p.Topics)),
		KeyConflicts: p.KeyConflicts, TakesSeconds: p.Takes.Seconds(), Preview: true,
	}
	for i, t := range p.Topics {
		line.Topics[i] = topicCount(t)
	}
	return line
}

// previewTopics bounds the split that is printed.
const previewTopics = 20

func (a *app) printPreview(cfg *config.Config, table string, req outbox.JobRequest, p outbox.JobPreview) error {
	more := ""
	if p.Capped {
		more = ", and there are more"
	}
	fmt.Fprintf(a.out, "would %s %d messages of %s in %s%s\n", words(req.Verb), p.Count, table, printable(config.Redact(cfg.DSN)), more)
	c := newColumns(a.out)
	for i, t := range p.Topics {
		if i == previewTopics {
			c.row("", fmt.Sprintf("and %d more topics", len(p.Topics)-i))
			break
		}
		c.row(fmt.Sprintf("%9d", t.Count), t.Topic)
	}
	if err := c.flush(); err != nil {
		return err
	}
	if p.KeyConflicts > 0 {
		fmt.Fprintf(a.out, "%d of them have a key whose later messages were delivered already: consumers get them out of order\n", p.KeyConflicts)
	}
	if req.Verb == outbox.VerbReplay && p.Count > 0 {
		fmt.Fprintln(a.out, pace(req.Rate, p.Takes))
	}
	return nil
}

func pace(rate int, takes time.Duration) string {
	if rate == 0 {
		return "as fast as the relay goes; --rate bounds it"
	}
	return fmt.Sprintf("at %d a second, that takes %s", rate, max(takes, time.Second).Round(time.Second))
}

// filterWords is a filter as flags, for people.
func filterWords(f outbox.Filter) string {
	text := ""
	for _, part := range []struct{ name, value string }{
		{"status", string(f.Status)},
		{"topic", f.Topic},
		{"key", f.Key},
		{"tenant", f.TenantID},
		{"dead-reason", f.Reason},
		{"error", f.Error},
		{"route", f.Route},
		{"since", timestamp(f.Since)},
		{"until", timestamp(f.Until)},
	} {
		if part.value != "" {
			text += " " + part.name + "=" + strconv.Quote(part.value)
		}
	}
	return text
}
