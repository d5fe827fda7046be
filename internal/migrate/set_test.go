package migrate_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/go-outbox/outbox/internal/migrate"
)

func TestLoadEndsEachDirectionWithItsRecord(t *testing.T) {
	set := mustLoad(t, files(), "org_outbox")

	got := set.Migrations[2]
	if want := []string{
		"-- Ordering key.\nALTER TABLE \"org_outbox\" ADD COLUMN msg_key TEXT",
		`INSERT INTO "outbox_migration" (table_name, version, name) VALUES ('org_outbox', 3, 'key')`,
	}; !slices.Equal(got.Up, want) {
		t.Errorf("up %q", got.Up)
	}
	if want := []string{
		`ALTER TABLE "org_outbox" DROP COLUMN msg_key`,
		`DELETE FROM "outbox_migration" WHERE table_name = 'org_outbox' AND version = 3`,
	}; !slices.Equal(got.Down, want) {
		t.Errorf("down %q", got.Down)
	}
}

func TestLoadRefuses(t *testing.T) {
	tests := []struct {
		name   string
		change map[string]string // an empty text removes the file
		want   string
	}{
		{"a hole in the numbers", map[string]string{"0002_log.up.sql": "", "0002_log.down.sql": ""}, "version 2: missing"},
		{"a missing down file", map[string]string{"0003_key.down.sql": ""}, "version 3: no usable down file"},
		{"a missing up file", map[string]string{"0003_key.up.sql": ""}, "version 3: no usable up file"},
		{"two names for a version", map[string]string{"0003_other.up.sql": "SELECT 1"}, "0003_other.up.sql: version 3 is also named key"},
		{"version zero", map[string]string{"0000_a.up.sql": "SELECT 1"}, "0000_a.up.sql: versions start at 0001"},
		{"a stray file", map[string]string{"README.md": "hello"}, "README.md: not named"},
		{"an unknown placeholder", map[string]string{"0003_key.up.sql": "SELECT {{tabel}}"}, "0003_key.up.sql: unknown placeholder {{tabel}}"},
		{"an empty statement", map[string]string{"0003_key.up.sql": "SELECT 1;\n-- statement\n"}, "statement 2 is empty"},
		{"a comment alone", map[string]string{"0003_key.up.sql": "-- hello\n-- statement\nSELECT 1"}, "statement 1 ends in a comment"},
		{"a comment at the end", map[string]string{"0003_key.up.sql": "SELECT 1 -- one"}, "statement 1 ends in a comment"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			changed := files()
			maps.Copy(changed, tt.change)
			maps.DeleteFunc(changed, func(_, text string) bool { return text == "" })

			_, err := load(changed, "org_outbox")
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestLoadRefusesAnEmptyDirectory(t *testing.T) {
	if _, err := load(nil, "org_outbox"); err == nil {
		t.Error("no error")
	}
}

func TestLoadReadsWindowsLineEnds(t *testing.T) {
	crlf := files()
	for name, text := range crlf {
		crlf[name] = strings.ReplaceAll(text, "\n", "\r\n")
	}
	if n := len(mustLoad(t, crlf, "org_outbox").Migrations[0].Up); n != 3 {
		t.Errorf("%d statements in the first migration", n)
	}
}

func TestValidate(t *testing.T) {
	set := migrate.Set{Table: "t", Migrations: make([]migrate.Migration, 2)}
	if err := set.Validate(2); err != nil {
		t.Error(err)
	}
	if _, ok := errors.AsType[*migrate.TooOldError](set.Validate(1)); !ok {
		t.Error(set.Validate(1))
	}
	if _, ok := errors.AsType[*migrate.TooNewError](set.Validate(3)); !ok {
		t.Error(set.Validate(3))
	}
}
