package pgstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-outbox/outbox/internal/sqlfile"
)

//go:embed sql/diagnose/*.sql
var diagnoseFiles embed.FS

// longTransaction is how old a transaction may get before it is worth a word: vacuum
// removes nothing that it might still see.
const longTransaction = 5 * time.Minute

// Diagnose looks for what is wrong with the server, the table and this role, and
// calls report for each thing it has looked at, with the level ok, warning or error
// and how to mend it. It changes nothing.
func (s *Store) Diagnose(ctx context.Context, report func(name, level, text, fix string)) error {
	return s.explain("diagnose", s.diagnose(ctx, longTransaction, report))
}

func (s *Store) diagnose(ctx context.Context, long time.Duration, report func(name, level, text, fix string)) error {
	l, err := s.layout(ctx, s.pool)
	if err != nil {
		return err
	}
	e := examination{s: s, layout: l, table: s.name.quoted(), long: long, report: report}
	if err := sqlfile.Render(diagnoseFiles, "sql/diagnose", l.vars(s.name), &e.sql); err != nil {
		return err
	}
	for _, look := range []func(context.Context) error{
		e.server, e.role, e.indexes, e.storage, e.horizon, e.slots, e.sequence, e.batches, e.pooler,
	} {
		if err := look(ctx); err != nil {
			return err
		}
	}
	return nil
}

// An examination is one look at a table.
type examination struct {
	s      *Store
	layout *layout
	table  string
	long   time.Duration
	report func(name, level, text, fix string)
	sql    struct {
		Server   string `sql:"server.sql"`
		Role     string `sql:"role.sql"`
		Indexes  string `sql:"indexes.sql"`
		Storage  string `sql:"storage.sql"`
		Horizon  string `sql:"horizon.sql"`
		Slots    string `sql:"slots.sql"`
		Sequence string `sql:"sequence.sql"`
		Batches  string `sql:"batches.sql"`
	}
}

func (e *examination) ok(name, text string)           { e.report(name, "ok", text, "") }
func (e *examination) warning(name, text, fix string) { e.report(name, "warning", text, fix) }
func (e *examination) error(name, text, fix string)   { e.report(name, "error", text, fix) }

func (e *examination) server(ctx context.Context) error {
	var standby, vacuums, unsafe, readOnly bool
	if err := e.s.pool.QueryRow(ctx, e.sql.Server, e.s.mode).Scan(&standby, &vacuums, &unsafe, &readOnly); err != nil {
		return err
	}
	switch {
	case standby:
		e.error("server", "the server is a standby: it takes no writes", "connect to the primary, for example with target_session_attrs=read-write")
	case readOnly:
		e.error("server", "transactions are read-only by default", "ALTER ROLE or ALTER DATABASE … RESET default_transaction_read_only")
	case unsafe:
		e.warning("server", "synchronous_commit is off: a crash of the server loses commits that were confirmed",
			"set synchronous_commit to on, at least for the roles that enqueue")
	default:
		e.ok("server", "takes writes, and keeps what it confirms")
	}
	if !vacuums {
		e.error("autovacuum", "autovacuum is off on the whole server", "set autovacuum and track_counts to on, and reload")
	}
	return nil
}

// role looks at privileges. Superusers and owners can do all that the audit is for
// finding out.
func (e *examination) role(ctx context.Context) error {
	var role string
	var super, owner, edits bool
	if err := e.s.pool.QueryRow(ctx, e.sql.Role, e.s.mode, e.table).Scan(&role, &super, &owner, &edits); err != nil {
		return err
	}
	const fix = "use a role with the privileges that docs/schema.md grants, and keep this one for migrations"
	switch {
	case super:
		e.warning("privileges", role+" is a superuser", fix)
	case owner:
		e.warning("privileges", role+" owns the table: it can change the schema and the audit", fix)
	case edits:
		e.warning("privileges", role+" can change or delete the audit", "REVOKE UPDATE, DELETE, TRUNCATE ON "+e.layout.vars(e.s.name)["audit"]+" FROM "+
			pgx.Identifier{role}.Sanitize())
	default:
		e.ok("privileges", role+" can neither change the schema nor the audit")
	}
	return nil
}

