package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/go-outbox/outbox/config"
)

// An app is what the commands share: where output goes and where settings come from.
type app struct {
	out, err io.Writer
	env      func(string) (string, bool)

	json bool
	file string // configuration file

	// running: the command line was understood. Errors before that are usage.
	running bool
}

// run executes one command line and returns its exit code.
func run(ctx context.Context, args []string, out, err io.Writer, env func(string) (string, bool)) int {
	a := &app{out: out, err: err, env: env}
	root := a.root() //nolint:contextcheck // a command takes its context from cobra, when it runs
	root.SetArgs(args)
	return a.exit(ctx, root.ExecuteContext(ctx))
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "outbox",
		Short:         "A transactional outbox: relay committed events, look at them, operate them",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRun: func(*cobra.Command, []string) {
			a.running = true
		},
	}
	root.SetOut(a.out)
	root.SetErr(a.err)

	flags := root.PersistentFlags()
	flags.BoolVar(&a.json, "json", false, "print JSON lines")
	flags.StringVar(&a.file, "config", "", "configuration file (YAML); env "+config.FileVariable)
	addSettings(flags, isCommon)
	flags.String("table", "", "the same as --tables, for a single table")

	for _, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Run:", []*cobra.Command{a.migrateCommand(), a.relayCommand(), a.consoleCommand(), a.inboxCommand()}},
		{"Look:", []*cobra.Command{
			a.statusCommand(), a.listCommand(), a.showCommand(), a.explainCommand(), a.deadCommand(), a.auditCommand(),
			a.checkCommand(), a.doctorCommand(),
		}},
		{"Change:", []*cobra.Command{
			a.replayCommand(), a.reviveCommand(), a.discardCommand(), a.rescheduleCommand(), a.purgeCommand(), a.jobsCommand(),
			a.pauseCommand(), a.resumeCommand(), a.triggerCommand(), a.keyCommand(), a.leaseCommand(),
		}},
		{"Try and develop:", []*cobra.Command{a.demoCommand(), a.benchCommand(), a.contractCommand()}},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.title
			root.AddCommand(c)
		}
	}
	root.AddCommand(a.configCommand(), a.versionCommand())
	return root
}

// group is a command that only has subcommands. Cobra would print help and succeed
// for a misspelt one.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{
		Use: use, Short: short,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q: see `%s --help`", args[0], cmd.CommandPath())
			}
			return usagef("which one? see `%s --help`", cmd.CommandPath())
		},
	}
	g.AddCommand(commands...)
	return g
}

// isCommon reports whether every command has the setting's flag.
func isCommon(s config.Setting) bool { return s.Key == "dsn" || s.Key == "relay.tables" }

func isSpecial(s config.Setting) bool { return !isCommon(s) }

// addSettings adds the flags of the settings that keep selects. They are all text
// here: package config parses them, so that a mistake reads the same wherever the
// value came from.
func addSettings(flags *pflag.FlagSet, keep func(config.Setting) bool) {
	for _, s := range config.Settings {
		if !keep(s) {
			continue
		}
		help := s.Help + " Env " + s.Env[0] + "."
		if s.Computed != "" {
			help += " Default: " + s.Computed + "."
		}
		flags.String(s.Flag, s.Default, unquote(help))
		if s.Bool() || s.Key == "auto_migrate" {
			flags.Lookup(s.Flag).NoOptDefVal = "true"
		}
	}
}

// unquote drops the Markdown from a help text; pflag would take the first quoted
// word for the name of the value.
func unquote(s string) string {
	return string(slices.DeleteFunc([]rune(s), func(r rune) bool { return r == '`' }))
}

// load reads the settings, with the flags that cmd was given.
func (a *app) load(cmd *cobra.Command) (*config.Config, error) {
	given := make(map[string]string)
	cmd.Flags().Visit(func(f *pflag.Flag) { given[f.Name] = f.Value.String() })
	if name, ok := given["table"]; ok {
		if _, both := given["tables"]; both {
			return nil, usagef("--table and --tables contradict each other: use one of them")
		}
		given["tables"] = name
	}
	return config.Load(config.Sources{Flags: given, Env: a.env, File: a.file})
}

// loadTables is load for commands that need a database and at least one table.
func (a *app) loadTables(cmd *cobra.Command) (*config.Config, error) {
	cfg, err := a.load(cmd)
	switch {
	case err != nil:
		return nil, err
	case len(cfg.Relay.Tables) == 0:
		return nil, usagef("no table: use --table NAME or --tables A,B, or set OUTBOX_RELAY_TABLES")
	}
	return cfg, nil
}

// clearLine removes the progress line.
const clearLine = "\r\x1b[K"

// interactive reports whether w is a terminal that can show a progress line.
func interactive(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// warnf tells the person at the terminal something that is not a result.
func (a *app) warnf(format string, args ...any) {
	fmt.Fprintf(a.err, format+"\n", args...)
}
