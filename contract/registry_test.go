package contract_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/contract"
	"github.com/go-outbox/outbox/store/memstore"
)

const placed = `{
	"type": "object",
	"required": ["order_id", "customer", "lines", "placed_at"],
	"properties": {
		"order_id": {"type": "string", "format": "uuid"},
		"customer": {"$ref": "#/$defs/customer"},
		"currency": {"enum": ["EUR", "USD"]},
		"lines": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/line"}},
		"placed_at": {"type": "string", "format": "date-time"}
	},
	"$defs": {
		"customer": {
			"type": "object", "required": ["id"], "additionalProperties": false,
			"properties": {"id": {"type": "integer"}, "email": {"type": "string", "format": "email"}}
		},
		"line": {
			"type": "object", "required": ["sku", "quantity"],
			"properties": {
				"sku": {"type": "string", "pattern": "^[A-Z0-9-]+$", "maxLength": 20},
				"quantity": {"type": "integer", "minimum": 1, "maximum": 1000},
				"price": {"type": "integer", "minimum": 0}
			}
		}
	}
}`

const order = `{"order_id":"0190a1b2-0000-7000-8000-000000000001","customer":{"id":42,"email":"ada@example.com"},` +
	`"currency":"EUR","lines":[{"sku":"TEA-1","quantity":2,"price":499},{"sku":"CUP-7","quantity":1,"price":1299}],` +
	`"placed_at":"2026-01-02T03:04:05.678Z","note":"leave it at the door, please, and ring twice"}`

func TestAnEventThatKeepsItsContractPasses(t *testing.T) {
	r := registry(t, shop(placed))
	if err := check(t, r, "shop.order.placed.v1", order); err != nil {
		t.Fatal(err)
	}
}

