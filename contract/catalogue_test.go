package contract_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/go-outbox/outbox/contract"
)

const documented = `{
	"title": "An order was placed", "description": "Sent once per order.",
	"type": "object", "required": ["id"],
	"properties": {
		"id": {"type": "string", "format": "uuid", "description": "The order."},
		"total": {"type": "integer", "minimum": 0, "deprecated": true},
		"parent": {"$ref": "#"}
	},
	"examples": [{"id": "0190a1b2-0000-7000-8000-000000000001"}]
}`

func TestTheCatalogueShowsEveryFieldOnce(t *testing.T) {
	text := markdown(t, documented)
	for _, want := range []string{
		"## shop.order.placed.v1\n", "**An order was placed**", "Sent once per order.",
		"| /id | string | yes | format uuid | The order. |",
		"| /total | integer | no | minimum 0 |  (deprecated) |",
		"| /parent | object | no | recursive: as above |  |",
		"```json\n{\"id\":\"0190a1b2-0000-7000-8000-000000000001\"}\n```",
	} {
		if strings.Count(text, want) != 1 {
			t.Errorf("want once: %s\n\n%s", want, text)
		}
	}
}

func TestTheCatalogueNamesNewerVersions(t *testing.T) {
	r := registry(t, fstest.MapFS{
		"shop.order.placed.v1.json": {Data: []byte(`{}`)}, "shop.order.placed.v2.json": {Data: []byte(`{}`)},
	})
	var b strings.Builder
	if err := r.WriteMarkdown(&b); err != nil || !strings.Contains(b.String(), "There is a newer version: [shop.order.placed.v2]") {
		t.Fatalf("got %v\n%s", err, b.String())
	}
}

// Texts of a schema stay text.
func TestTheCatalogueCannotBeInjected(t *testing.T) {
	const evil = `{"title":"<script>alert(1)</script>","description":"a|b\n# c [x](javascript:1)","type":"object",
		"properties":{"<img>|":{"type":"string","description":"a | b"}},"examples":["` + "```" + `<script>"]}`
	text := markdown(t, evil)
	for _, bad := range []string{"<script>alert", "\n# c", "[x](javascript", "| a | b |", "<img>"} {
		if strings.Contains(text, bad) {
			t.Errorf("Markdown holds %q:\n%s", bad, text)
		}
	}
	var b strings.Builder
	if err := registry(t, shop(evil)).WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "<script>") || strings.Contains(b.String(), "<img>") {
		t.Errorf("HTML holds a tag of the schema:\n%s", b.String())
	}
	if !strings.Contains(b.String(), `<h2 id="shop.order.placed.v1">`) {
		t.Errorf("no heading:\n%s", b.String())
	}
}

func TestTheCatalogueOfAWildSchemaIsBounded(t *testing.T) {
	var defs []string
	for i := range 30 {
		next := fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i+1)
		defs = append(defs, fmt.Sprintf(`"d%d":{"properties":{"a":%s,"b":%s}}`, i, next, next))
	}
	wild := `{"$ref":"#/$defs/d0","$defs":{` + strings.Join(defs, ",") + `,"d30":{"type":"string"}}}`
	if n := strings.Count(markdown(t, wild), "\n"); n > 1000 {
		t.Fatalf("%d lines", n)
	}
}

func markdown(t *testing.T, schema string) string {
	t.Helper()
	r, err := contract.New(shop(schema), contract.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := r.WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
