package mysqlstore

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/go-outbox/outbox/internal/sqlfile"
)

//go:embed sql/diagnose/*.sql
var diagnoseFiles embed.FS

// longTransaction is how old a transaction may get before it is worth a word: old
// versions of rows that it might still see are kept.
const longTransaction = 5 * time.Minute

// Diagnose looks for what is wrong with the server, the table and this account, and
// calls report for each thing it has looked at, with the level ok, warning or error
// and how to mend it. It changes nothing.
func (s *Store) Diagnose(ctx context.Context, report func(name, level, text, fix string)) error {
	return s.diagnose(ctx, longTransaction, report)
}

func (s *Store) diagnose(ctx context.Context, long time.Duration, report func(name, level, text, fix string)) error {
	e := examination{s: s, long: long, report: report}
	if err := sqlfile.Render(diagnoseFiles, "sql/diagnose", variables(s.database, s.name), &e.sql); err != nil {
		return err
	}
	for _, look := range []func(context.Context) error{e.server, e.role, e.engine, e.indexes, e.transactions} {
		if err := look(ctx); err != nil {
			return fmt.Errorf("diagnose: %w", err)
		}
	}
	return nil
}

// An examination is one look at a table.
type examination struct {
	s      *Store
	long   time.Duration
	report func(name, level, text, fix string)
	sql    struct {
		Server       string `sql:"server.sql"`
		Role         string `sql:"role.sql"`
		Engine       string `sql:"engine.sql"`
		Indexes      string `sql:"indexes.sql"`
		Transactions string `sql:"transactions.sql"`
	}
}

func (e *examination) server(ctx context.Context) error {
	var readOnly bool
	var flush int
	if err := e.s.db.QueryRowContext(ctx, e.sql.Server).Scan(&readOnly, &flush); err != nil {
		return err
	}
	switch {
	case readOnly:
		e.report("server", "error", "the server is read-only", "connect to the primary")
	case flush != 1:
		e.report("server", "warning", fmt.Sprintf("innodb_flush_log_at_trx_commit is %d: a crash loses commits that were confirmed", flush),
			"SET GLOBAL innodb_flush_log_at_trx_commit = 1, and in the server's configuration")
	default:
		e.report("server", "ok", "takes writes, and keeps what it confirms", "")
	}
	return nil
}

func (e *examination) role(ctx context.Context) error {
	var account string
	var super bool
	if err := e.s.db.QueryRowContext(ctx, e.sql.Role).Scan(&account, &super); err != nil {
		return err
	}
	if super {
		e.report("privileges", "warning", account+" may do everything", "use an account with privileges on these tables only, and keep this one for migrations")
		return nil
	}
	e.report("privileges", "ok", account+" is not a superuser", "")
	return nil
}

func (e *examination) engine(ctx context.Context) error {
	var engine string
	if err := e.s.db.QueryRowContext(ctx, e.sql.Engine, e.s.database, e.s.name).Scan(&engine); err != nil {
		return err
	}
	if engine != "InnoDB" {
		e.report("engine", "error", "the engine of the table is "+engine+": what is rolled back stays", "ALTER TABLE "+variables(e.s.database, e.s.name)["table"]+" ENGINE = InnoDB")
		return nil
	}
	e.report("engine", "ok", "is InnoDB", "")
	return nil
}

func (e *examination) indexes(ctx context.Context) error {
	rows, err := e.s.db.QueryContext(ctx, e.sql.Indexes, e.s.database, e.s.name)
	if err != nil {
		return err
	}
	defer rows.Close()
	var have []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		have = append(have, name)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	sound := true
	for _, suffix := range []string{"_event_id", "_due", "_held"} {
		if want := e.s.name + suffix; !slices.Contains(have, want) {
			sound = false
			e.report("indexes", "error", "the index "+want+" is missing", "create it as `outbox migrate print --table "+e.s.cfg.Table+"` says")
		}
	}
	if sound {
		e.report("indexes", "ok", "are there", "")
	}
	return nil
}

// accessDenied is what the server says to an account that lacks a privilege.
const accessDenied = 1227

func (e *examination) transactions(ctx context.Context) error {
	rows, err := e.s.db.QueryContext(ctx, e.sql.Transactions, int64(e.long/time.Second))
	if denied, ok := errors.AsType[*mysql.MySQLError](err); ok && denied.Number == accessDenied {
		e.report("transactions", "ok", "those of others cannot be seen without the privilege PROCESS", "")
		return nil
	}
	if err != nil {
		return err
	}
	defer rows.Close()
	return e.judge(rows)
}

func (e *examination) judge(rows *sql.Rows) error {
	found := false
	for rows.Next() {
		var thread, seconds int64
		if err := rows.Scan(&thread, &seconds); err != nil {
			return err
		}
		found = true
		e.report("transactions", "warning", fmt.Sprintf("a transaction of connection %d is open for %s: old versions of rows are kept", thread, time.Duration(seconds)*time.Second),
			fmt.Sprintf("KILL %d, when nobody needs it", thread))
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if !found {
		e.report("transactions", "ok", "none is open for longer than "+e.long.String(), "")
	}
	return nil
}
