package migrate_test

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-outbox/outbox/internal/migrate"
	"github.com/go-outbox/outbox/internal/sqlfile"
)

// files are three migrations; the second has the semicolons that a naive
// splitter trips over.
func files() map[string]string {
	return map[string]string{
		"0001_init.up.sql": `-- The tables all outboxes share, and this one.
CREATE TABLE IF NOT EXISTS {{migration}} (
    table_name TEXT NOT NULL,
    version    INTEGER NOT NULL,
    name       TEXT NOT NULL,
    applied_at INTEGER NOT NULL DEFAULT (unixepoch()),
    PRIMARY KEY (table_name, version)
);
-- statement
CREATE TABLE {{table}} (sequence INTEGER PRIMARY KEY, topic TEXT, published_at INTEGER);
`,
		"0001_init.down.sql": `DROP TABLE {{table}};`,
		"0002_log.up.sql": `CREATE TABLE {{attempt}} (note TEXT DEFAULT 'a;
b');
-- statement
CREATE TRIGGER "{{prefix}}_log" AFTER INSERT ON {{table}} BEGIN
    INSERT INTO {{attempt}} VALUES (NEW.topic);
    INSERT INTO {{attempt}} VALUES (NEW.topic);
END;
`,
		"0002_log.down.sql": `DROP TRIGGER "{{prefix}}_log";
-- statement
DROP TABLE {{attempt}};
`,
		"0003_key.up.sql":   "-- Ordering key.\nALTER TABLE {{table}} ADD COLUMN msg_key TEXT;\n",
		"0003_key.down.sql": "ALTER TABLE {{table}} DROP COLUMN msg_key",
	}
}

func load(files map[string]string, table string) (migrate.Set, error) {
	fsys := fstest.MapFS{"migrations": &fstest.MapFile{Mode: fs.ModeDir}}
	for name, text := range files {
		fsys["migrations/"+name] = &fstest.MapFile{Data: []byte(text)}
	}
	return migrate.Load(fsys, "migrations", table, sqlfile.Vars("", table, sqlfile.DoubleQuote))
}

