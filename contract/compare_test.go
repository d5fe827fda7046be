package contract_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/go-outbox/outbox/contract"
)

// want is the worst level, the kind and the path of the change that decides, as
// "kind path"; nothing for schemas that mean the same.
var pairs = []struct {
	name     string
	old, new string
	level    contract.Level
	want     string
}{
	// Nothing changed for payloads.
	{"the same", `{"type":"object"}`, `{"type":"object"}`, contract.Compatible, ""},
	{"a description", `{"type":"string"}`, `{"type":"string","title":"T","description":"D","examples":["x"]}`, contract.Compatible, ""},
	{"fields in another order", obj(`"a":{"type":"string"},"b":{"type":"number"}`), obj(`"b":{"type":"number"},"a":{"type":"string"}`), contract.Compatible, ""},
	{"required in another order", `{"required":["a","b"]}`, `{"required":["b","a"]}`, contract.Compatible, ""},
	{"an enumeration in another order", `{"enum":["a","b"]}`, `{"enum":["b","a"]}`, contract.Compatible, ""},
	{"one type in a list", `{"type":"string"}`, `{"type":["string"]}`, contract.Compatible, ""},
	{"a constant as an enumeration", `{"const":"a"}`, `{"enum":["a"]}`, contract.Compatible, ""},
	{"the same number written differently", `{"minimum":1}`, `{"minimum":1.0}`, contract.Compatible, ""},
	{"above 0 and at least 1 of integers", `{"type":"integer","exclusiveMinimum":0}`, `{"type":"integer","minimum":1}`, contract.Compatible, ""},
	{"a minimal length of 0", `{"type":"string"}`, `{"type":"string","minLength":0}`, contract.Compatible, ""},
	{"moved into a definition", obj(`"a":{"type":"string"}`), `{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"string"}}}`, contract.Compatible, ""},
	{"moved into allOf", obj(`"a":{"type":"string"},"b":{"type":"string"}`), `{"type":"object","properties":{"a":{"type":"string"}},"allOf":[{"properties":{"b":{"type":"string"}}}]}`, contract.Compatible, ""},
	{"nullable with anyOf", `{"type":["string","null"]}`, `{"anyOf":[{"type":"null"},{"type":"string"}]}`, contract.Compatible, ""},
	{"an enumeration with oneOf", `{"enum":["a","b"]}`, `{"oneOf":[{"const":"a","title":"A"},{"const":"b"}]}`, contract.Compatible, ""},
	{"types with anyOf", `{"type":["string","integer"]}`, `{"anyOf":[{"type":"integer"},{"type":"string"}]}`, contract.Compatible, ""},
	{"true and nothing", `true`, `{}`, contract.Compatible, ""},
	{"additionalProperties true", obj(``), `{"type":"object","additionalProperties":true}`, contract.Compatible, ""},
	{"a recursive schema", tree(`"type":"string"`), tree(`"type":"string"`), contract.Compatible, ""},
	{"alternatives in another order", either(`"a"`, `"b"`), either(`"b"`, `"a"`), contract.Compatible, ""},
	{"an unused definition", obj(``), `{"type":"object","$defs":{"x":{"type":"string"}}}`, contract.Compatible, ""},
	{"another draft", `{"$schema":"http://json-schema.org/draft-07/schema#","type":"array","items":{"type":"string"}}`, `{"type":"array","items":{"type":"string"}}`, contract.Compatible, ""},
	{"items as tuples of two drafts", `{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"}],"additionalItems":false}`, `{"prefixItems":[{"type":"string"}],"items":false}`, contract.Compatible, ""},

	// Compatible changes.
	{"an optional field added", obj(`"a":{"type":"string"}`), obj(`"a":{"type":"string"},"b":{"type":"string"}`), contract.Compatible, "field_added /b"},
	{"an optional field added to a closed object", closed(`"a":{"type":"string"}`), closed(`"a":{"type":"string"},"b":{"type":"string"}`), contract.Compatible, "field_added /b"},
	{"an optional object with required parts added", obj(``), obj(`"b":{"type":"object","required":["c"]}`), contract.Compatible, "field_added /b"},
	{"an optional field added in an item", list(obj(`"a":true`)), list(obj(`"a":true,"b":true`)), contract.Compatible, "field_added /*/b"},
	{"a closed object opened", closed(``), obj(``), contract.Compatible, "object_opened "},
	{"a field deprecated", obj(`"a":{"type":"string"}`), obj(`"a":{"type":"string","deprecated":true}`), contract.Compatible, "field_deprecated /a"},
	{"a forbidden field allowed", obj(`"a":false`), obj(`"a":{"type":"string"}`), contract.Compatible, "field_added /a"},
	{"a forbidden field no longer mentioned", obj(`"a":false`), obj(``), contract.Compatible, ""},

	// Cautions.
	{"a value added to an enumeration", `{"enum":["a"]}`, `{"enum":["a","b"]}`, contract.Caution, "values_widened "},
	{"an enumeration dropped", `{"type":"string","enum":["a"]}`, `{"type":"string"}`, contract.Caution, "values_widened "},
	{"a minimum lowered", `{"type":"number","minimum":1}`, `{"type":"number","minimum":0}`, contract.Caution, "range_widened "},
	{"a maximum dropped", `{"type":"number","maximum":1}`, `{"type":"number"}`, contract.Caution, "range_widened "},
	{"a maximal length raised", `{"type":"string","maxLength":1}`, `{"type":"string","maxLength":2}`, contract.Caution, "range_widened "},
	{"a pattern dropped", `{"type":"string","pattern":"^a"}`, `{"type":"string"}`, contract.Caution, "pattern_removed "},
	{"a multiple loosened", `{"type":"number","multipleOf":10}`, `{"type":"number","multipleOf":5}`, contract.Caution, "range_widened "},
	{"uniqueness dropped", `{"type":"array","uniqueItems":true}`, `{"type":"array"}`, contract.Caution, "range_widened "},
	{"an alternative added", either(`"a"`), either(`"a"`, `"b"`), contract.Breaking, "condition_changed "}, // one alternative is none
	{"a further alternative added", either(`"a"`, `"b"`), either(`"a"`, `"b"`, `"c"`), contract.Caution, "choice_added "},
	{"an alternative added to anyOf", `{"anyOf":[{"required":["a"]},{"required":["b"]}]}`, `{"anyOf":[{"required":["a"]},{"required":["b"]},{"required":["c"]}]}`, contract.Caution, "choice_added "},
	{"a default changed", `{"type":"integer","default":1}`, `{"type":"integer","default":2}`, contract.Caution, "default_changed "},
	{"a condition dropped", `{"not":{"required":["a"]}}`, `true`, contract.Caution, "condition_removed "},
	{"oneOf to anyOf", `{"oneOf":[{"minLength":1},{"maxLength":5}]}`, `{"anyOf":[{"minLength":1},{"maxLength":5}]}`, contract.Caution, "condition_changed "},

	// Consumers break.
	{"a required field removed", `{"type":"object","properties":{"a":true},"required":["a"]}`, obj(``), contract.Breaking, "field_removed /a"},
	{"an optional field removed", obj(`"a":{"type":"string"}`), obj(``), contract.Breaking, "field_removed /a"},
	{"a field renamed", obj(`"a":{"type":"string"}`), obj(`"b":{"type":"string"}`), contract.Breaking, "field_removed /a"},
	{"a nested field removed", obj(`"a":` + obj(`"b":true`)), obj(`"a":` + obj(``)), contract.Breaking, "field_removed /a/b"},
	{"a field of an item removed", list(obj(`"a":true`)), list(obj(``)), contract.Breaking, "field_removed /*/a"},
	{"a field removed in a definition", viaDef(obj(`"a":true`)), viaDef(obj(``)), contract.Breaking, "field_removed /x/a"},
	{"a field removed in a recursive schema", tree(`"type":"object","properties":{"a":true}`), tree(`"type":"object"`), contract.Breaking, "field_removed /value/a"},
	{"a field forbidden", obj(`"a":true`), obj(`"a":false`), contract.Breaking, "field_removed /a"},
	{"a field with a slash removed", obj(`"a/b":true`), obj(``), contract.Breaking, "field_removed /a~1b"},
	{"string to integer", obj(`"a":{"type":"string"}`), obj(`"a":{"type":"integer"}`), contract.Breaking, "type_changed /a"},
	{"integer to number", `{"type":"integer"}`, `{"type":"number"}`, contract.Breaking, "type_changed "},
	{"number to integer", `{"type":"number"}`, `{"type":"integer"}`, contract.Breaking, "type_changed "},
	{"object to array", `{"type":"object"}`, `{"type":"array"}`, contract.Breaking, "type_changed "},
	{"nullable now", `{"type":"string"}`, `{"type":["string","null"]}`, contract.Breaking, "type_changed "},
	{"nullable now by anyOf", viaDef(`{"type":"string"}`), `{"type":"object","properties":{"x":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/x"}]}},"$defs":{"x":{"type":"string"}}}`, contract.Breaking, "type_changed /x"},
	{"nullable no more", `{"type":["string","null"]}`, `{"type":"string"}`, contract.Breaking, "type_changed "},
	{"a type dropped", `{"type":"string"}`, `{}`, contract.Breaking, "type_changed "},
	{"a type added", `{}`, `{"type":"string"}`, contract.Breaking, "type_changed "},
	{"a value of another type in an enumeration", `{"enum":["a"]}`, `{"enum":["a",1]}`, contract.Breaking, "type_changed "},
	{"items of another type", list(`{"type":"string"}`), list(`{"type":"integer"}`), contract.Breaking, "type_changed /*"},
	{"values of a map of another type", `{"additionalProperties":{"type":"string"}}`, `{"additionalProperties":{"type":"integer"}}`, contract.Breaking, "type_changed /*"},
	{"a map gets a field of another type", `{"additionalProperties":{"type":"string"}}`, `{"properties":{"a":{"type":"integer"}},"additionalProperties":{"type":"string"}}`, contract.Breaking, "type_changed /a"},
	{"required no more", `{"type":"object","properties":{"a":true},"required":["a"]}`, obj(`"a":true`), contract.Breaking, "field_optional /a"},
	{"a format changed", `{"type":"string","format":"date"}`, `{"type":"string","format":"date-time"}`, contract.Breaking, "format_changed "},
	{"a format dropped", `{"type":"string","format":"date"}`, `{"type":"string"}`, contract.Breaking, "format_changed "},
	{"a format of one's own changed", `{"type":"string","format":"money"}`, `{"type":"string","format":"cents"}`, contract.Breaking, "format_changed "},
	{"fields of a pattern removed", `{"patternProperties":{"^x-":{"type":"string"}}}`, `{}`, contract.Breaking, "field_removed /{^x-}"},
	{"an alternative changed", eitherWith("string"), eitherWith("integer"), contract.Breaking, `type_changed (kind="b")/n`},
	{"one value becomes alternatives", obj(`"a":{"type":"object"}`), obj(`"a":` + either(`"a"`, `"b"`)), contract.Breaking, "condition_changed /a"},

	// Events that were valid are refused.
	{"a required field added", obj(``), `{"type":"object","properties":{"a":true},"required":["a"]}`, contract.Breaking, "field_required /a"},
	{"a field becomes required", obj(`"a":true`), `{"type":"object","properties":{"a":true},"required":["a"]}`, contract.Breaking, "field_required /a"},
	{"a required field added beside a reference", `{"$ref":"#/$defs/x","$defs":{"x":{"type":"object"}}}`, `{"$ref":"#/$defs/x","allOf":[{"required":["a"]}],"$defs":{"x":{"type":"object"}}}`, contract.Breaking, "field_required /a"},
	{"a required field added through allOf", obj(``), `{"type":"object","allOf":[{"required":["a"]}]}`, contract.Breaking, "field_required /a"},
	{"a value removed from an enumeration", `{"enum":["a","b"]}`, `{"enum":["a"]}`, contract.Breaking, "values_narrowed "},
	{"an enumeration added", `{"type":"string"}`, `{"type":"string","enum":["a"]}`, contract.Breaking, "values_narrowed "},
	{"a constant changed", `{"const":"a"}`, `{"const":"b"}`, contract.Breaking, "values_narrowed "},
	{"a minimum raised", `{"type":"number","minimum":0}`, `{"type":"number","minimum":1}`, contract.Breaking, "range_narrowed "},
	{"a minimum made exclusive", `{"type":"number","minimum":0}`, `{"type":"number","exclusiveMinimum":0}`, contract.Breaking, "range_narrowed "},
	{"a maximum added", `{"type":"number"}`, `{"type":"number","maximum":9}`, contract.Breaking, "range_narrowed "},
	{"a large maximum lowered by one", `{"type":"integer","maximum":9223372036854775807}`, `{"type":"integer","maximum":9223372036854775806}`, contract.Breaking, "range_narrowed "},
	{"a maximal length lowered", `{"type":"string","maxLength":9}`, `{"type":"string","maxLength":8}`, contract.Breaking, "range_narrowed "},
	{"a minimal length added", `{"type":"string"}`, `{"type":"string","minLength":1}`, contract.Breaking, "range_narrowed "},
	{"a minimal number of items raised", `{"type":"array"}`, `{"type":"array","minItems":1}`, contract.Breaking, "range_narrowed "},
	{"a maximal number of fields added", obj(``), `{"type":"object","maxProperties":3}`, contract.Breaking, "range_narrowed "},
	{"uniqueness added", `{"type":"array"}`, `{"type":"array","uniqueItems":true}`, contract.Breaking, "range_narrowed "},
	{"a multiple tightened", `{"type":"number","multipleOf":5}`, `{"type":"number","multipleOf":10}`, contract.Breaking, "range_narrowed "},
	{"a pattern added", `{"type":"string"}`, `{"type":"string","pattern":"^a"}`, contract.Breaking, "pattern_changed "},
	{"a pattern changed", `{"type":"string","pattern":"^a"}`, `{"type":"string","pattern":"^b"}`, contract.Breaking, "pattern_changed "},
	{"a format added", `{"type":"string"}`, `{"type":"string","format":"uuid"}`, contract.Breaking, "format_changed "},
	{"an object closed", obj(``), closed(``), contract.Breaking, "object_closed "},
	{"an object closed by unevaluatedProperties", obj(``), `{"type":"object","unevaluatedProperties":false}`, contract.Breaking, "object_closed "},
	{"other fields get a type", obj(``), `{"type":"object","additionalProperties":{"type":"string"}}`, contract.Breaking, "type_changed /*"},
	{"items get a type", `{"type":"array"}`, list(`{"type":"string"}`), contract.Breaking, "type_changed /*"},
	{"further items forbidden", `{"prefixItems":[true]}`, `{"prefixItems":[true],"items":false}`, contract.Breaking, "field_removed /*"},
	{"an alternative added that may overlap", `{"oneOf":[{"required":["a"]},{"required":["b"]}]}`, `{"oneOf":[{"required":["a"]},{"required":["b"]},{"required":["c"]}]}`, contract.Breaking, "condition_changed "},
	{"an alternative removed", either(`"a"`, `"b"`, `"c"`), either(`"a"`, `"b"`), contract.Breaking, "choice_removed "},
	{"anyOf to oneOf", `{"anyOf":[{"minLength":1},{"maxLength":5}]}`, `{"oneOf":[{"minLength":1},{"maxLength":5}]}`, contract.Breaking, "condition_changed "},
	{"a condition added", `{}`, `{"not":{"required":["a"]}}`, contract.Breaking, "condition_added "},
	{"a condition changed", `{"if":{"required":["a"]},"then":{"required":["b"]}}`, `{"if":{"required":["a"]},"then":{"required":["c"]}}`, contract.Breaking, "condition_changed "},
	{"a dependency added", obj(``), `{"type":"object","dependentRequired":{"a":["b"]}}`, contract.Breaking, "condition_added "},
	{"everything refused", `true`, `false`, contract.Breaking, "field_removed "},
}

