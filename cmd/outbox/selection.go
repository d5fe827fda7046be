package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-outbox/outbox"
)

// A selection is the flags that select messages.
type selection struct {
	f            outbox.Filter
	status       string
	since, until moment
}

// flags adds them all but --status.
func (s *selection) flags(a *app, cmd *cobra.Command) {
	flags := cmd.Flags()
	s.scopeFlags(a, cmd)
	flags.StringVar(&s.f.Reason, "dead-reason", "", "only messages that are dead for this reason: "+strings.Join(deadReasons, ", "))
	flags.StringVar(&s.f.Error, "error", "", "only messages whose last error is like this one (numbers and ids do not matter)")
	flags.StringVar(&s.f.Route, "route", "", "only messages whose last recorded attempt went to this route")
	flags.Var(&s.since, "since", "only messages created (dead ones: that died) at or after this time, or so long ago: 2h, 7d, 2026-11-15T06:00:00Z")
	flags.Var(&s.until, "until", "only messages created (dead ones: that died) before this time, or longer ago than this")
	completeFlag(cmd, "dead-reason", fixed(deadReasons...))
	completeFlag(cmd, "route", a.completeRoutes)
}

// scopeFlags are those that say whose messages.
func (s *selection) scopeFlags(a *app, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&s.f.Topic, "topic", "", "only topics that match this pattern, such as shop.*.placed.v1 or shop.**")
	flags.StringVar(&s.f.Key, "key", "", "only messages with this key")
	flags.StringVar(&s.f.TenantID, "tenant", "", "only messages of this tenant")
	completeFlag(cmd, "topic", a.completeTopics)
}

func (s *selection) statusFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.status, "status", "", "only messages in this state: "+statusNames())
	names := make([]string, len(outbox.Statuses))
	for i, status := range outbox.Statuses {
		names[i] = string(status)
	}
	completeFlag(cmd, "status", fixed(names...))
}

var deadReasons = []string{outbox.DeadAttempts, outbox.DeadPermanent, outbox.DeadCrash, outbox.DeadNoRoute}

// given reports whether a flag narrows the selection.
func (s *selection) given() bool {
	f := s.f
	return s.status != "" || s.since.given() || s.until.given() ||
		slices.ContainsFunc([]string{f.Topic, f.Key, f.TenantID, f.Reason, f.Error, f.Route}, func(v string) bool { return v != "" })
}

// check finds mistakes before a database is opened.
func (s *selection) check() error {
	switch {
	case s.status != "" && !slices.Contains(outbox.Statuses, outbox.Status(s.status)):
		return usagef("--status: %q is not one of %s", s.status, statusNames())
	case s.f.Topic != "":
		return outbox.CheckPattern(s.f.Topic)
	}
	return nil
}

// filter is the selection for one store, whose clock its times are relative to.
func (s *selection) filter(ctx context.Context, st store) (outbox.Filter, error) {
	f := s.f
	f.Status = outbox.Status(s.status)
	f.Error = outbox.Fingerprint(f.Error)
	var at time.Time
	if s.since.relative() || s.until.relative() {
		var err error
		if at, err = now(ctx, st); err != nil {
			return f, err
		}
	}
	f.Since, f.Until = s.since.ago(at), s.until.ago(at)
	if !f.Since.IsZero() && !f.Until.IsZero() && !f.Since.Before(f.Until) {
		return f, usagef("--since %s is not before --until %s", &s.since, &s.until)
	}
	return f, nil
}

func statusNames() string {
	names := make([]string, len(outbox.Statuses))
	for i, s := range outbox.Statuses {
		names[i] = string(s)
	}
	return strings.Join(names, ", ")
}
