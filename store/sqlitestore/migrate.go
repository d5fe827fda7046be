package sqlitestore

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io"
	"io/fs"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/migrate"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// Migrations holds the numbered SQL files with their placeholders, for teams that
// own their migrations. PrintMigrations fills the placeholders in.
var Migrations fs.FS = must(fs.Sub(migrationFiles, "migrations"))

func must(f fs.FS, err error) fs.FS {
	if err != nil {
		panic(err) // the directory is embedded above
	}
	return f
}

// MigrationStatus is one migration as an operator sees it.
type MigrationStatus = migrate.Status

// Migrate brings the schema to the latest version and returns the versions it
// applied. Any number of processes may call it at once.
func (s *Store) Migrate(ctx context.Context) ([]int, error) {
	return migrate.Up(ctx, &schema{s}, s.migrations, s.migrations.Latest())
}

// MigrateDown undoes the versions above target and returns them. Target 0 removes the
// outbox. It refuses while messages would be lost, unless force is set.
func (s *Store) MigrateDown(ctx context.Context, target int, force bool) ([]int, error) {
	s.checked.Store(false)
	return migrate.Down(ctx, &schema{s}, s.migrations, target, force)
}

// MigrationStatus lists all migrations and which of them are applied.
func (s *Store) MigrationStatus(ctx context.Context) ([]MigrationStatus, error) {
	return migrate.ReadStatus(ctx, &schema{s}, s.migrations)
}

// PrintMigrations writes the statements that lead from one version to another in a
// format for other tools: sql or goose.
func (s *Store) PrintMigrations(w io.Writer, format string, from, to int) error {
	return migrate.Print(w, s.migrations, migrate.Format(format), from, to)
}

// LatestMigration is the version of the schema that this program was built for.
func (s *Store) LatestMigration() int { return s.migrations.Latest() }

// CheckSchema returns ErrSchema, with the command to run, unless the table is an
// outbox of exactly the version that this program was built for.
func (s *Store) CheckSchema(ctx context.Context) error {
	exists, err := s.exists(ctx, s.db, s.cfg.Table)
	if err != nil {
		return fmt.Errorf("check schema: %w", err)
	}
	if !exists {
		return fmt.Errorf("check schema: %w", outbox.ErrSchema.With("table", fmt.Sprintf(
			"%s does not exist: run `outbox migrate up --table %s`", s.cfg.Table, s.cfg.Table)))
	}
	applied, err := (&schema{s}).Applied(ctx)
	if err != nil {
		return fmt.Errorf("check schema: %w", err)
	}
	if len(applied) == 0 {
		return fmt.Errorf("check schema: %w", outbox.ErrSchema.With("table", fmt.Sprintf(
			"%s exists but is not an outbox: choose another name and run `outbox migrate up --table NAME`", s.cfg.Table)))
	}
	if err := s.migrations.Validate(applied[len(applied)-1].Version); err != nil {
		return fmt.Errorf("check schema: %w", outbox.ErrSchema.Wrap(err))
	}
	return s.checkShape(ctx)
}

// checkShape looks at the side tables: a version number says what should be there.
func (s *Store) checkShape(ctx context.Context) error {
	err := untilFree(ctx, func() error {
		return each(ctx, s.db, func(*sql.Rows) error { return nil }, s.sql.Shape)
	})
	switch {
	case err == nil:
		return nil
	case missing(err):
		return fmt.Errorf("check schema: %w", outbox.ErrSchema.With("table", fmt.Sprintf(
			"the side tables of %s are incomplete (%v): restore them from `outbox migrate print --table %s`", s.cfg.Table, err, s.cfg.Table)))
	}
	return fmt.Errorf("check schema: %w", err)
}

// ready checks the schema until it was right once.
func (s *Store) ready(ctx context.Context) error {
	if s.checked.Load() {
		return nil
	}
	if err := s.CheckSchema(ctx); err != nil {
		return err
	}
	s.checked.Store(true)
	return nil
}

func (s *Store) exists(ctx context.Context, q querier, table string) (bool, error) {
	var exists bool
	err := untilFree(ctx, func() error {
		return each(ctx, q, func(rows *sql.Rows) error { return rows.Scan(&exists) }, s.sql.Exists, table)
	})
	return exists, err
}

// schema is a Store as a migrator sees it.
type schema struct{ store *Store }

var _ migrate.Database = (*schema)(nil)

func (d *schema) Applied(ctx context.Context) ([]migrate.Record, error) {
	var list []migrate.Record
	err := d.store.read(ctx, func(ctx context.Context, conn *sql.Conn) (err error) {
		list, err = d.store.applied(ctx, conn)
		return err
	})
	return list, err
}

// Locked waits for the write lock, then calls fn once: what fails after it has begun
// is not repeated.
func (d *schema) Locked(ctx context.Context, fn func(context.Context, migrate.Tx) error) error {
	var failed error
	err := untilFree(ctx, func() error {
		began := false
		err := d.store.transact(ctx, "BEGIN IMMEDIATE", func(ctx context.Context, conn *sql.Conn) error {
			began = true
			return fn(ctx, schemaTx{d.store, conn})
		})
		if began {
			failed = err
			return nil
		}
		return err
	})
	if err == nil {
		err = failed
	}
	return err
}

type schemaTx struct {
	store *Store
	conn  *sql.Conn
}

func (x schemaTx) Applied(ctx context.Context) ([]migrate.Record, error) {
	return x.store.applied(ctx, x.conn)
}

func (x schemaTx) Pending(ctx context.Context) (n int64, err error) {
	err = x.conn.QueryRowContext(ctx, x.store.sql.Undelivered).Scan(&n)
	return n, err
}

func (x schemaTx) Exec(ctx context.Context, statement string) error {
	return exec(ctx, x.conn, statement)
}

func (s *Store) applied(ctx context.Context, conn *sql.Conn) ([]migrate.Record, error) {
	exists, err := s.exists(ctx, conn, "outbox_migration")
	if err != nil || !exists {
		return nil, err
	}
	var list []migrate.Record
	err = each(ctx, conn, func(rows *sql.Rows) error {
		var r migrate.Record
		var at int64
		err := rows.Scan(&r.Version, &r.Name, &at)
		r.AppliedAt = moment(at)
		list = append(list, r)
		return err
	}, s.sql.Applied)
	return list, err
}
