package pgstore

import (
	_ "embed"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"

	"github.com/go-outbox/outbox/internal/sqlfile"
)

//go:embed grants.sql
var grantsSQL string

// Roles names the database roles of PrintGrants. Empty names mean outbox_producer,
// outbox_relay, outbox_cleaner, outbox_viewer and outbox_operator.
type Roles struct {
	Producer, Relay, Cleaner, Viewer, Operator string
}

// PrintGrants writes the statements that give each role what it needs and nothing
// more. The roles and the tables must exist when they are run.
func (s *Store) PrintGrants(w io.Writer, r Roles) error {
	vars := s.name.vars()
	vars["bare_schema"] = pgx.Identifier{s.name.schema}.Sanitize()
	for _, role := range []struct{ placeholder, name, fallback string }{
		{"producer", r.Producer, "outbox_producer"},
		{"relay_role", r.Relay, "outbox_relay"},
		{"cleaner", r.Cleaner, "outbox_cleaner"},
		{"viewer", r.Viewer, "outbox_viewer"},
		{"operator", r.Operator, "outbox_operator"},
	} {
		if role.name == "" {
			role.name = role.fallback
		}
		vars[role.placeholder] = pgx.Identifier{role.name}.Sanitize()
	}
	text, err := sqlfile.Expand(grantsSQL, vars)
	if err != nil {
		return fmt.Errorf("print grants of %s: %w", s.cfg.Table, err)
	}
	_, err = io.WriteString(w, text)
	return err
}
