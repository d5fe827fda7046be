package main

import (
	"os"
	"os/user"
	"strings"

	"github.com/spf13/cobra"
)

// An author is who changes something and why: every change is on record.
type author struct{ actor, reason string }

func (w *author) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&w.reason, "reason", "", "why, for the audit record")
	cmd.Flags().StringVar(&w.actor, "actor", "", "who, for the audit record; env OUTBOX_ACTOR (default: the user of this process and its host)")
}

// complete fills in who it is and insists on the reason.
func (w *author) complete(a *app, cmd *cobra.Command) error {
	if strings.TrimSpace(w.reason) == "" {
		return usagef("--reason is required: why this %s? It goes into the audit record", cmd.Name())
	}
	w.actor = a.actor(w.actor)
	return nil
}

// actor is who uses this program: as given, as OUTBOX_ACTOR says, or the user of the
// process.
func (a *app) actor(given string) string {
	if given != "" {
		return given
	}
	if name, ok := a.env("OUTBOX_ACTOR"); ok && name != "" {
		return name
	}
	who := currentUser()
	if host, err := os.Hostname(); err == nil && host != "" {
		who += "@" + host
	}
	return who
}

func currentUser() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "unknown"
}