func TestEveryChangeIsJudgedRight(t *testing.T) {
	if len(pairs) < 60 {
		t.Fatalf("only %d pairs", len(pairs))
	}
	for _, p := range pairs {
		t.Run(p.name, func(t *testing.T) {
			changes := contract.Compare(parse(t, p.old), parse(t, p.new))
			got := ""
			if len(changes) > 0 {
				got = fmt.Sprintf("%s %s", changes[0].Kind, changes[0].Path)
			}
			if contract.Worst(changes) != p.level || got != p.want {
				t.Fatalf("got %s %q, want %s %q; all:\n%v", contract.Worst(changes), got, p.level, p.want, changes)
			}
		})
	}
}

// A contract is compatible with itself, whatever is in it.
func TestNothingChangesBetweenASchemaAndItself(t *testing.T) {
	for _, p := range pairs {
		for _, text := range []string{p.old, p.new} {
			if changes := contract.Compare(parse(t, text), parse(t, text)); len(changes) > 0 {
				t.Errorf("%s: %v", text, changes)
			}
		}
	}
}

func TestAChangeIsExplainedInWords(t *testing.T) {
	old := parse(t, obj(`"total":{"type":"integer"},"note":{"type":"string"}`))
	changes := contract.Compare(old, parse(t, obj(`"total":{"type":["integer","null"]}`)))

	var all []string
	for _, c := range changes {
		all = append(all, c.String())
	}
	want := `shop.order.placed.v1: breaking: /note: was removed: consumers that read it fail
shop.order.placed.v1: breaking: /total: may now be null: consumers that read integer fail`
	if got := strings.Join(all, "\n"); got != want {
		t.Fatalf("got\n%s\nwant\n%s", got, want)
	}
}

