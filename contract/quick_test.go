package contract

import "testing"

var quickSchemas = []string{
	`true`, `false`, `{}`, `{"type":"string"}`, `{"type":["integer","null"]}`, `{"type":"number"}`, `{"type":"integer"}`,
	`{"minimum":1}`, `{"exclusiveMinimum":1}`, `{"type":"integer","maximum":9223372036854775807}`, `{"minimum":0.5}`,
	`{"exclusiveMaximum":-9223372036854775808}`, `{"multipleOf":2}`, `{"minLength":2,"maxLength":3}`, `{"pattern":"^a"}`,
	`{"format":"date-time"}`, `{"format":"uuid"}`, `{"format":"regex"}`, `{"enum":["a",1,null]}`, `{"const":"a"}`, `{"const":1}`,
	`{"enum":["a"],"const":"b"}`, `{"required":["a"]}`, `{"properties":{"a":{"type":"string"}},"additionalProperties":false}`,
	`{"additionalProperties":{"type":"integer"}}`, `{"items":{"type":"integer"},"minItems":1,"maxItems":2}`, `{"items":false}`,
	`{"anyOf":[{"type":"null"},{"required":["a"]}]}`, `{"oneOf":[{"minimum":1},{"maximum":5}]}`, `{"not":{"type":"string"}}`,
	`{"allOf":[{"minimum":1},{"maximum":5}]}`, `{"prefixItems":[{"type":"string"}]}`, `{"uniqueItems":true}`,
	`{"properties":{"a":{"$ref":"#"}},"required":["b"]}`, `{"minProperties":1}`, `{"propertyNames":{"pattern":"^a"}}`,
	`{"if":{"required":["a"]},"then":{"required":["b"]}}`, `{"patternProperties":{"^a":false}}`, `{"dependentRequired":{"a":["b"]}}`,
	`{"contains":{"type":"string"}}`, `{"unevaluatedProperties":false,"properties":{"a":true}}`,
	`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"$ref":"#/definitions/x","type":"string"}},"definitions":{"x":{"type":"integer"}}}`,
	`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"}],"additionalItems":false}`,
	`{"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"a":["b"]}}`,
	`{"$schema":"http://json-schema.org/draft-04/schema#","minimum":1,"exclusiveMinimum":true}`,
	`{"$defs":{"x":{"type":"integer"}},"properties":{"a":{"$ref":"#/$defs/x"}}}`,
	`{"minimum":0}`, `{"minimum":2}`, `{"type":"integer","exclusiveMinimum":0}`, `{"type":"integer","minimum":1}`, `{"maxLength":5}`,
	`{"enum":["a"]}`, `{"enum":["a","ab",1]}`, `{"enum":["ab","a"]}`, `{"oneOf":[{"const":"a"},{"const":"ab"}]}`,
	`{"anyOf":[{"type":"null"},{"type":"string"}]}`, `{"type":["string","null"]}`, `{"anyOf":[{"enum":["a"]},{"type":"null"}]}`,
	`{"multipleOf":4}`, `{"multipleOf":1}`, `{"prefixItems":[{"type":"string"}],"items":{"type":"integer"}}`,
	`{"items":{"type":["integer","string"]}}`, `{"required":["a","b"]}`, `{"type":"object"}`, `{"type":"array","uniqueItems":true}`,
	`{"anyOf":[{"minimum":1},{"maxLength":2}]}`, `{"anyOf":[{"minimum":1},{"maxLength":2},{"minItems":1}]}`,
	`{"oneOf":[{"minimum":1},{"maxLength":2},{"minItems":1}]}`, `{"allOf":[{"enum":["a","ab"]},{"enum":["ab"]}]}`,
	`{"oneOf":[{"type":"integer","minimum":1},{"type":"string"}]}`, `{"oneOf":[{"type":"integer","minimum":1},{"type":"string"},{"minItems":1}]}`,
	`{"oneOf":[{"required":["a"]},{"required":["b"]}]}`, `{"oneOf":[{"required":["a"]},{"required":["b"]},{"type":"object"}]}`,
	`{"oneOf":[{"maximum":0,"type":"integer"},{"minimum":6,"type":"integer"}]}`, `{"oneOf":[{"maximum":9,"type":"integer"},{"minimum":6,"type":"integer"}]}`,
	`{"allOf":[{"multipleOf":2},{"multipleOf":3}]}`, `{"properties":{"a":false}}`, `{"properties":{"a":true},"additionalProperties":{"type":"integer"}}`,
}

var quickPayloads = []string{
	`null`, `true`, `"a"`, `"ab"`, `"éé"`, `"abcd"`, `1`, `1.0`, `2.5`, `0`, `-1`, `6`, `9223372036854775807`, `9223372036854775808`,
	`-9223372036854775808`, `1e2`, `[]`, `[1]`, `[1,1]`, `[1,2,3]`, `["a"]`, `["a",1]`, `{}`, `{"a":"x"}`, `{"a":1}`, `{"b":1}`,
	`{"a":1,"b":2}`, `{"a":{"b":1},"b":2}`, `{"a":{"a":1}}`, `"2026-01-02T03:04:05Z"`, `"0190a1b2-0000-7000-8000-000000000001"`, `"["`,
}

func TestTheQuickCheckAcceptsOnlyWhatTheValidatorAccepts(t *testing.T) {
	accepted := 0
	for _, schema := range quickSchemas {
		for _, payload := range quickPayloads {
			if agree(t, schema, payload) {
				accepted++
			}
		}
	}
	if all := len(quickSchemas) * len(quickPayloads); accepted < all/4 {
		t.Errorf("only %d of %d were accepted: it is of no use", accepted, all)
	}
}

func FuzzQuick(f *testing.F) {
	for i, schema := range quickSchemas {
		f.Add(schema, quickPayloads[i%len(quickPayloads)])
	}
	f.Fuzz(func(t *testing.T, schema, payload string) { agree(t, schema, payload) })
}

// agree reports whether the quick check accepts a payload.
func agree(t *testing.T, schema, payload string) bool {
	t.Helper()
	s, err := Parse("quick", []byte(schema))
	if err != nil {
		return false
	}
	doc, err := decode([]byte(payload), s.depth, 10_000)
	if err != nil {
		return false
	}
	if !s.quick.accepts(doc) {
		return false
	}
	if err := s.compiled.Validate(doc); err != nil {
		t.Errorf("%s accepts %s: %v", schema, payload, err)
	}
	return true
}
