package pgstore_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/store/pgstore"
)

func TestMigrationsGoUpDownAndUpAgain(t *testing.T) {
	pool := testenv.Postgres(t).Pool(t)
	store := newStore(t, pool, pgstore.Config{Table: "shop_outbox"})
	first := objects(t, pool)

	if _, err := store.MigrateDown(t.Context(), 0, false); err != nil {
		t.Fatal(err)
	}
	left := objects(t, pool)
	if slices.ContainsFunc(left, func(o string) bool { return strings.Contains(o, "shop_outbox") }) {
		t.Errorf("left behind: %v", left)
	}
	if _, err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}

	if again := objects(t, pool); !slices.Equal(first, again) {
		t.Errorf("objects differ:\nfirst %v\nagain %v", first, again)
	}
	if err := store.CheckSchema(t.Context()); err != nil {
		t.Error(err)
	}
}

func objects(t testing.TB, pool *pgxpool.Pool) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT relkind::text || ' ' || relname FROM pg_class
		WHERE relnamespace = 'public'::regnamespace ORDER BY 1`, pgx.QueryExecModeExec)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestMigrateDownRefusesWhileMessagesWait(t *testing.T) {
	pool := testenv.Postgres(t).Pool(t)
	store := newStore(t, pool, pgstore.Config{})
	if _, err := store.EnqueueAutocommit(t.Context(), message("a")); err != nil {
		t.Fatal(err)
	}

	if _, err := store.MigrateDown(t.Context(), 0, false); err == nil || !strings.Contains(err.Error(), "1 unpublished") {
		t.Errorf("got %v, want a refusal that counts the rows", err)
	}
	if _, err := store.MigrateDown(t.Context(), 0, true); err != nil {
		t.Errorf("forced: %v", err)
	}
}

func TestConcurrentMigratorsOfSeveralTablesAllSucceed(t *testing.T) {
	pool := testenv.Postgres(t).Pool(t)
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		store := openStore(t, pool, pgstore.Config{Table: fmt.Sprintf("m%d_outbox", i%2)})
		wg.Go(func() { _, errs[i] = store.Migrate(t.Context()) })
	}
	wg.Wait()

	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestCheckSchemaSaysWhatToRun(t *testing.T) {
	pool := testenv.Postgres(t).Pool(t)
	store := openStore(t, pool, pgstore.Config{Table: "shop_outbox"})
	check := func(name, want string) {
		t.Helper()
		err := store.CheckSchema(t.Context())
		if !errors.Is(err, outbox.ErrSchema) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want ErrSchema with %q", name, err, want)
		}
	}

	check("missing", "outbox migrate up --table shop_outbox")
	if _, err := store.EnqueueAutocommit(t.Context(), message("a")); !errors.Is(err, outbox.ErrSchema) {
		t.Errorf("enqueue: got %v, want ErrSchema", err)
	}
	if _, err := store.Acquire(t.Context(), outbox.LeaseRequest{Instance: "x", TTL: 1e9}); !errors.Is(err, outbox.ErrSchema) {
		t.Errorf("acquire: got %v, want ErrSchema", err)
	}
	if _, err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	exec(t, pool, `INSERT INTO outbox_migration (table_name, version, name) VALUES ('shop_outbox', $1, 'future')`, store.LatestMigration()+1)
	check("too new", "upgrade this program")
	exec(t, pool, `DELETE FROM outbox_migration WHERE table_name = 'shop_outbox'`)
	check("too old", "outbox migrate up --table shop_outbox")
	exec(t, pool, `DROP TABLE shop_outbox CASCADE`)
	exec(t, pool, `CREATE TABLE shop_outbox (id int)`)
	exec(t, pool, `INSERT INTO outbox_migration (table_name, version, name) SELECT 'shop_outbox', v, 'x' FROM generate_series(1, $1::int) v`, store.LatestMigration())
	store.Forget()
	check("not an outbox", "not an outbox")
}

func TestTableNamesThatAreNotPlainAreRefusedBeforeAnySQL(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for _, table := range []string{
		"", `a"; DROP TABLE x; --`, "Upper", "a.b.c", "nul\x00", "a b", strings.Repeat("x", 41), "outbox_audit", "ä",
	} {
		if _, err := pgstore.New(pool, pgstore.Config{Table: table}); !errors.Is(err, outbox.ErrInvalidTable) {
			t.Errorf("%q: got %v, want ErrInvalidTable", table, err)
		}
	}
}

func TestPrintedMigrationsCreateTheSameObjects(t *testing.T) {
	migrated, printed := testenv.Postgres(t).Pool(t), testenv.Postgres(t).Pool(t)
	store := newStore(t, migrated, pgstore.Config{Table: "shop_outbox"})
	var sql, goose, atlas strings.Builder
	for format, into := range map[string]*strings.Builder{"sql": &sql, "goose": &goose, "atlas": &atlas} {
		if err := store.PrintMigrations(into, format, 0, store.LatestMigration()); err != nil {
			t.Fatal(err)
		}
	}

	if _, err := printed.Exec(t.Context(), sql.String(), pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}

	if a, b := objects(t, migrated), objects(t, printed); !slices.Equal(a, b) {
		t.Errorf("objects differ:\nmigrated %v\nprinted  %v", a, b)
	}
	if !strings.Contains(goose.String(), "-- +goose Down") {
		t.Error("goose output has no down part")
	}
	compareAtlas(t, migrated, atlas.String())
}

