package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/go-outbox/outbox/store/pgstore"
)

// A granter is a store that knows what each role needs.
type granter interface {
	PrintGrants(ctx context.Context, w io.Writer, roles pgstore.Roles) error
}

func (a *app) migrateGrantsCommand() *cobra.Command {
	var roles pgstore.Roles
	cmd := &cobra.Command{
		Use:   "grants",
		Short: "Print the grants that give each database role what it needs (PostgreSQL)",
		Long: "Print the grants that give a producer, a relay, a cleaner, a viewer and an operator what they need and nothing\n" +
			"more. Nothing is changed: run them as the owner of the tables, once the roles exist.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.eachTable(cmd, false, func(s store) error {
				g, ok := s.(granter)
				if !ok {
					return usagef("--dsn: only PostgreSQL has grants to print; for MariaDB and MySQL they are in docs/mysql.md")
				}
				if err := s.CheckSchema(cmd.Context()); err != nil {
					return err
				}
				return g.PrintGrants(cmd.Context(), a.out, roles)
			})
		},
	}
	for _, f := range []struct {
		name string
		role *string
	}{
		{"producer", &roles.Producer},
		{"relay", &roles.Relay},
		{"cleaner", &roles.Cleaner},
		{"viewer", &roles.Viewer},
		{"operator", &roles.Operator},
	} {
		cmd.Flags().StringVar(f.role, f.name, "outbox_"+f.name, "the role of the "+f.name)
	}
	return cmd
}
