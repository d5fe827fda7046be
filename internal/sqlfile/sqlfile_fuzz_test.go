package sqlfile_test

import (
	"strings"
	"testing"

	"github.com/go-outbox/outbox/internal/sqlfile"
)

// A name that is accepted is a plain identifier that fits with every suffix, and quoting
// it changes nothing. A name that is refused says why.
func FuzzParseTable(f *testing.F) {
	for _, seed := range []string{"outbox", "shop.outbox", "outbox_audit", "a.b.c", ".", "Outbox", `x"; DROP TABLE y; --`, "é", "a\x00", strings.Repeat("a", 41)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		schema, table, ok, reason := sqlfile.ParseTable(name)
		if !ok {
			if reason == "" || schema != "" || table != "" {
				t.Errorf("%q is refused with %q, %q, %q", name, schema, table, reason)
			}
			return
		}
		if whole := strings.TrimPrefix(schema+"."+table, "."); whole != name {
			t.Errorf("%q became %q", name, whole)
		}
		if len(table) > 40 || strings.Trim(schema+table, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
			t.Errorf("%q is accepted", name)
		}
		for _, quote := range []sqlfile.Quoter{sqlfile.DoubleQuote, sqlfile.Backtick} {
			for name, value := range sqlfile.Vars(schema, table, quote) {
				if strings.ContainsAny(value, "'; \n\\") {
					t.Errorf("{{%s}} is %s", name, value)
				}
			}
		}
	})
}

// Whatever an identifier holds, quoted it is one identifier: its own marks are doubled
// and nothing ends it early.
func FuzzQuote(f *testing.F) {
	for _, seed := range []string{"a", `"`, "`", `a"b`, `""`, "", `";--`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		for mark, quote := range map[string]sqlfile.Quoter{`"`: sqlfile.DoubleQuote, "`": sqlfile.Backtick} {
			quoted := quote(name)
			inner, ok := strings.CutPrefix(quoted, mark)
			inner, ok2 := strings.CutSuffix(inner, mark)
			if !ok || !ok2 || strings.ReplaceAll(inner, mark+mark, "") != strings.ReplaceAll(name, mark, "") {
				t.Errorf("%q is quoted as %s", name, quoted)
			}
			if strings.ReplaceAll(inner, mark+mark, mark) != name {
				t.Errorf("%q is quoted as %s", name, quoted)
			}
		}
	})
}

// Values are filled in once: a value that looks like a placeholder stays as it is.
func FuzzExpand(f *testing.F) {
	f.Add("SELECT {{table}}", "outbox")
	f.Add("{{table}}{{table}}", "{{table}}")
	f.Add("{{ {{table}} }}", "x")
	f.Add("{{nobody}}", "x")
	f.Fuzz(func(t *testing.T, text, value string) {
		out, err := sqlfile.Expand(text, map[string]string{"table": value})
		if err == nil && !strings.Contains(text, "{{") && out != text {
			t.Errorf("%q without a placeholder became %q", text, out)
		}
		if err == nil && text == "{{table}}" && out != value {
			t.Errorf("%q became %q", value, out)
		}
	})
}