// published are the columns that publishing changes. An index that mentions one makes
// every settle write to all indexes.
var published = regexp.MustCompile(`\b(published_at|attempts|last_error|routes_done|locked_at)\b`)

func (e *examination) indexes(ctx context.Context) error {
	rows, err := e.s.pool.Query(ctx, e.sql.Indexes, e.s.mode, e.table)
	if err != nil {
		return err
	}
	var have []string
	var name, definition string
	var valid bool
	sound := true
	_, err = pgx.ForEachRow(rows, []any{&name, &valid, &definition}, func() error {
		have = append(have, name)
		quoted := pgx.Identifier{e.s.name.schema, name}.Sanitize()
		switch {
		case !valid:
			sound = false
			e.error("indexes", "the index "+name+" is not valid: building it has failed", "REINDEX INDEX CONCURRENTLY "+quoted)
		case !e.layout.verbatim && published.MatchString(definition):
			sound = false
			e.warning("indexes", "the index "+name+" mentions a column that publishing changes: every delivery writes to all indexes",
				"DROP INDEX CONCURRENTLY "+quoted+", unless something needs it")
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, want := range e.wanted() {
		if !slices.Contains(have, want) {
			sound = false
			e.error("indexes", "the index "+want+" is missing", "create it as `outbox migrate print --table "+e.s.cfg.Table+"` says")
		}
	}
	if sound {
		e.ok("indexes", "are there and valid")
	}
	return nil
}

// wanted are the indexes that the statements are planned with. A verbatim table brings
// its own.
func (e *examination) wanted() []string {
	if e.layout.verbatim {
		return nil
	}
	return []string{e.s.name.table + "_due", e.s.name.table + "_dead"}
}

// bloat is from how many dead rows on, and from which share, vacuum has fallen
// behind.
const (
	bloatRows  = 100_000
	bloatShare = 0.5
)

func (e *examination) storage(ctx context.Context) error {
	var options []string
	var live, dead int64
	if err := e.s.pool.QueryRow(ctx, e.sql.Storage, e.s.mode, e.table).Scan(&options, &live, &dead); err != nil {
		return err
	}
	has := func(prefix string) bool {
		return slices.ContainsFunc(options, func(o string) bool { return strings.HasPrefix(o, prefix) })
	}
	switch {
	case has("autovacuum_enabled=false") || has("autovacuum_enabled=off"):
		e.error("autovacuum", "autovacuum is off for the table: it grows for ever", "ALTER TABLE "+e.table+" RESET (autovacuum_enabled)")
	case dead > bloatRows && float64(dead) > bloatShare*float64(live):
		e.warning("autovacuum", fmt.Sprintf("vacuum has fallen behind: %d dead rows beside %d live ones", dead, live),
			"VACUUM "+e.table+"; if that does not help, something holds the horizon")
	case !has("autovacuum_vacuum_scale_factor="):
		e.warning("autovacuum", "the table has the server's default settings: a large outbox is vacuumed too rarely",
			"ALTER TABLE "+e.table+" SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05)")
	default:
		e.ok("autovacuum", "keeps up")
	}
	if !e.layout.verbatim && !has("fillfactor=") {
		e.warning("fillfactor", "pages have no room for the published version of a row: deliveries write to all indexes",
			"ALTER TABLE "+e.table+" SET (fillfactor = 50)")
	}
	return nil
}

func (e *examination) horizon(ctx context.Context) error {
	rows, err := e.s.pool.Query(ctx, e.sql.Horizon, e.s.mode, e.long.Seconds())
	if err != nil {
		return err
	}
	found := 0
	var what, fix string
	var seconds float64
	_, err = pgx.ForEachRow(rows, []any{&what, &fix, &seconds}, func() error {
		found++
		e.warning("transactions", fmt.Sprintf("%s is open for %s: vacuum removes nothing that is newer", what, time.Duration(seconds)*time.Second), fix)
		return nil
	})
	if err == nil && found == 0 {
		e.ok("transactions", "none is open for longer than "+e.long.String())
	}
	return err
}

func (e *examination) slots(ctx context.Context) error {
	rows, err := e.s.pool.Query(ctx, e.sql.Slots, e.s.mode)
	if err != nil {
		return err
	}
	slots, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, slot := range slots {
		e.warning("slots", "nobody reads the replication slot "+slot+": it keeps old rows and WAL", "SELECT pg_drop_replication_slot("+quoteLiteral(slot)+"), when nobody needs it")
	}
	return err
}

func quoteLiteral(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

func (e *examination) sequence(ctx context.Context) error {
	var name string
	var cache int64
	err := e.s.pool.QueryRow(ctx, e.sql.Sequence, e.s.mode, e.table).Scan(&name, &cache)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		e.warning("sequence", "the column sequence has no sequence of its own", "give it one, so that newer messages have higher numbers")
		return nil
	case err != nil:
		return err
	case cache > 1:
		e.error("sequence", fmt.Sprintf("every session takes %d numbers at once: messages of a key can be delivered out of order", cache),
			"ALTER SEQUENCE "+name+" CACHE 1, then let the producers reconnect")
		return nil
	}
	e.ok("sequence", "numbers are given out one by one")
	return nil
}

// crowd is how many batches are too many to be in flight.
const crowd = 10_000

func (e *examination) batches(ctx context.Context) error {
	var n int
	if err := e.s.pool.QueryRow(ctx, e.sql.Batches, e.s.mode, crowd+1).Scan(&n); err != nil {
		return err
	}
	if n > crowd {
		e.warning("batches", fmt.Sprintf("more than %d batches are recorded as in flight", crowd),
			"see with `outbox lease list` whose they are; a relay that takes the shard over recovers them")
		return nil
	}
	e.ok("batches", fmt.Sprintf("%d are in flight", n))
	return nil
}

// poolerTimeout bounds the wait for a second server connection, which a pooler may
// not have.
const poolerTimeout = 2 * time.Second

// pooler finds out whether something stands between this program and the server, and
// whether a connection through it stays with one server process. If not, nobody can
// listen through it.
func (e *examination) pooler(ctx context.Context) error {
	conn, err := e.s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	first, err := e.backend(ctx, conn)
	switch {
	case err != nil:
		return err
	case first == conn.Conn().PgConn().PID():
		e.ok("pooler", "the connection leads to the server itself")
		return nil
	}
	second, err := e.whileBusy(ctx, conn)
	if err == nil && second == first {
		e.ok("pooler", "a pooler stands before the server, and a connection keeps its session")
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	e.warning("pooler", "a pooler in transaction mode stands before the server: relays hear of new messages by polling only",
		"give the relays a direct address to listen on, or keep the poll interval short")
	return nil
}

// whileBusy asks for the server process of conn while another transaction has one: in
// transaction mode that is the one that conn had before.
func (e *examination) whileBusy(ctx context.Context, conn *pgxpool.Conn) (uint32, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, poolerTimeout, fmt.Errorf("the pooler has no second connection"))
	defer cancel()
	tx, err := e.s.pool.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // it has changed nothing
	if _, err := tx.Exec(ctx, "SELECT 1", e.s.mode); err != nil {
		return 0, err
	}
	return e.backend(ctx, conn)
}

func (e *examination) backend(ctx context.Context, conn *pgxpool.Conn) (pid uint32, err error) {
	err = conn.QueryRow(ctx, "SELECT pg_catalog.pg_backend_pid()", e.s.mode).Scan(&pid)
	return pid, err
}
