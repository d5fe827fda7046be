package sqlitestore_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-outbox/outbox/store/sqlitestore"
)

func TestDiagnoseFindsWhatIsWrongAndHowToMendIt(t *testing.T) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "shop.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	store, err := sqlitestore.New(db, sqlitestore.Config{Table: "shop_outbox"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	diagnose := func() string {
		t.Helper()
		var b strings.Builder
		err := store.Diagnose(t.Context(), func(name, level, text, fix string) { fmt.Fprintf(&b, "%s %s: %s | %s\n", name, level, text, fix) })
		if err != nil {
			t.Fatal(err)
		}
		return b.String()
	}

	if got := diagnose(); !strings.Contains(got, "journal warning: ") || !strings.Contains(got, "PRAGMA journal_mode = WAL") {
		t.Errorf("a file without a write-ahead log was not found:\n%s", got)
	}
	if err := sqlitestore.Prepare(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if got := diagnose(); strings.Contains(got, "warning") || strings.Contains(got, "error") {
		t.Errorf("a sound file has findings:\n%s", got)
	}
	if _, err := db.ExecContext(t.Context(), "DROP INDEX shop_outbox_dead"); err != nil {
		t.Fatal(err)
	}
	if got := diagnose(); !strings.Contains(got, "indexes error: the index shop_outbox_dead is missing | create it") {
		t.Errorf("a missing index was not found:\n%s", got)
	}
}
