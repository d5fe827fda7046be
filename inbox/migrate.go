package inbox

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"embed"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/migrate"
)

//go:embed migrations
var migrationFiles embed.FS

// Migrate creates the inbox or brings it to this program's version, and returns the
// versions it applied. Any number of processes may call it at once.
func (b *Inbox) Migrate(ctx context.Context) ([]int, error) {
	return migrate.Up(ctx, database{b}, b.migrations, b.migrations.Latest())
}

// PrintMigrations writes the statements that lead from one version to another, for teams
// that own their migrations: 0 is none, and a way down is printed when to is the smaller.
// The format is sql or goose.
func (b *Inbox) PrintMigrations(w io.Writer, format string, from, to int) error {
	return migrate.Print(w, b.migrations, migrate.Format(format), from, to)
}

// LatestMigration is the version that this program was built with.
func (b *Inbox) LatestMigration() int { return b.migrations.Latest() }

// CheckSchema returns ErrSchema unless the inbox has the version that this program was
// built with. Call it at start: without the table every delivery fails.
func (b *Inbox) CheckSchema(ctx context.Context) error {
	applied, err := database{b}.Applied(ctx)
	if err != nil {
		return fmt.Errorf("check schema of %s: %w", b.table, err)
	}
	switch have, want := len(applied), b.migrations.Latest(); {
	case have < want:
		return outbox.ErrSchema.With("table", fmt.Sprintf(
			"inbox %s has version %d, this program needs %d: call Migrate, or apply what PrintMigrations prints", b.table, have, want))
	case have > want:
		return outbox.ErrSchema.With("table", fmt.Sprintf(
			"inbox %s has version %d, this program knows only %d: upgrade this program", b.table, have, want))
	}
	return nil
}

// database is the inbox as a migrator sees it.
type database struct{ b *Inbox }

var _ migrate.Database = database{}

func (d database) Applied(ctx context.Context) ([]migrate.Record, error) {
	return d.b.applied(ctx, d.b.db)
}

// A guard is the statements that take a lock, keep what was done under it, and undo it.
// The locks exclude every migrator of the schema, those of outboxes included.
type guard struct {
	take       []string
	keep, undo string
}

func (b *Inbox) guard() guard {
	switch b.dialect {
	case PostgreSQL:
		return guard{[]string{`BEGIN`, `SELECT pg_catalog.pg_advisory_xact_lock(122550254464888)`}, `COMMIT`, `ROLLBACK`}
	case MySQL: // DDL commits by itself, there is nothing to undo
		return guard{[]string{b.mysql.Guard}, b.mysql.Release, b.mysql.Release}
	}
	return guard{[]string{`BEGIN IMMEDIATE`}, `COMMIT`, `ROLLBACK`}
}

func (d database) Locked(ctx context.Context, fn func(context.Context, migrate.Tx) error) error {
	conn, err := d.b.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	guard, kept := d.b.guard(), false
	defer func() {
		if kept {
			return
		}
		if _, err := conn.ExecContext(context.WithoutCancel(ctx), guard.undo); err != nil {
			// It must not return to the pool with the lock or a transaction.
			_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		}
	}()
	for _, statement := range guard.take {
		if err := take(ctx, conn, statement); err != nil {
			return fmt.Errorf("lock: %w", err)
		}
	}
	if err := fn(ctx, migration{d.b, conn}); err != nil {
		return err
	}
	_, err = conn.ExecContext(ctx, guard.keep)
	kept = err == nil
	return err
}

// take runs one statement on the way to the lock. GET_LOCK answers 0 when it waited in
// vain; the others answer with an error or nothing of interest.
func take(ctx context.Context, conn *sql.Conn, statement string) error {
	if !strings.Contains(statement, "GET_LOCK") {
		_, err := conn.ExecContext(ctx, statement)
		return err
	}
	var taken sql.NullBool
	err := conn.QueryRowContext(ctx, statement).Scan(&taken)
	if err == nil && !taken.Bool {
		err = errors.New("another migration has been running for a minute")
	}
	return err
}

type migration struct {
	b    *Inbox
	conn *sql.Conn
}

func (m migration) Applied(ctx context.Context) ([]migrate.Record, error) {
	return m.b.applied(ctx, m.conn)
}

func (m migration) Exec(ctx context.Context, statement string) error {
	_, err := m.conn.ExecContext(ctx, statement)
	return err
}

// Pending is never asked: an inbox is not migrated down by this package.
func (m migration) Pending(context.Context) (int64, error) { return 0, errors.ErrUnsupported }

type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func (b *Inbox) applied(ctx context.Context, q querier) ([]migrate.Record, error) {
	var exists bool
	if err := q.QueryRowContext(ctx, b.sql.Exists).Scan(&exists); err != nil || !exists {
		return nil, err
	}
	rows, err := q.QueryContext(ctx, b.sql.Applied)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []migrate.Record
	for rows.Next() {
		var r migrate.Record
		if err := rows.Scan(&r.Version, &r.Name); err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, rows.Err()
}
