package mysqlstore

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/go-sql-driver/mysql"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/migrate"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// Migrations holds the numbered SQL files with their placeholders, for teams that own
// their migrations. PrintMigrations fills the placeholders in.
var Migrations fs.FS = must(fs.Sub(migrationFiles, "migrations"))

func must(f fs.FS, err error) fs.FS {
	if err != nil {
		panic(err) // the directory is embedded above
	}
	return f
}

// MigrationStatus is one migration as an operator sees it.
type MigrationStatus = migrate.Status

// Migrate brings the schema to the latest version and returns the versions it applied.
// Any number of processes may call it at once. DDL commits by itself here: a migration
// that was interrupted is continued by the next call.
func (s *Store) Migrate(ctx context.Context) ([]int, error) {
	s.checked.Store(false)
	var versions []int
	for range migrateTries {
		applied, err := migrate.Up(ctx, schema{s}, s.migrations, s.migrations.Latest())
		versions = append(versions, applied...)
		if !errors.Is(err, mysql.ErrInvalidConn) || ctx.Err() != nil {
			return versions, err
		}
	}
	return versions, mysql.ErrInvalidConn
}

// migrateTries is how often a migration begins anew after its connection broke: what was
// applied is recorded, so nothing is applied twice.
const migrateTries = 3

// MigrateDown undoes the versions above target and returns them. Target 0 removes the
// outbox. It refuses while messages would be lost, unless force is set; a message that is
// enqueued at the same moment is not noticed.
func (s *Store) MigrateDown(ctx context.Context, target int, force bool) ([]int, error) {
	s.checked.Store(false)
	return migrate.Down(ctx, schema{s}, s.migrations, target, force)
}

// MigrationStatus lists all migrations and which of them are applied.
func (s *Store) MigrationStatus(ctx context.Context) ([]MigrationStatus, error) {
	return migrate.ReadStatus(ctx, schema{s}, s.migrations)
}

// PrintMigrations writes the statements that lead from one version to another in a format
// for other tools: sql or goose.
func (s *Store) PrintMigrations(w io.Writer, format string, from, to int) error {
	return migrate.Print(w, s.migrations, migrate.Format(format), from, to)
}

// LatestMigration is the version of the schema that this program was built for.
func (s *Store) LatestMigration() int { return s.migrations.Latest() }

// schema is a Store as a migrator sees it.
type schema struct{ store *Store }

var _ migrate.Database = schema{}

func (d schema) Applied(ctx context.Context) ([]migrate.Record, error) {
	return d.store.applied(ctx, d.store.db)
}

// lockSeconds is how long a migrator waits for another.
const lockSeconds = 60

// Locked holds a lock of the server on a connection of its own. A row lock would end with
// the first DDL.
func (d schema) Locked(ctx context.Context, fn func(context.Context, migrate.Tx) error) (err error) {
	s := d.store
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := s.checkSession(ctx, conn); err != nil {
		return err
	}
	var locked bool
	if err := one(ctx, conn, []any{&locked}, s.sql.MigrateLock, s.database, lockSeconds); err != nil {
		return err
	}
	if !locked {
		return fmt.Errorf("another migration has been running for %d seconds: try again later", lockSeconds)
	}
	defer func() {
		detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), detachedTimeout)
		defer cancel()
		var released bool
		if one(detached, conn, []any{&released}, s.sql.MigrateUnlock, s.database) != nil {
			discard(conn) // the lock ends with its connection
		}
	}()
	return fn(ctx, schemaTx{s, conn})
}

type schemaTx struct {
	store *Store
	conn  *sql.Conn
}

// Applied also refuses a table that somebody else made: CREATE TABLE IF NOT EXISTS would
// take it for ours.
func (x schemaTx) Applied(ctx context.Context) ([]migrate.Record, error) {
	applied, err := x.store.applied(ctx, x.conn)
	if err != nil || len(applied) > 0 {
		return applied, err
	}
	columns, err := x.store.columns(ctx, x.conn)
	if err != nil || len(columns) == 0 {
		return nil, err
	}
	return nil, x.store.checkColumns(columns)
}

func (x schemaTx) Pending(ctx context.Context) (n int64, err error) {
	err = one(ctx, x.conn, []any{&n}, x.store.sql.Undelivered)
	if number(err) == noSuchTable { // of a migration down that was interrupted
		return 0, nil
	}
	return n, err
}

func (x schemaTx) Exec(ctx context.Context, statement string) error {
	_, err := x.conn.ExecContext(ctx, statement)
	return err
}

func (s *Store) applied(ctx context.Context, q querier) ([]migrate.Record, error) {
	var list []migrate.Record
	err := each(ctx, q, func(rows *sql.Rows) error {
		var r migrate.Record
		var at int64
		err := rows.Scan(&r.Version, &r.Name, &at)
		r.AppliedAt = moment(at)
		list = append(list, r)
		return err
	}, s.sql.Applied)
	if number(err) == noSuchTable {
		return nil, nil
	}
	return list, err
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

// CheckSchema returns nil when the server, the connection and the table are what this
// program was built for, and otherwise ErrSchema or ErrInvalidConfig with what mends it.
func (s *Store) CheckSchema(ctx context.Context) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return s.explain("check schema", err)
	}
	defer conn.Close()
	return s.explain("check schema", s.check(ctx, conn))
}

func (s *Store) check(ctx context.Context, conn *sql.Conn) error {
	if err := s.checkSession(ctx, conn); err != nil {
		return err
	}
	columns, err := s.columns(ctx, conn)
	if err != nil {
		return err
	}
	if len(columns) == 0 {
		return outbox.ErrSchema.With("table", fmt.Sprintf("%s does not exist: run `outbox migrate up --table %s`", s.cfg.Table, s.cfg.Table))
	}
	if err := s.checkColumns(columns); err != nil {
		return err
	}
	applied, err := s.applied(ctx, conn)
	if err != nil {
		return err
	}
	if err := s.migrations.Validate(len(applied)); err != nil {
		return outbox.ErrSchema.Wrap(err)
	}
	return exec(ctx, conn, s.sql.Shape)
}
