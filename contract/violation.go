package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// maxViolations bounds how many are told at once.
const maxViolations = 5

// explain says where a payload violates its schema. It may speak of the schema, which
// is public, and of names in the payload, but not of values: errors end up in logs.
func explain(err error) string {
	v, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return "cannot be validated"
	}
	all := violations(v, nil)
	slices.Sort(all) // objects are visited in random order
	all = slices.Compact(all)
	if more := len(all) - maxViolations; more > 0 {
		all = append(all[:maxViolations], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, "; ")
}

func violations(e *jsonschema.ValidationError, all []string) []string {
	switch k := e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		for _, cause := range e.Causes {
			all = violations(cause, all)
		}
		return all
	case *kind.Required:
		for _, name := range k.Missing {
			all = append(all, "at "+pointer(e.InstanceLocation, name)+": is required")
		}
		return all
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			all = append(all, "at "+pointer(e.InstanceLocation, name)+": is not in the contract")
		}
		return all
	}
	return append(all, "at "+pointer(e.InstanceLocation)+": "+violation(e))
}

func violation(e *jsonschema.ValidationError) string {
	switch k := e.ErrorKind.(type) {
	case *kind.Type:
		return "want " + strings.Join(k.Want, " or ") + ", got " + k.Got
	case *kind.Enum:
		return "is not one of " + values(k.Want)
	case *kind.Const:
		return "is not " + values([]any{k.Want})
	case *kind.Format:
		return "is not a valid " + clip(k.Want)
	case *kind.Pattern:
		return "does not match the pattern " + clip(k.Want)
	case *kind.MinLength:
		return fmt.Sprintf("has %d characters, at least %d are needed", k.Got, k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("has %d characters, at most %d are allowed", k.Got, k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("has %d items, at least %d are needed", k.Got, k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("has %d items, at most %d are allowed", k.Got, k.Want)
	case *kind.Minimum:
		return "is less than " + number(k.Want)
	case *kind.Maximum:
		return "is greater than " + number(k.Want)
	case *kind.ExclusiveMinimum:
		return "is not greater than " + number(k.Want)
	case *kind.ExclusiveMaximum:
		return "is not less than " + number(k.Want)
	case *kind.MultipleOf:
		return "is not a multiple of " + number(k.Want)
	case *kind.UniqueItems:
		return fmt.Sprintf("items %d and %d are equal", k.Duplicates[0], k.Duplicates[1])
	case *kind.AnyOf:
		return "fits none of the alternatives"
	case *kind.OneOf:
		if len(k.Subschemas) > 1 {
			return fmt.Sprintf("fits alternatives %d and %d, only one is allowed", k.Subschemas[0], k.Subschemas[1])
		}
		return "fits none of the alternatives"
	case *kind.FalseSchema:
		return "is not in the contract"
	}
	if keyword := e.ErrorKind.KeywordPath(); len(keyword) > 0 {
		return "violates " + keyword[0]
	}
	return "violates the contract"
}

// values shows values of a schema.
func values(vs []any) string {
	texts := make([]string, len(vs))
	for i, v := range vs {
		text, err := json.Marshal(v)
		if err != nil {
			return "the allowed values"
		}
		texts[i] = string(text)
	}
	return clip(strings.Join(texts, ", "))
}

func number(r *big.Rat) string {
	if r.IsInt() {
		return clip(r.Num().String())
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// pointer is a JSON pointer with names that are safe to print.
func pointer(path []string, more ...string) string {
	var b strings.Builder
	for _, name := range slices.Concat(path, more) {
		name = strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
		b.WriteString("/" + clip(name))
	}
	if b.Len() == 0 {
		return "the top"
	}
	return b.String()
}

// clip makes foreign text short and free of control characters.
func clip(s string) string {
	const limit = 200
	if len(s) > limit {
		s = s[:limit] + "…"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == '\u2028' || r == '\u2029' {
			return '\ufffd'
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
}

// reason is one line of an error of the schema compiler. A schema is not secret: its
// errors may quote it.
func reason(err error) string {
	if bad, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		if v, ok := errors.AsType[*jsonschema.ValidationError](bad.Err); ok {
			return "is not a valid schema: " + explain(v)
		}
	}
	if file, ok := errors.AsType[*jsonschema.LoadURLError](err); ok {
		return "load " + clip(file.URL) + ": " + file.Err.Error()
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}
