package sqlfile

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// maxTable leaves room for the longest side-table or index suffix within the
// 63 bytes PostgreSQL keeps of an identifier; it cuts the rest silently.
const maxTable = 40

var identifier = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// shared are the tables all outboxes of a schema have in common.
var shared = []string{"migration", "audit", "route", "job"}

// side are the tables every outbox has for itself.
var side = []string{"lease", "batch", "relay", "attempt"}

// ParseTable splits the name of an outbox table, "name" or "schema.name". When
// ok is false, reason says what is wrong in words an operator can act on.
// Upper case is refused rather than folded, because databases fold differently.
func ParseTable(name string) (schema, table string, ok bool, reason string) {
	schema, table, qualified := strings.Cut(name, ".")
	if !qualified {
		schema, table = "", name
	}
	switch {
	case qualified && !identifier.MatchString(schema):
		reason = fmt.Sprintf("schema %q must match %s", schema, identifier)
	case !identifier.MatchString(table):
		reason = fmt.Sprintf("table %q must match %s", table, identifier)
	case len(table) > maxTable:
		reason = fmt.Sprintf("table %q is longer than %d bytes, which its side tables need", table, maxTable)
	case isShared(table):
		reason = fmt.Sprintf("table %q is reserved for all outboxes of the schema", table)
	default:
		return schema, table, true, ""
	}
	return "", "", false, reason
}

func isShared(table string) bool {
	name, ok := strings.CutPrefix(table, "outbox_")
	return ok && slices.Contains(shared, name)
}

// A Quoter quotes one identifier for a dialect.
type Quoter func(identifier string) string

// DoubleQuote quotes for PostgreSQL and SQLite.
func DoubleQuote(identifier string) string { return quote(identifier, `"`) }

// Backtick quotes for MySQL and MariaDB.
func Backtick(identifier string) string { return quote(identifier, "`") }

func quote(identifier, mark string) string {
	return mark + strings.ReplaceAll(identifier, mark, mark+mark) + mark
}

// Vars returns the placeholders of one outbox, for names ParseTable accepted:
//
//	{{table}}                                     the outbox, qualified and quoted
//	{{lease}} {{batch}} {{relay}} {{attempt}}     its side tables, likewise
//	{{migration}} {{audit}} {{route}} {{job}}     the tables shared per schema, likewise
//	{{schema}}                                    the quoted schema and a dot, or nothing
//	{{prefix}}                                    the bare table name
//
// The last two build other names: {{schema}}"{{prefix}}_due". The caller may
// add to the map.
func Vars(schema, table string, quote Quoter) map[string]string {
	qualifier := ""
	if schema != "" {
		qualifier = quote(schema) + "."
	}
	vars := map[string]string{
		"schema": qualifier,
		"prefix": table,
		"table":  qualifier + quote(table),
	}
	for _, name := range side {
		vars[name] = qualifier + quote(table+"_"+name)
	}
	for _, name := range shared {
		vars[name] = qualifier + quote("outbox_"+name)
	}
	return vars
}
