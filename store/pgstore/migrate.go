package pgstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/jackc/pgx/v5"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/migrate"
	"github.com/go-outbox/outbox/internal/sqlfile"
)

//go:embed migrations/*.sql migrations_verbatim/*.sql
var migrationFiles embed.FS

// Migrations holds the numbered SQL files with their placeholders, for teams that
// own their migrations. PrintMigrations fills the placeholders in.
var Migrations fs.FS = must(fs.Sub(migrationFiles, "migrations"))

// verbatimMigrations add side tables to a table that another tool owns. They have
// the same versions.
var verbatimMigrations = must(fs.Sub(migrationFiles, "migrations_verbatim"))

func must(f fs.FS, err error) fs.FS {
	if err != nil {
		panic(err) // the directory is embedded above
	}
	return f
}

// MigrationStatus is one migration as an operator sees it.
type MigrationStatus = migrate.Status

// Migrate creates the outbox or brings it to this program's version, and returns
// the versions it applied. Any number of processes may call it at once. Each
// version is one transaction under a transaction-level lock, so it works behind a
// pooler and leaves nothing behind when it fails.
func (s *Store) Migrate(ctx context.Context) ([]int, error) {
	set, err := s.migrations(ctx)
	if err != nil {
		return nil, err
	}
	applied, err := migrate.Up(ctx, database{s}, set, set.Latest())
	s.forget()
	return applied, err
}

// MigrateDown undoes the versions above target; 0 removes the outbox. It refuses
// while messages wait, unless force is set.
func (s *Store) MigrateDown(ctx context.Context, target int, force bool) ([]int, error) {
	set, err := s.migrations(ctx)
	if err != nil {
		return nil, err
	}
	undone, err := migrate.Down(ctx, database{s}, set, target, force)
	s.forget()
	return undone, err
}

// MigrationStatus lists every migration and whether it is applied.
func (s *Store) MigrationStatus(ctx context.Context) ([]MigrationStatus, error) {
	set, err := s.migrations(ctx)
	if err != nil {
		return nil, err
	}
	return migrate.ReadStatus(ctx, database{s}, set)
}

// PrintMigrations writes the statements that lead from one version to another in
// a format for other tools: sql, goose or atlas.
func (s *Store) PrintMigrations(w io.Writer, format string, from, to int) error {
	set, err := s.migrationsOf(s.known())
	if err != nil {
		return err
	}
	return migrate.Print(w, set, migrate.Format(format), from, to)
}

// forget drops what was known about the table.
func (s *Store) forget() {
	s.look.Store(nil)
	s.fits.Store(false)
}

// LatestMigration is the version this program was built with.
func (s *Store) LatestMigration() int {
	set, err := s.migrationsOf(s.known())
	if err != nil {
		return 0
	}
	return set.Latest()
}

// CheckSchema returns nil when the outbox has this program's version, and otherwise
// ErrSchema with the command that mends it.
func (s *Store) CheckSchema(ctx context.Context) error {
	set, err := s.migrations(ctx)
	if err != nil {
		return err
	}
	err = migrate.Check(ctx, database{s}, set)
	if _, ok := errors.AsType[*migrate.TooOldError](err); ok {
		return outbox.ErrSchema.Wrap(err)
	}
	if _, ok := errors.AsType[*migrate.TooNewError](err); ok {
		return outbox.ErrSchema.Wrap(err)
	}
	if err != nil {
		return s.explain("check schema", err)
	}
	l, err := s.layout(ctx, s.pool)
	if err != nil {
		return err
	}
	return s.checkShape(ctx, l)
}

// shapeColumns is how many columns shape.sql finds.
const shapeColumns = 12

// checkShape looks at the side tables: a version number says what should be there.
func (s *Store) checkShape(ctx context.Context, l *layout) error {
	var found int
	if err := s.pool.QueryRow(ctx, l.sql.Shape, s.mode).Scan(&found); err != nil {
		return s.explain("check schema", err)
	}
	if found != shapeColumns {
		return outbox.ErrSchema.With("", fmt.Sprintf("the side tables of %s lack columns: compare them with `outbox migrate print --table %s`",
			s.cfg.Table, s.cfg.Table))
	}
	return nil
}