func TestRepositoriesAreComparedTopicByTopic(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	old := registry(t, fstest.MapFS{
		"shop.order.placed.v1.json": file(obj(`"a":true`)),
		"shop.order.moved.v1.json":  file(obj(``)),
		"shop.order.gone.v1.json":   file(obj(``)),
	})
	new := registry(t, fstest.MapFS{
		"shop.order.placed.v1.json": file(obj(``)),
		"shop.order.moved.v2.json":  file(obj(``)),
	})

	var got []string
	for _, c := range contract.CompareAll(old, new) {
		got = append(got, fmt.Sprintf("%s %s %s", c.Topic, c.Level, c.Kind))
	}

	want := []string{
		"shop.order.gone.v1 breaking topic_removed",
		"shop.order.moved.v1 caution topic_removed",
		"shop.order.placed.v1 breaking field_removed",
		"shop.order.moved.v2 compatible topic_added",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A definition that is used twice by each of the next doubles the work with each step.
func TestSchemasThatMultiplyAreNotComparedForEver(t *testing.T) {
	grow := func(leaf string) string {
		var defs []string
		for i := range 30 {
			next := fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i+1)
			defs = append(defs, fmt.Sprintf(`"d%d":{"properties":{"a":%s,"b":%s}}`, i, next, next))
		}
		return `{"$ref":"#/$defs/d0","$defs":{` + strings.Join(defs, ",") + `,"d30":` + leaf + `}}`
	}

	changes := contract.Compare(parse(t, grow(`{"type":"string"}`)), parse(t, grow(`{"type":"integer"}`)))

	if contract.Worst(changes) != contract.Breaking {
		t.Fatalf("got %s", contract.Worst(changes))
	}
}

func parse(t *testing.T, text string) *contract.Schema {
	t.Helper()
	s, err := contract.Parse("shop.order.placed.v1", []byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s
}

func obj(fields string) string { return `{"type":"object","properties":{` + fields + `}}` }

func closed(fields string) string {
	return `{"type":"object","properties":{` + fields + `},"additionalProperties":false}`
}

func list(item string) string { return `{"type":"array","items":` + item + `}` }

func viaDef(def string) string {
	return `{"type":"object","properties":{"x":{"$ref":"#/$defs/x"}},"$defs":{"x":` + def + `}}`
}

func tree(value string) string {
	return `{"type":"object","properties":{"value":{` + value + `},"children":{"type":"array","items":{"$ref":"#"}}}}`
}

// either is a union of objects told apart by their kind.
func either(kinds ...string) string {
	var branches []string
	for _, k := range kinds {
		branches = append(branches, `{"type":"object","properties":{"kind":{"const":`+k+`}},"required":["kind"]}`)
	}
	return `{"oneOf":[` + strings.Join(branches, ",") + `]}`
}

func eitherWith(kind string) string {
	return `{"oneOf":[{"type":"object","properties":{"kind":{"const":"a"}}},
		{"type":"object","properties":{"kind":{"const":"b"},"n":{"type":"` + kind + `"}}}]}`
}
