package pgstore

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"

	"github.com/go-outbox/outbox/internal/sqlfile"
)

//go:embed grants.sql
var grants string

//go:embed grants_full.sql
var grantsFull string

//go:embed grants_verbatim.sql
var grantsVerbatim string

// Roles names the database roles of PrintGrants. Empty names mean outbox_producer,
// outbox_relay, outbox_cleaner, outbox_viewer and outbox_operator.
type Roles struct {
	Producer, Relay, Cleaner, Viewer, Operator string
}

// PrintGrants writes the statements that give each role what it needs on this table
// and nothing more. It looks at the table, whose layout decides what that is; the roles
// must exist when the statements are run.
func (s *Store) PrintGrants(ctx context.Context, w io.Writer, r Roles) error {
	l, err := s.layout(ctx, s.pool)
	if err != nil {
		return s.explain("print grants", err)
	}
	vars := l.vars(s.name)
	vars["bare_schema"] = pgx.Identifier{s.name.schema}.Sanitize()
	r.name(vars)
	serial, err := s.grantSerial(ctx)
	if err != nil {
		return s.explain("print grants", err)
	}
	messages := grantsFull
	if l.verbatim {
		messages = grantsVerbatim
	}
	text, err := sqlfile.Expand(grants+messages+serial, vars)
	if err != nil {
		return fmt.Errorf("print grants of %s: %w", s.cfg.Table, err)
	}
	_, err = io.WriteString(w, text)
	return err
}

// name sets the placeholders of the roles.
func (r Roles) name(vars map[string]string) {
	for _, role := range []struct{ placeholder, name, fallback string }{
		{"producer", r.Producer, "outbox_producer"},
		{"relay_role", r.Relay, "outbox_relay"},
		{"cleaner", r.Cleaner, "outbox_cleaner"},
		{"viewer", r.Viewer, "outbox_viewer"},
		{"operator", r.Operator, "outbox_operator"},
	} {
		vars[role.placeholder] = pgx.Identifier{cmp.Or(role.name, role.fallback)}.Sanitize()
	}
}

// grantSerial is what a producer needs to number messages in a table whose sequence
// column is a serial, as in one that is or was of the verbatim layout.
func (s *Store) grantSerial(ctx context.Context) (string, error) {
	var serial *string // NULL: the default is something else, which its owner knows
	err := s.pool.QueryRow(ctx, s.base.sql.Serial, s.mode, s.name.quoted()).Scan(&serial)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	if err != nil || serial == nil {
		return "", err
	}
	return "GRANT USAGE ON SEQUENCE " + *serial + " TO {{producer}};\n", nil
}
