package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-outbox/outbox"
)

// completeTimeout is how long a shell waits for values from the database.
const completeTimeout = 2 * time.Second

// completeFlag says which values a flag has. It panics for a flag that does not
// exist, which every start of the program would show.
func completeFlag(cmd *cobra.Command, flag string, values cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, values); err != nil {
		panic(err)
	}
}

// fixed are values that are known without asking.
func fixed(values ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}

// completeFrom asks the configured tables for values. Whatever goes wrong, a shell
// gets no values rather than an error.
func (a *app) completeFrom(cmd *cobra.Command, prefix string, values func(context.Context, store) []string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
	defer cancel()
	cfg, err := a.loadTables(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	db, stores, err := checked(ctx, cfg, cfg.Relay.Tables)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer db.close()
	var all []string
	for _, s := range stores {
		for _, v := range values(ctx, s) {
			if strings.HasPrefix(v, prefix) {
				all = append(all, v)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all), cobra.ShellCompDirectiveNoFileComp
}

// completeTopics offers the topics of the newest messages.
func (a *app) completeTopics(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return a.completeFrom(cmd, prefix, func(ctx context.Context, s store) []string {
		return recent(ctx, s, "", func(r *outbox.Record) string { return printable(r.Topic) })
	})
}

// completeRoutes offers the routes that somebody paused, whose circuit is open, or
// where dead messages went.
func (a *app) completeRoutes(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if cmd.Args != nil && len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeFrom(cmd, prefix, func(ctx context.Context, s store) []string {
		var routes []string
		if stats, err := s.Stats(ctx); err == nil {
			for _, p := range stats.Paused {
				routes = append(routes, p.Route)
			}
			for _, c := range circuits(stats) {
				routes = append(routes, c.Route)
			}
		}
		if groups, err := s.Groups(ctx, outbox.Filter{}); err == nil {
			for _, g := range groups.Groups {
				routes = append(routes, g.Route)
			}
		}
		return slices.DeleteFunc(routes, func(r string) bool { return r == "" || r != printable(r) })
	})
}

// completeEvents offers the newest messages of a status, with their topics.
func (a *app) completeEvents(status outbox.Status) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.completeFrom(cmd, prefix, func(ctx context.Context, s store) []string {
			return recent(ctx, s, status, func(r *outbox.Record) string { return r.EventID.String() + "\t" + printable(r.Topic) })
		})
	}
}

// completeKeys offers the keys that a message holds.
func (a *app) completeKeys(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeFrom(cmd, prefix, func(ctx context.Context, s store) []string {
		held, err := s.Keys(ctx, 0, outbox.MaxPage)
		if err != nil {
			return nil
		}
		keys := make([]string, len(held))
		for i, k := range held {
			keys[i] = printable(k.Key)
		}
		return keys
	})
}

// completeJobs offers the newest bulk changes.
func (a *app) completeJobs(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeFrom(cmd, prefix, func(ctx context.Context, s store) []string {
		jobs, err := s.Jobs(ctx, 0)
		if err != nil {
			return nil
		}
		ids := make([]string, len(jobs))
		for i, j := range jobs {
			ids[i] = j.ID.String() + "\t" + string(j.Verb) + ", " + string(j.State)
		}
		return ids
	})
}

func recent(ctx context.Context, s store, status outbox.Status, value func(*outbox.Record) string) []string {
	page, err := s.List(ctx, outbox.Filter{Status: status, Limit: outbox.MaxPage})
	if err != nil {
		return nil
	}
	values := make([]string, len(page.Records))
	for i, r := range page.Records {
		values[i] = value(r)
	}
	return values
}