func TestAViolationNamesThePlaceAndNotTheValue(t *testing.T) {
	r := registry(t, shop(placed))
	const secret = "hunter2"
	for _, c := range []struct{ name, old, new, want string }{
		{"missing", `"placed_at":`, `"secret":`, "at /placed_at: is required"},
		{"type", `"id":42`, `"id":"` + secret + `"`, "at /customer/id: want integer, got string"},
		{"format", `ada@example.com`, secret, "at /customer/email: is not a valid email"},
		{"uuid", `0190a1b2-0000-7000-8000-000000000001`, secret, "at /order_id: is not a valid uuid"},
		{"date", `2026-01-02T03:04:05.678Z`, secret, "at /placed_at: is not a valid date-time"},
		{"enum", `"EUR"`, `"` + secret + `"`, `at /currency: is not one of "EUR", "USD"`},
		{"pattern", `TEA-1`, secret, "at /lines/0/sku: does not match the pattern ^[A-Z0-9-]+$"},
		{"minimum", `"quantity":2`, `"quantity":-77`, "at /lines/0/quantity: is less than 1"},
		{"maximum", `"quantity":1,`, `"quantity":77777,`, "at /lines/1/quantity: is greater than 1000"},
		{"fraction", `"quantity":2`, `"quantity":2.5`, "at /lines/0/quantity: want integer, got number"},
		{"length", `TEA-1`, strings.Repeat("A", 30), "at /lines/0/sku: has 30 characters, at most 20 are allowed"},
		{"closed", `"email":`, `"phone":`, "at /customer/phone: is not in the contract"},
		{"control characters in a name", `"email":`, `"e\u001b[31m":`, "at /customer/e\ufffd[31m: is not in the contract"},
		{"huge exponent", `"id":42`, `"id":1e999999`, "at /customer/id: is a number with an exponent beyond 400"},
		{"endless number", `"id":42`, `"id":` + strings.Repeat("9", 2000), "at /customer/id: is a number of more than 1000 digits"},
		{"deep", `"note":"leave`, `"deep":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `,"note":"leave`, "is nested more than 256 deep"},
	} {
		t.Run(c.name, func(t *testing.T) {
			payload := strings.Replace(order, c.old, c.new, 1)
			if payload == order {
				t.Fatalf("%s is not in the order", c.old)
			}

			err := check(t, r, "shop.order.placed.v1", payload)

			if !errors.Is(err, outbox.ErrContract) || outbox.CodeOf(err) != "OUTBOX_CONTRACT_VIOLATION" {
				t.Fatalf("got %v, want ErrContract", err)
			}
			if text := err.Error(); !strings.Contains(text, c.want) || strings.Contains(text, secret) || strings.Contains(text, "77") {
				t.Fatalf("got %q, want %q and no value", text, c.want)
			}
			if !strings.Contains(err.Error(), "shop.order.placed.v1") {
				t.Fatalf("%q does not name the contract", err)
			}
		})
	}
}

func TestViolationsAreToldTogetherAndInOrder(t *testing.T) {
	r := registry(t, shop(placed))
	want := "payload: shop.order.placed.v1: at /customer: is required; at /lines: is required; " +
		"at /order_id: want string, got integer; at /placed_at: is required"
	for range 20 {
		err := check(t, r, "shop.order.placed.v1", `{"order_id":1}`)
		if got := strings.Replace(err.Error(), "got number", "got integer", 1); got != want {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	}
}

func TestARefusedEventIsNotEnqueued(t *testing.T) {
	r := registry(t, shop(placed))
	store, err := memstore.New(memstore.Config{Gate: outbox.Gate{Check: r.Check}})
	if err != nil {
		t.Fatal(err)
	}
	tx := store.Begin()

	_, bad := store.Enqueue(t.Context(), tx, outbox.Message{Topic: "shop.order.placed.v1", Payload: []byte(`{}`)})
	_, good := store.Enqueue(t.Context(), tx, outbox.Message{Topic: "shop.order.placed.v1", Payload: []byte(order)})

	if !errors.Is(bad, outbox.ErrContract) || good != nil {
		t.Fatalf("got %v and %v", bad, good)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if stats, err := store.Stats(t.Context()); err != nil || stats.Pending != 1 {
		t.Fatalf("%d messages, %v; want the good one", stats.Pending, err)
	}
}

func TestUnknownTopicsFollowThePolicy(t *testing.T) {
	for _, refuse := range []bool{false, true} {
		r, err := contract.New(shop(placed), contract.Config{RefuseUnknown: refuse})
		if err != nil {
			t.Fatal(err)
		}
		err = check(t, r, "shop.order.paid.v1", `{}`)
		if errors.Is(err, outbox.ErrContract) != refuse {
			t.Errorf("refuse %v: got %v", refuse, err)
		}
		if refuse && !strings.Contains(err.Error(), "shop.order.paid.v1.json") {
			t.Errorf("%v does not say which file to add", err)
		}
	}
}

func TestTopicsWithoutAVersionUseTheEventVersion(t *testing.T) {
	r, err := contract.New(fstest.MapFS{
		"stock.move.done.v2.json": {Data: []byte(`{"required":["two"]}`)},
		"stock.moved.json":        {Data: []byte(`{"required":["one"]}`)},
	}, contract.Config{Topics: outbox.DomainTopics})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		topic   string
		version int
		payload string
		ok      bool
	}{
		{"stock.move.done", 2, `{"two":1}`, true},
		{"stock.move.done", 2, `{}`, false},
		{"stock.move.done", 1, `{}`, true}, // unknown
		{"stock.moved", 7, `{"one":1}`, true},
		{"stock.moved", 0, `{}`, false},
	} {
		err := r.Check(t.Context(), &outbox.Message{Topic: c.topic, EventVersion: c.version, Payload: []byte(c.payload)})
		if (err == nil) != c.ok {
			t.Errorf("%s v%d %s: got %v", c.topic, c.version, c.payload, err)
		}
	}
}

func TestAContractOfJSONRefusesOtherFormats(t *testing.T) {
	r := registry(t, shop(placed))
	err := r.Check(t.Context(), &outbox.Message{Topic: "shop.order.placed.v1", ContentType: "application/protobuf", Payload: []byte{1}})
	if !errors.Is(err, outbox.ErrContract) {
		t.Fatalf("got %v", err)
	}
}

func TestSchemasMayShareFiles(t *testing.T) {
	r := registry(t, fstest.MapFS{
		"shop.order.placed.v1.json": {Data: []byte(`{"properties":{"total":{"$ref":"shared/money.json"}}}`)},
		"shop.order.paid.v1.json":   {Data: []byte(`{"properties":{"total":{"$ref":"shared/money.json#/$defs/amount"}}}`)},
		"shared/money.json":         {Data: []byte(`{"type":"object","properties":{"amount":{"$ref":"#/$defs/amount"}},"$defs":{"amount":{"type":"integer"}}}`)},
		"README.md":                 {Data: []byte("not a schema")},
	})
	if got := strings.Join(r.Topics(), " "); got != "shop.order.paid.v1 shop.order.placed.v1" {
		t.Fatalf("got topics %s", got)
	}
	if err := check(t, r, "shop.order.placed.v1", `{"total":{"amount":"x"}}`); !errors.Is(err, outbox.ErrContract) {
		t.Errorf("got %v", err)
	}
	if err := check(t, r, "shop.order.paid.v1", `{"total":5}`); err != nil {
		t.Error(err)
	}
}

func TestRecursiveSchemasAreFine(t *testing.T) {
	r := registry(t, shop(tree(`"type":"string"`)))
	good := `{"value":"a","children":[{"value":"b","children":[{"value":"c"}]}]}`
	if err := check(t, r, "shop.order.placed.v1", good); err != nil {
		t.Error(err)
	}
	err := check(t, r, "shop.order.placed.v1", strings.Replace(good, `"c"`, `1`, 1))
	if err == nil || !strings.Contains(err.Error(), "at /children/0/children/0/value: want string") {
		t.Errorf("got %v", err)
	}
}

// Both alternatives descend into the same field: each level doubles the work.
func TestASchemaThatMultipliesWithDepthLimitsTheDepth(t *testing.T) {
	var chain []string
	for i := range 100 {
		next := fmt.Sprintf(`{"properties":{"a":{"$ref":"#/$defs/d%d"}}}`, i+1)
		chain = append(chain, fmt.Sprintf(`"d%d":{"allOf":[%s,%s]}`, i, next, next))
	}
	for name, schema := range map[string]string{
		"recursive":             `{"allOf":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}}}]}`,
		"by name and otherwise": `{"properties":{"a":{"$ref":"#"}},"patternProperties":{"a":{"$ref":"#"}}}`,
		"a chain":               `{"$ref":"#/$defs/d0","$defs":{` + strings.Join(chain, ",") + `,"d100":{}}}`,
	} {
		s := parse(t, schema)
		nest := func(n int) []byte { return []byte(strings.Repeat(`{"a":`, n) + `1` + strings.Repeat(`}`, n)) }
		if err := s.Validate(nest(10)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := s.Validate(nest(60)); !errors.Is(err, outbox.ErrContract) || !strings.Contains(err.Error(), "is nested more than") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if err := parse(t, tree(`"type":"string"`)).Validate([]byte(strings.Repeat(`{"children":[`, 100) + strings.Repeat(`]}`, 100))); err != nil {
		t.Errorf("a plain tree: %v", err)
	}
}

func TestBadSchemasAreRefusedWithAReason(t *testing.T) {
	var laughs []string
	for i := range 20 {
		laughs = append(laughs, fmt.Sprintf(`"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, i+1, i+1))
	}
	heavy := `{"allOf":[` + strings.Repeat(`{"type":"string"},`, 1000) + `true]}`
	var uses []string
	for i := range 2000 {
		uses = append(uses, fmt.Sprintf(`"f%d":{"$ref":"#/$defs/heavy"}`, i))
	}
	for _, c := range []struct{ name, schema, want string }{
		{"a heavy definition used everywhere", `{"properties":{` + strings.Join(uses, ",") + `},"$defs":{"heavy":` + heavy + `}}`, "applies more than 1000000 schemas in all"},
		{"empty", ``, "is not valid JSON"},
		{"syntax", `{"type":`, "is not valid JSON"},
		{"two values", `{} {}`, "is not valid JSON: syntax error at offset 4"},
		{"not a schema", `[1]`, "is not a valid schema: at the top: want"},
		{"unknown type", `{"properties":{"a":{"type":"strnig"}}}`, "at /properties/a/type"},
		{"required is no list", `{"required":"a"}`, "at /required: want array"},
		{"bad pattern", `{"pattern":"["}`, "pattern"},
		{"missing definition", `{"$ref":"#/$defs/nowhere"}`, "/$defs/nowhere"},
		{"remote reference", `{"$ref":"https://example.com/x.json"}`, "only files beside the schema"},
		{"file reference", `{"$ref":"file:///etc/passwd"}`, "only files beside the schema"},
		{"outside", `{"$ref":"../../etc/passwd.json"}`, "etc/passwd.json"},
		{"missing file", `{"$ref":"nowhere.json"}`, "nowhere.json"},
		{"remote draft", `{"$schema":"https://example.com/draft"}`, "only files beside the schema"},
		{"refers to itself", `{"$ref":"#"}`, "refers to itself"},
		{"refers to itself in a circle", `{"$ref":"#/$defs/a","$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"}]},"b":{"anyOf":[{"$ref":"#/$defs/a"},true]}}}`, "refers to itself"},
		{"a circle deep inside", `{"properties":{"x":{"items":{"$ref":"#/$defs/a"}}},"$defs":{"a":{"not":{"$ref":"#/$defs/a"}}}}`, "refers to itself"},
		{"definitions that multiply", `{"$ref":"#/$defs/d0","$defs":{` + strings.Join(laughs, ",") + `,"d20":{"type":"string"}}}`, "applies more than 10000 schemas"},
		{"huge", `{"description":"` + strings.Repeat("x", 300<<10) + `"}`, "is larger than"},
		{"deep", strings.Repeat(`{"not":`, 100) + `{}` + strings.Repeat(`}`, 100), "is nested more than 64 deep"},
		{"many values", `{"enum":[` + strings.Repeat("1,", 20_000) + `2]}`, "has too many values"},
		{"huge number", `{"minimum":1e999999}`, "at /minimum: is a number with an exponent beyond"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := contract.New(shop(c.schema), contract.Config{})

			if !errors.Is(err, outbox.ErrInvalidConfig) {
				t.Fatalf("got %v, want ErrInvalidConfig", err)
			}
			text := err.Error()
			if !strings.Contains(text, "shop.order.placed.v1.json") || !strings.Contains(text, c.want) || len(text) > 2000 {
				t.Fatalf("got %q, want the file and %q", text, c.want)
			}
			if c.name == "missing file" || c.name == "outside" {
				return // a single schema has no files at all
			}
			if _, err := contract.Parse("a schema", []byte(c.schema)); !errors.Is(err, outbox.ErrInvalidConfig) {
				t.Fatalf("Parse: got %v", err)
			}
		})
	}
}

func TestAllBadFilesAreReportedAtOnce(t *testing.T) {
	_, err := contract.New(fstest.MapFS{
		"shop.order.placed.v1.json": {Data: []byte(`{`)},
		"Order.json":                {Data: []byte(`{}`)},
	}, contract.Config{})
	for _, want := range []string{"Order.json", "shop.order.placed.v1.json"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

func TestReferencesCannotLeaveTheDirectory(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "contracts")
	write(t, filepath.Join(top, "secret.json"), `{"type":"string"}`)
	write(t, filepath.Join(dir, "shop.order.placed.v1.json"), `{"$ref":"link.json"}`)
	if err := os.Symlink(filepath.Join(top, "secret.json"), filepath.Join(dir, "link.json")); err != nil {
		t.Skip(err)
	}

	_, all := contract.Open(dir, contract.Config{Topics: outbox.AnyTopic})
	_, one := contract.OpenFile(filepath.Join(dir, "shop.order.placed.v1.json"))

	if all == nil || one == nil {
		t.Fatalf("got %v and %v, want errors", all, one)
	}
}

func TestOpenFileFollowsReferencesBesideIt(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.json"), `{"$ref":"shared/b.json"}`)
	write(t, filepath.Join(dir, "shared", "b.json"), `{"type":"string"}`)

	s, err := contract.OpenFile(filepath.Join(dir, "a.json"))

	if err != nil || s.Topic() != "a" {
		t.Fatalf("got %v, %v", s, err)
	}
	if err := s.Validate([]byte(`1`)); !errors.Is(err, outbox.ErrContract) {
		t.Fatalf("got %v", err)
	}
}

func FuzzValidate(f *testing.F) {
	f.Add(placed, order)
	f.Add(`{"$ref":"#"}`, `{}`)
	f.Add(tree(`"type":"string"`), `{"children":[{"value":1}]}`)
	f.Fuzz(func(t *testing.T, schema, payload string) {
		s, err := contract.Parse("fuzz", []byte(schema))
		if err != nil {
			return
		}
		if err := s.Validate([]byte(payload)); err != nil && !errors.Is(err, outbox.ErrContract) {
			t.Fatal(err)
		}
		if changes := contract.Compare(s, s); len(changes) > 0 && changes[0].Kind != contract.TooComplex {
			t.Fatalf("differs from itself: %v", changes)
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	r, err := contract.New(shop(placed), contract.Config{})
	if err != nil {
		b.Fatal(err)
	}
	msg := &outbox.Message{Topic: "shop.order.placed.v1", Payload: []byte(order)}
	b.SetBytes(int64(len(order)))
	b.ReportAllocs()
	for b.Loop() {
		if err := r.Check(context.Background(), msg); err != nil {
			b.Fatal(err)
		}
	}
}

func check(t *testing.T, r *contract.Registry, topic, payload string) error {
	t.Helper()
	return r.Check(t.Context(), &outbox.Message{Topic: topic, Payload: []byte(payload)})
}

func registry(t *testing.T, fsys fs.FS) *contract.Registry {
	t.Helper()
	r, err := contract.New(fsys, contract.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func shop(schema string) fs.FS {
	return fstest.MapFS{"shop.order.placed.v1.json": {Data: []byte(schema)}}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
