package sqlfile_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/go-outbox/outbox/internal/sqlfile"
)

func TestParseTable(t *testing.T) {
	long := strings.Repeat("a", 41)
	tests := []struct {
		name          string
		schema, table string
		reason        string
	}{
		{"org_outbox", "", "org_outbox", ""},
		{"hrm.org_outbox", "hrm", "org_outbox", ""},
		{"_x1", "", "_x1", ""},
		{long[:40], "", long[:40], ""},
		{"outbox", "", "outbox", ""},
		{"migration", "", "migration", ""},
		{"", "", "", `table "" must match`},
		{".org_outbox", "", "", `schema "" must match`},
		{"hrm.", "", "", `table "" must match`},
		{"a.b.c", "", "", `table "b.c" must match`},
		{"Org", "", "", `table "Org" must match`},
		{"1st", "", "", `table "1st" must match`},
		{`x"; DROP TABLE y; --`, "", "", "must match"},
		{"x\n", "", "", "must match"},
		{long, "", "", "longer than 40 bytes"},
		{strings.Repeat("s", 64) + ".x", "", "", "schema"},
		{"hrm.outbox_route", "", "", "reserved"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			schema, table, ok, reason := sqlfile.ParseTable(tt.name)
			if schema != tt.schema || table != tt.table {
				t.Errorf("got %q, %q", schema, table)
			}
			if ok != (tt.reason == "") || !strings.Contains(reason, tt.reason) || ok != (reason == "") {
				t.Errorf("ok %v, reason %q, want %q", ok, reason, tt.reason)
			}
		})
	}
}

func TestQuotersDoubleTheirOwnMark(t *testing.T) {
	if got := sqlfile.DoubleQuote(`a"b`); got != `"a""b"` {
		t.Error(got)
	}
	if got := sqlfile.Backtick("a`b"); got != "`a``b`" {
		t.Error(got)
	}
}

func TestVarsQualifyEveryTable(t *testing.T) {
	got := sqlfile.Vars("hrm", "org", sqlfile.Backtick)
	want := map[string]string{
		"schema": "`hrm`.", "prefix": "org", "table": "`hrm`.`org`",
		"lease": "`hrm`.`org_lease`", "batch": "`hrm`.`org_batch`",
		"relay": "`hrm`.`org_relay`", "attempt": "`hrm`.`org_attempt`",
		"migration": "`hrm`.`outbox_migration`", "audit": "`hrm`.`outbox_audit`", "route": "`hrm`.`outbox_route`", "job": "`hrm`.`outbox_job`",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestVarsLeaveAnUnqualifiedTableToTheSearchPath(t *testing.T) {
	got := sqlfile.Vars("", "org", sqlfile.DoubleQuote)
	if got["schema"] != "" || got["table"] != `"org"` {
		t.Errorf("got %v", got)
	}
}
