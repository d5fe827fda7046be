package contract

import (
	"encoding/json"
	"math"
	"math/big"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A quick is a schema reduced to what most schemas consist of. It says yes, or it does
// not know: then the validator decides, and words the error. So almost every event is
// checked in a third of the time, and this code cannot refuse an event wrongly. That it
// does not accept one wrongly is fuzzed against the validator.
type quick struct {
	unsure bool // it has a keyword that is not here
	types  types

	enum     []string // the strings that are allowed; nil is any
	pattern  jsonschema.Regexp
	format   *jsonschema.Format
	required []string
	fields   map[string]*quick
	closed   bool
	others   *quick // nil is anything
	items    *quick // nil is anything
	parts    []*quick
	anyOf    []*quick

	length, size interval // of strings and arrays
	number       interval
}

// An interval has both ends; the whole line is no bound.
type interval struct{ low, high int64 }

var unbounded = interval{math.MinInt64, math.MaxInt64}

func (i interval) has(n int64) bool { return i.low <= n && n <= i.high }

// newQuick reduces a schema. seen has those that were begun: schemas may be recursive.
func newQuick(s *jsonschema.Schema, seen map[*jsonschema.Schema]*quick) *quick {
	if s == nil {
		return nil
	}
	if q, ok := seen[s]; ok {
		return q
	}
	q := &quick{types: allTypes, length: unbounded, size: unbounded, number: unbounded}
	seen[s] = q
	q.unsure = hasMore(s) || s.Bool != nil && !*s.Bool
	if s.Types != nil && !s.Types.IsEmpty() {
		q.types = typesOf(s.Types)
	}
	if s.Const != nil {
		q.only([]any{*s.Const})
	}
	if s.Enum != nil {
		q.only(s.Enum.Values)
	}
	q.pattern, q.format, q.required = s.Pattern, s.Format, s.Required
	q.length = between(s.MinLength, s.MaxLength)
	q.size = between(s.MinItems, s.MaxItems)
	q.bound(s)

	q.fields = make(map[string]*quick, len(s.Properties))
	for name, sub := range s.Properties {
		q.fields[name] = newQuick(sub, seen)
	}
	switch others := s.AdditionalProperties.(type) {
	case bool:
		q.closed = !others
	case *jsonschema.Schema:
		q.others = newQuick(others, seen)
	}
	q.items = newQuick(s.Items2020, seen)
	if items, ok := s.Items.(*jsonschema.Schema); ok {
		q.items = newQuick(items, seen)
	}
	for _, sub := range slices.Concat([]*jsonschema.Schema{s.Ref}, s.AllOf) {
		if sub != nil {
			q.parts = append(q.parts, newQuick(sub, seen))
		}
	}
	for _, sub := range s.AnyOf {
		q.anyOf = append(q.anyOf, newQuick(sub, seen))
	}
	return q
}

// hasMore reports whether a schema has a keyword that a quick leaves to the validator.
func hasMore(s *jsonschema.Schema) bool {
	_, tuple := s.Items.([]*jsonschema.Schema)
	return tuple || s.AdditionalItems != nil || s.RecursiveRef != nil || s.DynamicRef != nil || s.Not != nil || s.OneOf != nil ||
		s.If != nil || s.MaxProperties != nil || s.MinProperties != nil || s.PropertyNames != nil || s.PatternProperties != nil ||
		s.Dependencies != nil || s.DependentRequired != nil || s.DependentSchemas != nil || s.UnevaluatedProperties != nil ||
		s.UniqueItems || s.Contains != nil || s.PrefixItems != nil || s.UnevaluatedItems != nil || s.MultipleOf != nil ||
		s.ContentEncoding != nil || s.ContentMediaType != nil || s.ContentSchema != nil || len(s.Extensions) > 0
}

func (q *quick) only(values []any) {
	q.unsure = q.unsure || q.enum != nil
	q.enum = []string{}
	for _, v := range values {
		if s, ok := v.(string); ok {
			q.enum = append(q.enum, s)
		}
	}
}

func between(low, high *int) interval {
	i := unbounded
	if low != nil {
		i.low = int64(*low)
	}
	if high != nil {
		i.high = int64(*high)
	}
	return i
}

// bound takes the bounds of integers; others are left to the validator.
func (q *quick) bound(s *jsonschema.Schema) {
	for _, b := range []struct {
		value *big.Rat
		by    int64
		lower bool
	}{
		{s.Minimum, 0, true}, {s.ExclusiveMinimum, 1, true}, {s.Maximum, 0, false}, {s.ExclusiveMaximum, -1, false},
	} {
		switch {
		case b.value == nil:
			continue
		case !b.value.IsInt() || !b.value.Num().IsInt64() || b.value.Num().CmpAbs(big.NewInt(math.MaxInt64)) >= 0:
			q.unsure = true
		case b.lower:
			q.number.low = max(q.number.low, b.value.Num().Int64()+b.by)
		default:
			q.number.high = min(q.number.high, b.value.Num().Int64()+b.by)
		}
	}
}

// accepts reports whether v is surely valid.
func (q *quick) accepts(v any) bool {
	switch {
	case q == nil:
		return true
	case q.unsure || !q.acceptsType(v):
		return false
	case q.format != nil && q.format.Validate(v) != nil:
		return false
	}
	for _, p := range q.parts {
		if !p.accepts(v) {
			return false
		}
	}
	return len(q.anyOf) == 0 || slices.ContainsFunc(q.anyOf, func(p *quick) bool { return p.accepts(v) })
}

func (q *quick) acceptsType(v any) bool {
	if s, ok := v.(string); ok {
		return q.acceptsString(s)
	}
	if q.enum != nil {
		return false
	}
	switch v := v.(type) {
	case nil:
		return q.types&nullType != 0
	case bool:
		return q.types&booleanType != 0
	case json.Number:
		n, err := strconv.ParseInt(string(v), 10, 64)
		return err == nil && q.types&integerType != 0 && q.number.has(n) ||
			err != nil && q.types&numberType == numberType && q.number == unbounded
	case []any:
		return q.types&arrayType != 0 && q.size.has(int64(len(v))) &&
			!slices.ContainsFunc(v, func(item any) bool { return !q.items.accepts(item) })
	case map[string]any:
		return q.types&objectType != 0 && q.acceptsObject(v)
	}
	return false
}

func (q *quick) acceptsString(s string) bool {
	return q.types&stringType != 0 &&
		(q.enum == nil || slices.Contains(q.enum, s)) &&
		(q.length == unbounded || q.length.has(int64(utf8.RuneCountInString(s)))) &&
		(q.pattern == nil || q.pattern.MatchString(s))
}

func (q *quick) acceptsObject(object map[string]any) bool {
	for _, name := range q.required {
		if _, ok := object[name]; !ok {
			return false
		}
	}
	for name, v := range object {
		field, known := q.fields[name]
		if !known {
			field = q.others
		}
		if !known && q.closed || !field.accepts(v) {
			return false
		}
	}
	return true
}