// migrations are those of the layout that the table has.
func (s *Store) migrations(ctx context.Context) (migrate.Set, error) {
	l, err := s.layout(ctx, s.pool)
	if err != nil {
		return migrate.Set{}, s.explain("migrate", err)
	}
	return s.migrationsOf(l)
}

// known is the layout as far as anybody has looked.
func (s *Store) known() *layout {
	if l := s.look.Load(); l != nil {
		return l
	}
	return s.base
}

func (s *Store) migrationsOf(l *layout) (migrate.Set, error) {
	files := Migrations
	if l.verbatim {
		files = verbatimMigrations
	}
	set, err := migrate.Load(files, ".", s.cfg.Table, l.vars(s.name))
	if !l.verbatim {
		set.Atlas = s.printAtlas
	}
	return set, err
}

//go:embed schema.hcl
var atlasHCL string

func (s *Store) printAtlas(w io.Writer) error {
	text, err := sqlfile.Expand(atlasHCL, map[string]string{
		"schema": s.name.schema, "prefix": s.name.table, "payload": string(s.cfg.Payload), "hash": hash,
	})
	if err != nil {
		return fmt.Errorf("print schema of %s: %w", s.cfg.Table, err)
	}
	_, err = io.WriteString(w, text)
	return err
}

// database is the store as a migrator sees it.
type database struct{ s *Store }

var _ migrate.Database = database{}

// lockKey is one number for all schemas: migrations are rare, and shared tables
// make outboxes of one schema meet.
const lockKey = 0x6f7574626f78 // "outbox"

func (d database) Locked(ctx context.Context, fn func(context.Context, migrate.Tx) error) error {
	return pgx.BeginFunc(ctx, d.s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_catalog.pg_advisory_xact_lock($1)`, d.s.mode, int64(lockKey)); err != nil {
			return err
		}
		return fn(ctx, migrateTx{d.s, tx})
	})
}

func (d database) Applied(ctx context.Context) ([]migrate.Record, error) {
	return d.s.applied(ctx, d.s.pool)
}

type migrateTx struct {
	s  *Store
	tx pgx.Tx
}

func (m migrateTx) Applied(ctx context.Context) ([]migrate.Record, error) {
	return m.s.applied(ctx, m.tx)
}

func (m migrateTx) Exec(ctx context.Context, statement string) error {
	_, err := m.tx.Exec(ctx, statement, m.s.mode)
	return err
}

// Pending keeps writers out until the transaction ends, so that no message slips
// in between the count and the drop.
func (m migrateTx) Pending(ctx context.Context) (n int64, err error) {
	table := m.s.name.quoted()
	if _, err := m.tx.Exec(ctx, `LOCK TABLE `+table+` IN ACCESS EXCLUSIVE MODE`, m.s.mode); err != nil {
		return 0, err
	}
	err = m.tx.QueryRow(ctx, `SELECT pg_catalog.count(*) FROM `+m.s.known().vars(m.s.name)["table"]+
		` WHERE published_at IS NULL AND dead_reason IS DISTINCT FROM 'discarded'`, m.s.mode).Scan(&n)
	return n, err
}

func (s *Store) applied(ctx context.Context, q querier) ([]migrate.Record, error) {
	table := s.name.vars()["migration"]
	// Not to_regclass: it may answer from a cache that nothing refreshes within a
	// transaction that has waited for the lock of another migrator.
	rows, err := q.Query(ctx, `SELECT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = $1::text AND c.relname = 'outbox_migration')`, s.mode, s.name.schema)
	if err != nil {
		return nil, err
	}
	exists, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[bool])
	if err != nil || !exists {
		return nil, err
	}
	rows, err = q.Query(ctx, `SELECT version, name, applied_at FROM `+table+` WHERE table_name = $1 ORDER BY version`, s.mode, s.name.table)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[migrate.Record])
}
