package sqlitestore_test

import (
	"bytes"
	"database/sql"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/store/sqlitestore"
)

// objects lists the schema of a file.
func objects(t *testing.T, db *sql.DB) []string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT type || ' ' || name || ' ' || COALESCE(sql, '') FROM sqlite_master ORDER BY 1")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var list []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		list = append(list, s)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

func TestMigrationsGoUpDownAndUpAgain(t *testing.T) {
	store, db := newMigrated(t)
	first := objects(t, db)

	if _, err := store.MigrateDown(t.Context(), 0, false); err != nil {
		t.Fatal(err)
	}
	for _, o := range objects(t, db) {
		if strings.Contains(o, table) {
			t.Errorf("left behind: %s", o)
		}
	}
	if applied, err := store.Migrate(t.Context()); err != nil || !slices.Equal(applied, []int{1}) {
		t.Fatal(applied, err)
	}
	if second := objects(t, db); !slices.Equal(first, second) {
		t.Errorf("got %v, want %v", second, first)
	}
	if applied, err := store.Migrate(t.Context()); err != nil || len(applied) != 0 {
		t.Errorf("again: %v %v", applied, err)
	}
}

func TestMigratingDownRefusesToLoseMessages(t *testing.T) {
	store, _ := newMigrated(t)
	if _, err := store.EnqueueAutocommit(t.Context(), message("a")); err != nil {
		t.Fatal(err)
	}

	if _, err := store.MigrateDown(t.Context(), 0, false); err == nil {
		t.Error("it did not")
	}
	if _, err := store.MigrateDown(t.Context(), 0, true); err != nil {
		t.Error(err)
	}
}

func TestOutboxesOfOneFileAreIndependent(t *testing.T) {
	store, db := newMigrated(t)
	other, err := sqlitestore.New(db, sqlitestore.Config{Table: "hrm_outbox"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := other.EnqueueAutocommit(t.Context(), message("a")); err != nil {
		t.Fatal(err)
	}

	if _, err := store.MigrateDown(t.Context(), 0, false); err != nil {
		t.Fatal(err)
	}

	if err := other.CheckSchema(t.Context()); err != nil {
		t.Error(err)
	}
	if err := store.CheckSchema(t.Context()); !errors.Is(err, outbox.ErrSchema) {
		t.Errorf("the removed one: %v", err)
	}
}

func TestConcurrentMigratorsTakeTurns(t *testing.T) {
	file := newFile(t)
	var migrators sync.WaitGroup
	for range 4 {
		store := newStore(t, impatient(t, file))
		migrators.Go(func() {
			if _, err := store.Migrate(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	migrators.Wait()

	if err := newStore(t, open(t, file)).CheckSchema(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestASchemaThatDoesNotFitIsRefusedWithTheRemedy(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare string
		want    string
	}{
		{"missing", "", "does not exist: run `outbox migrate up --table shop_outbox`"},
		{"not an outbox", "CREATE TABLE shop_outbox (id INTEGER)", "is not an outbox"},
		{"too new", "INSERT INTO outbox_migration (table_name, version, name) VALUES ('shop_outbox', 2, 'later')", "upgrade this program"},
		{"too old", "UPDATE outbox_migration SET version = 0", "run `outbox migrate up --table shop_outbox`"},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := open(t, newFile(t))
			store := newStore(t, db)
			if strings.HasPrefix(c.name, "too") {
				migrated(t, db, store)
			}
			if c.prepare != "" {
				mustExec(t, db, c.prepare)
			}

			_, err := store.Acquire(t.Context(), outbox.LeaseRequest{Instance: "one"})

			if !errors.Is(err, outbox.ErrSchema) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestPrintedMigrationsCreateTheSameSchema(t *testing.T) {
	store, migratedDB := newMigrated(t)
	var text bytes.Buffer
	if err := store.PrintMigrations(&text, "sql", 0, store.LatestMigration()); err != nil {
		t.Fatal(err)
	}

	db := open(t, newFile(t))
	mustExec(t, db, text.String())

	if got, want := objects(t, db), objects(t, migratedDB); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if err := newStore(t, db).CheckSchema(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestMigrationsArePrintedForOtherTools(t *testing.T) {
	store, _ := newMigrated(t)
	latest := store.LatestMigration()
	for _, c := range []struct {
		format   string
		from, to int
		want     string
	}{
		{"sql", latest, 0, `DROP TABLE "shop_outbox"`},
		{"goose", 0, latest, "-- +goose Up"},
	} {
		var text bytes.Buffer
		if err := store.PrintMigrations(&text, c.format, c.from, c.to); err != nil {
			t.Error(err)
		}
		if !strings.Contains(text.String(), c.want) {
			t.Errorf("%s from %d to %d: no %q in\n%s", c.format, c.from, c.to, c.want, text.String())
		}
	}
}

func TestMigrationsAreExported(t *testing.T) {
	if _, err := fs.ReadFile(sqlitestore.Migrations, "0001_outbox.up.sql"); err != nil {
		t.Error(err)
	}
}

func TestMigrationStatusSaysWhatIsApplied(t *testing.T) {
	store, _ := newMigrated(t)

	list, err := store.MigrationStatus(t.Context())

	if err != nil || len(list) != 1 || !list[0].Applied || list[0].AppliedAt.IsZero() {
		t.Error(list, err)
	}
}
