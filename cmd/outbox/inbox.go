package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-outbox/outbox/internal/migrate"
)

// An inboxTable is the consumer's side in an opened database.
type inboxTable interface {
	Migrate(ctx context.Context) ([]int, error)
	PrintMigrations(w io.Writer, format string, from, to int) error
	LatestMigration() int
	CheckSchema(ctx context.Context) error
	Clean(ctx context.Context, retention time.Duration) (int64, error)
}

func (a *app) inboxCommand() *cobra.Command {
	name := "inbox"
	cmd := group("inbox", "Create, check and clean the table of a consumer that handles events once",
		a.inboxMigrateCommand(&name), a.inboxPrintCommand(&name), a.inboxCheckCommand(&name), a.inboxCleanCommand(&name))
	cmd.PersistentFlags().StringVar(&name, "inbox", name, "the inbox, name or schema.name")
	return cmd
}

func (a *app) inboxMigrateCommand(name *string) *cobra.Command {
	return &cobra.Command{
		Use:   "migrate",
		Short: "Create the inbox, or bring it to this program's version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withInbox(cmd, *name, true, func(ctx context.Context, box inboxTable) error {
				versions, err := box.Migrate(ctx)
				if err != nil {
					return err
				}
				return a.printMigrated(*name, "up", versions)
			})
		},
	}
}

func (a *app) inboxPrintCommand(name *string) *cobra.Command {
	var format string
	var down bool
	cmd := &cobra.Command{
		Use:   "print",
		Short: "Print the migrations, for people who apply them with another tool",
		Long: "Print the migrations, for people who apply them with another tool. The database is not contacted: only the\n" +
			"scheme of the DSN matters.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch migrate.Format(format) {
			case migrate.SQL, migrate.Goose:
			default:
				return usagef("--format: %q is not one of sql, goose", format)
			}
			db, box, err := a.openInbox(cmd, *name, true)
			if err != nil {
				return err
			}
			defer db.close()
			from, to := 0, box.LatestMigration()
			if down {
				from, to = to, from
			}
			return box.PrintMigrations(a.out, format, from, to)
		},
	}
	cmd.Flags().StringVar(&format, "format", "sql", "sql or goose")
	cmd.Flags().BoolVar(&down, "down", false, "print the way down instead of up")
	return cmd
}

func (a *app) inboxCheckCommand(name *string) *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Check that the inbox has this program's version; exits 3 when it has not",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withInbox(cmd, *name, false, func(ctx context.Context, box inboxTable) error {
				if err := checkInbox(ctx, box, *name); err != nil {
					return err
				}
				if a.json {
					return a.printJSON(struct {
						Inbox   string `json:"inbox"`
						Version int    `json:"version"`
					}{*name, box.LatestMigration()})
				}
				_, err := fmt.Fprintf(a.out, "%s: version %d\n", *name, box.LatestMigration())
				return err
			})
		},
	}
}

func (a *app) inboxCleanCommand(name *string) *cobra.Command {
	var age string
	cmd := &cobra.Command{
		Use:   "clean --older-than TIME",
		Short: "Delete what was handled longer ago than the retention",
		Long: "Delete what was handled longer ago than the retention. An event that is delivered again after that is handled\n" +
			"again: keep marks for longer than the producer keeps, and may replay, its events.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			keep, ok := parseDistance(age)
			if !ok || keep == 0 {
				return usagef("--older-than: want how long duplicates are recognised, such as 30d or 720h, got %q", printable(ellipsis(age, 60)))
			}
			return a.withInbox(cmd, *name, false, func(ctx context.Context, box inboxTable) error {
				if err := checkInbox(ctx, box, *name); err != nil {
					return err
				}
				n, err := box.Clean(ctx, keep)
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(struct {
						Inbox   string `json:"inbox"`
						Deleted int64  `json:"deleted"`
					}{*name, n})
				}
				_, err = fmt.Fprintf(a.out, "%s: deleted %d\n", *name, n)
				return err
			})
		},
	}
	cmd.Flags().StringVar(&age, "older-than", "", "how long duplicates are recognised, such as 30d")
	return cmd
}

func checkInbox(ctx context.Context, box inboxTable, name string) error {
	if err := box.CheckSchema(ctx); err != nil {
		return fmt.Errorf("%w\nor run `outbox inbox migrate --inbox %s`", err, name)
	}
	return nil
}

// withInbox calls do with the inbox of a database that answers.
func (a *app) withInbox(cmd *cobra.Command, name string, create bool, do func(context.Context, inboxTable) error) error {
	db, box, err := a.openInbox(cmd, name, create)
	if err != nil {
		return err
	}
	defer db.close()
	if err := db.answers(cmd.Context()); err != nil {
		return err
	}
	return do(cmd.Context(), box)
}

func (a *app) openInbox(cmd *cobra.Command, name string, create bool) (*database, inboxTable, error) {
	cfg, err := a.load(cmd)
	if err != nil {
		return nil, nil, err
	}
	db, err := openDatabase(cmd.Context(), cfg.DSN, create)
	if err != nil {
		return nil, nil, err
	}
	box, err := db.inbox(name)
	if err != nil {
		db.close()
		return nil, nil, err
	}
	return db, box, nil
}