func mustLoad(t testing.TB, files map[string]string, table string) migrate.Set {
	t.Helper()
	set, err := load(files, table)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func mustUp(t testing.TB, db migrate.Database, set migrate.Set, target int) []int {
	t.Helper()
	done, err := migrate.Up(t.Context(), db, set, target)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func mustVersion(t testing.TB, db migrate.Database, want int) {
	t.Helper()
	applied, err := db.Applied(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(applied) != want {
		t.Errorf("version %d, want %d", len(applied), want)
	}
}

func TestUpAppliesWhatIsMissingAndThenNothing(t *testing.T) {
	set, db := mustLoad(t, files(), "org_outbox"), open(t, newFile(t), "org_outbox")

	for _, tt := range []struct {
		target int
		want   []int
	}{{2, []int{1, 2}}, {3, []int{3}}, {3, nil}, {1, nil}} {
		if done := mustUp(t, db, set, tt.target); !slices.Equal(done, tt.want) {
			t.Errorf("up to %d applied %v, want %v", tt.target, done, tt.want)
		}
	}
	mustVersion(t, db, 3)

	db.exec(t, `INSERT INTO org_outbox (topic, msg_key) VALUES ('a', 'k')`)
	var notes int
	if err := db.db.QueryRowContext(t.Context(), `SELECT count(*) FROM org_outbox_attempt`).Scan(&notes); err != nil {
		t.Fatal(err)
	}
	if notes != 2 {
		t.Errorf("the trigger ran %d of its 2 statements", notes)
	}
}

func TestUpDownUpEndsWhereItBegan(t *testing.T) {
	set, db := mustLoad(t, files(), "org_outbox"), open(t, newFile(t), "org_outbox")
	mustUp(t, db, set, 3)
	before := db.schema(t)

	done, err := migrate.Down(t.Context(), db, set, 0, false)
	if err != nil || !slices.Equal(done, []int{3, 2, 1}) {
		t.Fatalf("down undid %v, %v", done, err)
	}
	mustVersion(t, db, 0)
	if left := db.schema(t); slices.Contains(left, "table org_outbox") || !slices.Contains(left, "table outbox_migration") {
		t.Errorf("left behind: %v", left)
	}
	if done, err := migrate.Down(t.Context(), db, set, 0, false); err != nil || done != nil {
		t.Errorf("a second down undid %v, %v", done, err)
	}

	mustUp(t, db, set, 3)
	if after := db.schema(t); !slices.Equal(before, after) {
		t.Errorf("before %v\nafter %v", before, after)
	}
}

func TestOutboxesOfOneSchemaHaveTheirOwnVersions(t *testing.T) {
	file := newFile(t)
	org, hrm := open(t, file, "org_outbox"), open(t, file, "hrm_outbox")
	mustUp(t, org, mustLoad(t, files(), "org_outbox"), 3)
	mustUp(t, hrm, mustLoad(t, files(), "hrm_outbox"), 2)

	if _, err := migrate.Down(t.Context(), org, mustLoad(t, files(), "org_outbox"), 0, false); err != nil {
		t.Fatal(err)
	}
	mustVersion(t, org, 0)
	mustVersion(t, hrm, 2)
}

func TestConcurrentMigratorsApplyEachVersionOnce(t *testing.T) {
	set, file := mustLoad(t, files(), "org_outbox"), newFile(t)
	const migrators = 4
	var dbs [migrators]*database
	for i := range dbs {
		dbs[i] = open(t, file, "org_outbox")
	}
	var done [migrators][]int
	var errs [migrators]error

	var wg sync.WaitGroup
	for i := range dbs {
		wg.Go(func() { done[i], errs[i] = migrate.Up(t.Context(), dbs[i], set, 3) })
	}
	wg.Wait()

	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	all := slices.Concat(done[:]...)
	slices.Sort(all)
	if !slices.Equal(all, []int{1, 2, 3}) {
		t.Errorf("applied %v between them", all)
	}
}

func TestAMigratorOvertakenBetweenStepsGoesOnFromThere(t *testing.T) {
	set, file := mustLoad(t, files(), "org_outbox"), newFile(t)
	slow, fast := open(t, file, "org_outbox"), open(t, file, "org_outbox")
	slow.beforeLock = func(n int) error {
		if n == 2 {
			mustUp(t, fast, set, 2)
		}
		return nil
	}

	if done := mustUp(t, slow, set, 3); !slices.Equal(done, []int{1, 3}) {
		t.Errorf("applied %v", done)
	}
	mustVersion(t, slow, 3)
}

func TestAFailedMigrationLeavesNothingBehind(t *testing.T) {
	broken := files()
	broken["0002_log.up.sql"] += "-- statement\nCREATE TABLE oops (;"
	set, db := mustLoad(t, broken, "org_outbox"), open(t, newFile(t), "org_outbox")

	done, err := migrate.Up(t.Context(), db, set, 3)
	partial, ok := errors.AsType[*migrate.PartialError](err)
	if !ok || partial.Failed != 2 || !slices.Equal(partial.Applied, []int{1}) || !slices.Equal(done, []int{1}) {
		t.Fatalf("applied %v, error %#v", done, err)
	}
	for _, want := range []string{"migrate org_outbox: completed 1, then: 0002_log up: statement 3: ", "incomplete input"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %q", want, err)
		}
	}
	mustVersion(t, db, 1)
	if slices.Contains(db.schema(t), "table org_outbox_attempt") {
		t.Error("half of version 2 was kept")
	}

	if done := mustUp(t, db, mustLoad(t, files(), "org_outbox"), 3); !slices.Equal(done, []int{2, 3}) {
		t.Errorf("repaired, it applied %v", done)
	}
}

func TestAFailureBetweenMigrationsReportsWhatWasApplied(t *testing.T) {
	set, db := mustLoad(t, files(), "org_outbox"), open(t, newFile(t), "org_outbox")
	errGone := errors.New("connection lost")
	db.beforeLock = func(n int) error {
		if n < 3 {
			return nil
		}
		return errGone
	}

	_, err := migrate.Up(t.Context(), db, set, 3)
	partial, ok := errors.AsType[*migrate.PartialError](err)
	if !ok || partial.Failed != 0 || !slices.Equal(partial.Applied, []int{1, 2}) || !errors.Is(err, errGone) {
		t.Fatalf("got %#v", err)
	}

	_, err = migrate.Up(t.Context(), db, set, 3)
	if _, ok := errors.AsType[*migrate.PartialError](err); ok || !errors.Is(err, errGone) {
		t.Errorf("nothing was begun, yet: %v", err)
	}
}

func TestDownRefusesWhileRowsArePendingUnlessForced(t *testing.T) {
	set, db := mustLoad(t, files(), "org_outbox"), open(t, newFile(t), "org_outbox")
	mustUp(t, db, set, 3)
	db.exec(t, `INSERT INTO org_outbox (topic) VALUES ('a'), ('b')`)

	_, err := migrate.Down(t.Context(), db, set, 1, false)
	if pending, ok := errors.AsType[*migrate.PendingError](err); !ok || pending.Rows != 2 {
		t.Fatalf("got %v", err)
	}
	mustVersion(t, db, 3)

	if done, err := migrate.Down(t.Context(), db, set, 1, true); err != nil || !slices.Equal(done, []int{3, 2}) {
		t.Fatalf("forced: %v, %v", done, err)
	}
	db.exec(t, `UPDATE org_outbox SET published_at = 1`)
	if done, err := migrate.Down(t.Context(), db, set, 0, false); err != nil || !slices.Equal(done, []int{1}) {
		t.Fatalf("published: %v, %v", done, err)
	}
}

func TestATargetNobodyKnowsIsRefused(t *testing.T) {
	set, db := mustLoad(t, files(), "org_outbox"), open(t, newFile(t), "org_outbox")
	for _, target := range []int{-1, 0, 4} {
		if _, err := migrate.Up(t.Context(), db, set, target); err == nil {
			t.Errorf("up to %d", target)
		}
	}
	for _, target := range []int{-1, 4} {
		if _, err := migrate.Down(t.Context(), db, set, target, false); err == nil {
			t.Errorf("down to %d", target)
		}
	}
	if db.locks != 0 {
		t.Error("the database was touched")
	}
}

func TestCheckSaysWhichCommandToRun(t *testing.T) {
	set, db := mustLoad(t, files(), "org_outbox"), open(t, newFile(t), "org_outbox")

	err := migrate.Check(t.Context(), db, set)
	if old, ok := errors.AsType[*migrate.TooOldError](err); !ok || old.Have != 0 || old.Want != 3 {
		t.Fatalf("got %v", err)
	}
	if !strings.Contains(err.Error(), "`outbox migrate up --table org_outbox`") {
		t.Error(err)
	}

	mustUp(t, db, set, 3)
	if err := migrate.Check(t.Context(), db, set); err != nil {
		t.Error(err)
	}
}

func TestAnOlderProgramDoesNotTouchANewerSchema(t *testing.T) {
	newer, db := mustLoad(t, files(), "org_outbox"), open(t, newFile(t), "org_outbox")
	mustUp(t, db, newer, 3)
	old := files()
	delete(old, "0003_key.up.sql")
	delete(old, "0003_key.down.sql")
	older := mustLoad(t, old, "org_outbox")

	_, up := migrate.Up(t.Context(), db, older, 2)
	_, down := migrate.Down(t.Context(), db, older, 0, true)
	for _, err := range []error{migrate.Check(t.Context(), db, older), up, down} {
		tooNew, ok := errors.AsType[*migrate.TooNewError](err)
		if !ok || tooNew.Have != 3 || tooNew.Want != 2 {
			t.Errorf("got %v", err)
		} else if !strings.Contains(err.Error(), "`outbox migrate down --table org_outbox --to 2`") {
			t.Error(err)
		}
	}
	mustVersion(t, db, 3)
}

func TestAHistoryWithAHoleIsRefused(t *testing.T) {
	set, db := mustLoad(t, files(), "org_outbox"), open(t, newFile(t), "org_outbox")
	mustUp(t, db, set, 3)
	db.exec(t, `DELETE FROM outbox_migration WHERE version = 2`)

	_, up := migrate.Up(t.Context(), db, set, 3)
	for _, err := range []error{migrate.Check(t.Context(), db, set), up} {
		if err == nil || !strings.Contains(err.Error(), "records version 3 where 2 should be") {
			t.Errorf("got %v", err)
		}
	}
}

func TestReadStatusListsKnownAndForeignVersions(t *testing.T) {
	set, db := mustLoad(t, files(), "org_outbox"), open(t, newFile(t), "org_outbox")
	mustUp(t, db, set, 2)
	db.exec(t, `INSERT INTO outbox_migration (table_name, version, name) VALUES ('org_outbox', 4, 'later')`)
	db.exec(t, `UPDATE outbox_migration SET applied_at = 1700000000`)

	got, err := migrate.ReadStatus(t.Context(), db, set)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1700000000, 0)
	want := []migrate.Status{
		{Version: 1, Name: "init", Applied: true, AppliedAt: at},
		{Version: 2, Name: "log", Applied: true, AppliedAt: at},
		{Version: 3, Name: "key"},
		{Version: 4, Name: "later", Applied: true, AppliedAt: at},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}