// compareAtlas checks that the HCL names every table and column there is.
func compareAtlas(t *testing.T, pool *pgxpool.Pool, hcl string) {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT c.relname, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
		WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 ORDER BY 1, a.attnum`, pgx.QueryExecModeExec)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{}
	var table, column string
	if _, err := pgx.ForEachRow(rows, []any{&table, &column}, func() error {
		want[table] = append(want[table], column)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, m := range regexp.MustCompile(`(?m)^table "(\w+)"|^  column "(\w+)"`).FindAllStringSubmatch(hcl, -1) {
		if m[1] != "" {
			table = m[1]
		} else {
			got[table] = append(got[table], m[2])
		}
	}
	for table, columns := range want {
		if !slices.Equal(got[table], columns) {
			t.Errorf("atlas: table %s has columns %v, want %v", table, got[table], columns)
		}
	}
}

func TestTablesLiveInTheirOwnSchema(t *testing.T) {
	pool := testenv.Postgres(t).Pool(t)
	exec(t, pool, `CREATE SCHEMA shop`)
	store := newStore(t, pool, pgstore.Config{Table: "shop.order_outbox"})
	if _, err := store.EnqueueAutocommit(t.Context(), message("a")); err != nil {
		t.Fatal(err)
	}

	lease := acquire(t, store)
	if got := read(t, lease); len(got) != 1 {
		t.Errorf("read %d messages, want 1", len(got))
	}
	if left := objects(t, pool); len(left) != 0 {
		t.Errorf("public has %v", left)
	}
}

func TestAHostileSearchPathChangesNothing(t *testing.T) {
	env := testenv.Postgres(t)
	pool := env.Pool(t)
	newStore(t, pool, pgstore.Config{Table: "shop_outbox"})
	exec(t, pool, `CREATE SCHEMA evil`)
	for _, object := range []string{
		`CREATE TABLE evil.shop_outbox (LIKE public.shop_outbox INCLUDING ALL)`,
		`CREATE TABLE evil.shop_outbox_lease (LIKE public.shop_outbox_lease INCLUDING ALL)`,
		`CREATE FUNCTION evil.num_nonnulls(timestamptz, timestamptz) RETURNS int LANGUAGE sql AS 'SELECT 2'`,
		`CREATE FUNCTION evil.now() RETURNS timestamptz LANGUAGE sql AS $$SELECT 'epoch'::timestamptz$$`,
		`CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$SELECT 'epoch'::timestamptz$$`,
		`CREATE FUNCTION evil.unnest(uuid[], text[]) RETURNS SETOF text LANGUAGE sql AS $$SELECT 'x'$$`,
	} {
		exec(t, pool, object)
	}
	cfg, err := pgxpool.ParseConfig(env.DSN())
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnConfig.RuntimeParams["search_path"] = "evil, pg_catalog, public"
	hostile, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer hostile.Close()
	store := openStore(t, hostile, pgstore.Config{Table: "shop_outbox"})

	if _, err := store.EnqueueAutocommit(t.Context(), message("a")); err != nil {
		t.Fatal(err)
	}
	lease := acquire(t, store)
	got := read(t, lease)

	if len(got) != 1 || !got[0].Due {
		t.Fatalf("read %v, want one due message", got)
	}
	if err := lease.Step(t.Context(), outbox.Step{Outcomes: []outbox.Outcome{{Sequence: got[0].Sequence, Spent: 1}}}); err != nil {
		t.Fatal(err)
	}
	if n := count(t, pool, `SELECT count(*) FROM public.shop_outbox WHERE published_at > now() - interval '1 hour'`); n != 1 {
		t.Errorf("%d messages published, want 1", n)
	}
}

// A connection that has seen that there is no record of migrations must not go on
// believing it after it has waited for another migrator.
func TestMigratorsThatHaveLookedBeforeWaitForEachOther(t *testing.T) {
	pool := testenv.Postgres(t).Pool(t)
	var group errgroup
	for i := range 6 {
		store, err := pgstore.New(pool, pgstore.Config{Table: fmt.Sprintf("t%d_outbox", i)})
		if err != nil {
			t.Fatal(err)
		}
		if err := store.CheckSchema(t.Context()); !errors.Is(err, outbox.ErrSchema) {
			t.Fatalf("got %v", err)
		}
		group.Go(func() error { _, err := store.Migrate(t.Context()); return err })
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

// errgroup collects the errors of goroutines.
type errgroup struct {
	sync.WaitGroup

	mu   sync.Mutex
	errs []error
}

func (g *errgroup) Go(f func() error) {
	g.WaitGroup.Go(func() {
		if err := f(); err != nil {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.errs = append(g.errs, err)
		}
	})
}

func (g *errgroup) Wait() error {
	g.WaitGroup.Wait()
	return errors.Join(g.errs...)
}
