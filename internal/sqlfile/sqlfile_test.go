package sqlfile_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/go-outbox/outbox/internal/sqlfile"
)

const claim = `-- claim: the oldest due messages.
-- Index: {{prefix}}_due.
SELECT sequence
  FROM {{table}} -- the outbox; nothing else
 WHERE due <= now();
`

func dir(files map[string]string) fs.FS {
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys["sql/"+name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

func vars() map[string]string { return sqlfile.Vars("hrm", "org_outbox", sqlfile.DoubleQuote) }

func TestLoadRendersTheStatementAndKeepsTheHeaderForPeople(t *testing.T) {
	files, err := sqlfile.Load(dir(map[string]string{"claim.sql": claim}), "sql", vars())
	if err != nil {
		t.Fatal(err)
	}

	got := files["claim.sql"]
	want := sqlfile.File{
		Header:    "claim: the oldest due messages.\nIndex: {{prefix}}_due.",
		Statement: "SELECT sequence\n  FROM \"hrm\".\"org_outbox\" -- the outbox; nothing else\n WHERE due <= now()",
	}
	if got != want {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestLoadReportsEveryMistakeByFile(t *testing.T) {
	_, err := sqlfile.Load(dir(map[string]string{
		"bare.sql":    "SELECT 1",
		"empty.sql":   "-- nothing\n;\n",
		"two.sql":     "-- two\nSELECT 1;\nSELECT 2;\n",
		"unknown.sql": "-- u\nSELECT {{tabel}}, {{lease}}, {{ table }}, {{tabel}}",
	}), "sql", vars())

	mustContain(t, err,
		"sql/bare.sql: no header comment",
		"sql/empty.sql: no statement",
		"sql/two.sql: more than one statement",
		"sql/unknown.sql: unknown placeholder {{tabel}}, {{ table }}",
	)
}

func TestLoadFailsOnADirectoryWithoutSQL(t *testing.T) {
	_, err := sqlfile.Load(dir(map[string]string{"claim.txt": claim}), "sql", vars())
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestRenderFillsTheTaggedFields(t *testing.T) {
	var stmts struct {
		Claim string `sql:"claim.sql"`
		Other string
	}
	if err := sqlfile.Render(dir(map[string]string{"claim.sql": claim}), "sql", vars(), &stmts); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(stmts.Claim, "SELECT sequence") || stmts.Other != "" {
		t.Errorf("got %+v", stmts)
	}
}

func TestRenderRefusesMissingFilesAndDeadSQL(t *testing.T) {
	var stmts struct {
		Claim  string `sql:"claim.sql"`
		Settle string `sql:"settle.sql"`
		Count  int    `sql:"count.sql"`
	}
	err := sqlfile.Render(dir(map[string]string{
		"claim.sql": claim,
		"count.sql": claim,
		"old.sql":   claim,
	}), "sql", vars(), &stmts)

	mustContain(t, err,
		"field Settle: sql/settle.sql: file does not exist",
		"field Count: want an exported string",
		"sql/old.sql: no field uses it",
	)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Error("a missing file is not fs.ErrNotExist")
	}
}

func TestRenderRefusesAnythingButAStructPointer(t *testing.T) {
	err := sqlfile.Render(dir(map[string]string{"claim.sql": claim}), "sql", vars(), struct{}{})
	mustContain(t, err, "want a pointer to a struct")
}

func TestExpandDoesNotExpandValues(t *testing.T) {
	got, err := sqlfile.Expand("{{a}} {{b}}", map[string]string{"a": "{{b}}", "b": "x"})
	if err != nil || got != "{{b}} x" {
		t.Errorf("got %q, %v", got, err)
	}
}

func mustContain(t testing.TB, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("missing %q in:\n%v", w, err)
		}
	}
}
