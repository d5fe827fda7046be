package main

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/go-outbox/outbox/internal/migrate"
)

// A migrator is a store whose schema this program manages.
type migrator interface {
	Migrate(ctx context.Context) ([]int, error)
	MigrateDown(ctx context.Context, target int, force bool) ([]int, error)
	MigrationStatus(ctx context.Context) ([]migrate.Status, error)
	PrintMigrations(w io.Writer, format string, from, to int) error
	LatestMigration() int
	CheckSchema(ctx context.Context) error
}

func (a *app) migrateCommand() *cobra.Command {
	return group("migrate", "Create, upgrade and inspect the schema of outbox tables",
		a.migrateUpCommand(), a.migrateDownCommand(), a.migrateStatusCommand(), a.migratePrintCommand(), a.migrateGrantsCommand())
}

func (a *app) migrateUpCommand() *cobra.Command {
	var full bool
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Create the tables, or bring them to this program's version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.eachTable(cmd, true, func(s store) error {
				versions, err := s.Migrate(cmd.Context())
				if err == nil && full {
					err = migrateFull(cmd.Context(), s)
				}
				if err != nil {
					return err
				}
				return a.printMigrated(s.Table(), "up", versions)
			})
		},
	}
	cmd.Flags().BoolVar(&full, "full", false, "also give a table of the verbatim layout the columns it lacks; stop its relays first")
	return cmd
}

// migrateFull widens a table of the verbatim layout. Stores that know no other
// layout than the full one have nothing to do.
func migrateFull(ctx context.Context, s store) error {
	if wide, ok := s.(interface{ MigrateFull(context.Context) error }); ok {
		return wide.MigrateFull(ctx)
	}
	return nil
}

func (a *app) migrateDownCommand() *cobra.Command {
	var to int
	var force bool
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Take the newest migration back",
		Long: "Take the newest migration back, or all above --to. Rows may be destroyed, so this refuses while there are\n" +
			"unpublished ones, unless forced.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.eachTable(cmd, false, func(s store) error {
				target := to
				if !cmd.Flags().Changed("to") {
					current, err := currentVersion(cmd.Context(), s)
					if err != nil {
						return err
					}
					target = max(current-1, 0)
				}
				versions, err := s.MigrateDown(cmd.Context(), target, force)
				if err != nil {
					return err
				}
				return a.printMigrated(s.Table(), "down", versions)
			})
		},
	}
	cmd.Flags().IntVar(&to, "to", 0, "version to go back to; 0 removes the tables (default: one less than now)")
	cmd.Flags().BoolVar(&force, "force", false, "also when unpublished messages are destroyed")
	return cmd
}

func currentVersion(ctx context.Context, s store) (int, error) {
	list, err := s.MigrationStatus(ctx)
	if err != nil {
		return 0, err
	}
	version := 0
	for _, m := range list {
		if m.Applied {
			version = max(version, m.Version)
		}
	}
	return version, nil
}

func (a *app) printMigrated(table, direction string, versions []int) error {
	if a.json {
		if versions == nil {
			versions = []int{}
		}
		return a.printJSON(struct {
			Table     string `json:"table"`
			Direction string `json:"direction"`
			Versions  []int  `json:"versions"`
		}{table, direction, versions})
	}
	if len(versions) == 0 {
		_, err := fmt.Fprintf(a.out, "%s: nothing to do\n", table)
		return err
	}
	for _, v := range versions {
		if _, err := fmt.Fprintf(a.out, "%s: migrated %s: %d\n", table, direction, v); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) migrateStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "List the migrations and which are applied",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.migrateStatus(cmd) },
	}
}

func (a *app) migrateStatus(cmd *cobra.Command) error {
	c := newColumns(a.out)
	if !a.json {
		c.row("TABLE", "VERSION", "NAME", "APPLIED")
	}
	err := a.eachTable(cmd, false, func(s store) error {
		list, err := s.MigrationStatus(cmd.Context())
		if err != nil {
			return err
		}
		for _, m := range list {
			if !a.json {
				c.row(s.Table(), strconv.Itoa(m.Version), m.Name, appliedText(m))
				continue
			}
			line := struct {
				Table     string `json:"table"`
				Version   int    `json:"version"`
				Name      string `json:"name"`
				Applied   bool   `json:"applied"`
				AppliedAt string `json:"applied_at,omitempty"`
			}{s.Table(), m.Version, m.Name, m.Applied, timestamp(m.AppliedAt)}
			if err := a.printJSON(line); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.flush()
}

func appliedText(m migrate.Status) string {
	switch {
	case !m.Applied:
		return "no"
	case m.AppliedAt.IsZero():
		return "yes"
	}
	return timestamp(m.AppliedAt)
}

func (a *app) migratePrintCommand() *cobra.Command {
	var format string
	var down bool
	cmd := &cobra.Command{
		Use:   "print",
		Short: "Print the migrations, for people who apply them with another tool",
		Long: "Print the migrations, for people who apply them with another tool. The database is not contacted: only the\n" +
			"scheme of the DSN matters.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.migratePrint(cmd, format, down) },
	}
	cmd.Flags().StringVar(&format, "format", "sql", "sql, goose or atlas")
	cmd.Flags().BoolVar(&down, "down", false, "print the way down instead of up")
	return cmd
}

func (a *app) migratePrint(cmd *cobra.Command, format string, down bool) error {
	switch migrate.Format(format) {
	case migrate.SQL, migrate.Goose, migrate.Atlas:
	default:
		return usagef("--format: %q is not one of sql, goose, atlas", format)
	}
	direction := "up"
	if down {
		direction = "down"
	}
	cfg, err := a.loadTables(cmd)
	if err != nil {
		return err
	}
	db, err := openDatabase(cmd.Context(), cfg.DSN, true)
	if err != nil {
		return err
	}
	defer db.close()
	for _, name := range cfg.Relay.Tables {
		s, err := db.table(name)
		if err != nil {
			return err
		}
		from, to := 0, s.LatestMigration()
		if direction == "down" {
			from, to = to, from
		}
		if err := s.PrintMigrations(a.out, format, from, to); err != nil {
			return err
		}
	}
	return nil
}

// eachTable opens the configured tables and calls do for each.
func (a *app) eachTable(cmd *cobra.Command, create bool, do func(store) error) error {
	cfg, err := a.loadTables(cmd)
	if err != nil {
		return err
	}
	db, stores, err := openTables(cmd.Context(), cfg, cfg.Relay.Tables, create)
	if err != nil {
		return err
	}
	defer db.close()
	for _, s := range stores {
		if err := do(s); err != nil {
			return err
		}
	}
	return nil
}
