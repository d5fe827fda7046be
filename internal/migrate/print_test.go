package migrate_test

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/go-outbox/outbox/internal/migrate"
)

func printed(t testing.TB, set migrate.Set, format migrate.Format, from, to int) string {
	t.Helper()
	var b strings.Builder
	if err := migrate.Print(&b, set, format, from, to); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestPrintedSQLDoesWhatUpAndDownDo(t *testing.T) {
	set := mustLoad(t, files(), "org_outbox")
	ours, theirs := open(t, newFile(t), "org_outbox"), open(t, newFile(t), "org_outbox")
	mustUp(t, ours, set, 3)

	theirs.exec(t, printed(t, set, migrate.SQL, 0, 2))
	theirs.exec(t, printed(t, set, migrate.SQL, 2, 3))
	if err := migrate.Check(t.Context(), theirs, set); err != nil {
		t.Error(err)
	}
	if a, b := ours.schema(t), theirs.schema(t); !slices.Equal(a, b) {
		t.Errorf("migrated %v\nprinted %v", a, b)
	}

	theirs.exec(t, printed(t, set, migrate.SQL, 3, 0))
	mustVersion(t, theirs, 0)
}

func TestPrintedSQLReadsLikeAMigration(t *testing.T) {
	set := mustLoad(t, files(), "org_outbox")
	want := `
-- 0003_key up
-- Ordering key.
ALTER TABLE "org_outbox" ADD COLUMN msg_key TEXT;
INSERT INTO "outbox_migration" (table_name, version, name) VALUES ('org_outbox', 3, 'key');
`
	if got := printed(t, set, migrate.SQL, 2, 3); got != want {
		t.Errorf("got %s", got)
	}
}

func TestGooseOutputParsesBackToTheStatements(t *testing.T) {
	set := mustLoad(t, files(), "org_outbox")

	up, down := parseGoose(t, printed(t, set, migrate.Goose, 0, 3))

	var wantUp, wantDown []string
	for _, m := range set.Migrations {
		wantUp = append(wantUp, m.Up...)
		wantDown = slices.Concat(m.Down, wantDown)
	}
	if !slices.Equal(up, wantUp) {
		t.Errorf("up %q\nwant %q", up, wantUp)
	}
	if !slices.Equal(down, wantDown) {
		t.Errorf("down %q\nwant %q", down, wantDown)
	}
}

// parseGoose follows goose's documented annotations: one Up, then one Down,
// and everything between StatementBegin and StatementEnd is one statement.
func parseGoose(t testing.TB, text string) (up, down []string) {
	t.Helper()
	var section *[]string
	var statement []string
	fenced := false
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case line == "-- +goose Up" && section == nil:
			section = &up
		case line == "-- +goose Down" && section == &up && !fenced:
			section = &down
		case line == "-- +goose StatementBegin" && section != nil && !fenced:
			fenced, statement = true, nil
		case line == "-- +goose StatementEnd" && fenced:
			fenced = false
			*section = append(*section, strings.TrimSuffix(strings.Join(statement, "\n"), ";"))
		case fenced:
			statement = append(statement, line)
		case line != "" && (strings.HasPrefix(line, "-- +goose") || !strings.HasPrefix(line, "-- ")):
			t.Fatalf("unexpected %q", line)
		}
	}
	return up, down
}

func TestAtlasComesFromTheStore(t *testing.T) {
	set := mustLoad(t, files(), "org_outbox")
	if err := migrate.Print(io.Discard, set, migrate.Atlas, 0, 3); err == nil {
		t.Error("no store gave a schema, no error")
	}

	set.Atlas = func(w io.Writer) error {
		_, err := io.WriteString(w, "table")
		return err
	}
	if got := printed(t, set, migrate.Atlas, 0, 3); got != "table" {
		t.Errorf("got %q", got)
	}
}

func TestPrintRefusesUnknownFormatsAndVersions(t *testing.T) {
	set := mustLoad(t, files(), "org_outbox")
	if err := migrate.Print(io.Discard, set, "xml", 0, 3); err == nil || !strings.Contains(err.Error(), `"xml"`) {
		t.Errorf("got %v", err)
	}
	for _, v := range [][2]int{{-1, 3}, {0, 4}} {
		if err := migrate.Print(io.Discard, set, migrate.SQL, v[0], v[1]); err == nil {
			t.Errorf("printed %v", v)
		}
	}
}
