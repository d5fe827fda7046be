package main

import (
	"github.com/spf13/cobra"
)

// envVariable names the environment that this shell is meant for, such as
// production. Whoever destroys something there has to name it.
const envVariable = "OUTBOX_ENV"

// A guard keeps a destructive command from running where, or when, it was not meant
// to.
type guard struct {
	yes bool
	env string
}

func (g *guard) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&g.yes, "yes", false, "do it; env CONFIRM=1")
	cmd.Flags().StringVar(&g.env, "env", "", "the environment that is meant; must be what "+envVariable+" says, where that is set")
}

// confirmed reports whether the person wants it done.
func (g *guard) confirmed(a *app) bool {
	confirm, _ := a.env("CONFIRM")
	return g.yes || confirm == "1"
}

// here checks that the command runs in the environment that was meant.
func (g *guard) here(a *app) error {
	env, _ := a.env(envVariable)
	switch {
	case env == "" && g.env != "":
		return usagef("--env %s: %s is not set here, so this may be another environment; nothing was changed", g.env, envVariable)
	case env != "" && g.env == "":
		return usagef("this is the environment %s: confirm it with --env %s; nothing was changed", env, env)
	case env != g.env:
		return usagef("--env %s: this is the environment %s; nothing was changed", g.env, env)
	}
	return nil
}

// allow is for a change of one thing: where an environment is named, naming it
// confirms it, and elsewhere --yes does.
func (g *guard) allow(a *app) error {
	if err := g.here(a); err != nil {
		return err
	}
	if g.env == "" && !g.confirmed(a) {
		return usagef("this cannot be taken back: add --yes to do it, or --dry-run to see what it would do; nothing was changed")
	}
	return nil
}
