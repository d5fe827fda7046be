package mysqlstore_test

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
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/store/mysqlstore"
)

// objects lists the columns and indexes of a database.
func objects(t *testing.T, db *sql.DB) []string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `
		SELECT CONCAT_WS(' ', table_name, column_name, column_type, is_nullable, collation_name, extra) FROM information_schema.columns WHERE table_schema = DATABASE()
		UNION ALL
		SELECT CONCAT_WS(' ', 'index', table_name, index_name, seq_in_index, column_name) FROM information_schema.statistics WHERE table_schema = DATABASE()
		ORDER BY 1`)
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

// DDL commits by itself: what an interrupted migration has made is there.
func TestAnInterruptedMigrationIsContinued(t *testing.T) {
	for _, missing := range []string{"_lease", "_batch", "_attempt", ""} {
		store, db := newMigrated(t)
		want := objects(t, db)
		mustExec(t, db, "DELETE FROM outbox_migration")
		mustExec(t, db, "DROP TABLE "+table+missing)

		if _, err := store.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}

		if got := objects(t, db); !slices.Equal(got, want) {
			t.Errorf("without %q: got %v, want %v", missing, got, want)
		}
		acquire(t, store, "one")
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

func TestOutboxesOfOneDatabaseAreIndependent(t *testing.T) {
	store, db := newMigrated(t)
	other, err := mysqlstore.New(db, mysqlstore.Config{Table: "hrm_outbox"})
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

func TestATableMayBeInAnotherDatabase(t *testing.T) {
	db, elsewhere := testenv.MySQL(t).Open(t), testenv.MySQL(t).Open(t)
	var name string
	if err := elsewhere.QueryRowContext(t.Context(), "SELECT DATABASE()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	store, err := mysqlstore.New(db, mysqlstore.Config{Table: name + "." + table})
	if err != nil {
		t.Fatal(err)
	}
	migrated(t, store)

	id, err := store.EnqueueAutocommit(t.Context(), message("a"))
	if err != nil {
		t.Fatal(err)
	}

	if page := read(t, acquire(t, newStore(t, elsewhere), "one"), outbox.ReadRequest{Limit: 1}); page.Last != id {
		t.Errorf("read up to %d, want %d", page.Last, id)
	}
	if got := objects(t, db); len(got) > 0 {
		t.Errorf("the connection's own database has %v", got)
	}
}

func TestConcurrentMigratorsTakeTurns(t *testing.T) {
	m := testenv.MySQL(t)
	var migrators sync.WaitGroup
	for range 4 {
		store := newStore(t, m.Open(t))
		migrators.Go(func() {
			if _, err := store.Migrate(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	migrators.Wait()

	if err := newStore(t, m.Open(t)).CheckSchema(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestASchemaThatDoesNotFitIsRefusedWithTheRemedy(t *testing.T) {
	for _, c := range []struct {
		name     string
		migrated bool
		prepare  string
		want     string
	}{
		{"missing", false, "", "does not exist: run `outbox migrate up --table shop_outbox`"},
		{"not an outbox", false, "CREATE TABLE shop_outbox (id BIGINT PRIMARY KEY, topic VARCHAR(255))", "is not an outbox: choose another name"},
		{"too new", true, "INSERT INTO outbox_migration (table_name, version, name) VALUES ('shop_outbox', 2, 'later')", "upgrade this program"},
		{"too old", true, "DELETE FROM outbox_migration", "run `outbox migrate up --table shop_outbox`"},
		{
			"wrong collation", true, "ALTER TABLE shop_outbox MODIFY COLUMN topic VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL",
			"column topic has the collation utf8mb4_general_ci, which takes different texts for equal, and needs utf8mb4_bin: ALTER TABLE shop_outbox MODIFY COLUMN topic VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL",
		},
		{
			"a column too short", true, "ALTER TABLE shop_outbox MODIFY COLUMN tenant_id VARCHAR(20) NOT NULL DEFAULT ''",
			"column tenant_id holds 20 characters and must hold 255: ALTER TABLE shop_outbox MODIFY COLUMN tenant_id VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ''",
		},
		{
			"a payload that is checked and converted", true, "ALTER TABLE shop_outbox MODIFY COLUMN payload TEXT NOT NULL",
			"column payload is text and not longblob",
		},
		{
			"seconds without a fraction", true, "ALTER TABLE shop_outbox MODIFY COLUMN published_at DATETIME NULL",
			"column published_at has 0 digits of a second and needs 6",
		},
		{
			"times that the session converts", true, "ALTER TABLE shop_outbox MODIFY COLUMN dead_at TIMESTAMP(6) NULL",
			"column dead_at is timestamp and not datetime",
		},
		{"a column missing", true, "ALTER TABLE shop_outbox DROP COLUMN routes_done", "column routes_done is missing: ALTER TABLE shop_outbox ADD COLUMN routes_done"},
		{"no transactions", true, "ALTER TABLE shop_outbox ENGINE=Aria", "the engine is Aria, which has no transactions: ALTER TABLE shop_outbox ENGINE=InnoDB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := testenv.MySQL(t).Open(t)
			store := newStore(t, db)
			if c.migrated {
				migrated(t, store)
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

func TestATableOfSomebodyElseIsNotMigrated(t *testing.T) {
	db := testenv.MySQL(t).Open(t)
	mustExec(t, db, "CREATE TABLE shop_outbox (id BIGINT PRIMARY KEY)")

	_, err := newStore(t, db).Migrate(t.Context())

	if !errors.Is(err, outbox.ErrSchema) || !strings.Contains(err.Error(), "is not an outbox") {
		t.Errorf("got %v", err)
	}
}

func TestConnectionsThatDoNotFitAreRefusedWithTheRemedy(t *testing.T) {
	m := testenv.MySQL(t)
	migrated(t, newStore(t, m.Open(t)))
	for _, c := range []struct{ param, want string }{
		{"charset=latin1", "charset=utf8mb4"},
		{"charset=utf8", "charset=utf8mb4"},
		{"autocommit=0", "remove autocommit=0"},
	} {
		_, err := newStore(t, m.Open(t, c.param)).Acquire(t.Context(), outbox.LeaseRequest{Instance: "one"})
		if !errors.Is(err, outbox.ErrInvalidConfig) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.param, err, c.want)
		}
	}
}

func TestPrintedMigrationsCreateTheSameSchema(t *testing.T) {
	store, migratedDB := newMigrated(t)
	var text bytes.Buffer
	if err := store.PrintMigrations(&text, "sql", 0, store.LatestMigration()); err != nil {
		t.Fatal(err)
	}

	db := testenv.MySQL(t).Open(t, "multiStatements=true")
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
		{"sql", latest, 0, "DROP TABLE IF EXISTS `shop_outbox`"},
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
	if _, err := fs.ReadFile(mysqlstore.Migrations, "0001_outbox.up.sql"); err != nil {
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
