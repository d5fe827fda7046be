package contract

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
)

// The decoder reads what encoding/json reads.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{}`, `[]`, ` {"a" : [ 1 , -2.5e+3, true,false , null ] , "b":{"c":"d"}} `, `"\u00e9\n\"\\"`, `"é"`, "\"\xff\"", `1`, `-0`,
		`{"a":1,"a":2}`, `{"\u0061":1}`, `[[[]]]`, `{`, `tru`, `1 2`, ``, ` `, `{"a":1}}`, `"a`, `[1,]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		var want any
		valid := dec.Decode(&want) == nil && json.Valid(text)

		got, err := decode(text, 1_000_000, 1_000_000)

		if !valid {
			if err == nil {
				t.Fatalf("%q was read as %v", text, got)
			}
			return
		}
		if err != nil {
			if hasWildNumber(want) {
				return
			}
			t.Fatalf("%q: %v", text, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: got %#v, want %#v", text, got, want)
		}
	})
}

func hasWildNumber(v any) bool {
	switch v := v.(type) {
	case json.Number:
		return checkNumber(string(v)) != nil
	case []any:
		for _, item := range v {
			if hasWildNumber(item) {
				return true
			}
		}
	case map[string]any:
		for _, item := range v {
			if hasWildNumber(item) {
				return true
			}
		}
	}
	return false
}
