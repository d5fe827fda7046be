package contract

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A node is the schemas that hold together for one value: a schema, what it refers to
// and the parts of its allOf. No schemas means that anything goes.
type node []part

// A part is one schema of a node. optional: or null, for the common way to write
// nullable with anyOf.
type part struct {
	*jsonschema.Schema
	optional bool
}

// flatten makes the node of a schema; the checks at load time promise that it ends.
func flatten(s *jsonschema.Schema) node { return node(nil).with(part{Schema: s}) }

func (n node) with(p part) node {
	if p.Schema == nil || slices.Contains(n, p) {
		return n
	}
	if p.Ref != nil && p.DraftVersion < 2019 {
		return n.with(part{p.Ref, p.optional}) // siblings of a reference do not count there
	}
	if p.Ref == nil || !newView(node{p}).silent() {
		n = append(n, p)
	}
	n = n.with(part{p.Ref, p.optional})
	n = n.with(part{p.RecursiveRef, p.optional})
	if p.DynamicRef != nil {
		n = n.with(part{p.DynamicRef.Ref, p.optional})
	}
	for _, s := range p.AllOf {
		n = n.with(part{s, p.optional})
	}
	for _, branches := range [][]*jsonschema.Schema{p.AnyOf, p.OneOf} {
		if s, optional := single(branches); s != nil {
			n = n.with(part{s, p.optional || optional})
		}
	}
	return n
}

// single returns the only alternative that says something, if there is one besides
// null.
func single(branches []*jsonschema.Schema) (s *jsonschema.Schema, optional bool) {
	switch {
	case len(branches) == 1:
		return branches[0], false
	case len(branches) != 2:
		return nil, false
	case isNull(branches[0]) && !isNull(branches[1]):
		return branches[1], true
	case isNull(branches[1]) && !isNull(branches[0]):
		return branches[0], true
	}
	return nil, false
}

func isNull(s *jsonschema.Schema) bool {
	return s.Types != nil && typesOf(s.Types) == nullType && s.Ref == nil
}

func (n node) identity() string {
	var b strings.Builder
	for _, p := range n {
		fmt.Fprintf(&b, "%p%v,", p.Schema, p.optional)
	}
	return b.String()
}

// open reports whether a node says nothing.
func (n node) open() bool {
	return !slices.ContainsFunc(n, func(p part) bool { return p.Bool == nil || !*p.Bool })
}

// A view is what the schemas of a node say together, keyword by keyword.
type view struct {
	types      types
	enum       []string // JSON texts; nil is no enumeration
	formats    []string
	patterns   []string
	bounds     map[string]bound
	multiple   *big.Rat
	fields     map[string]node
	required   map[string]bool
	closed     bool
	others     node // fields without a name
	prefix     []node
	rest       node // further items
	unique     bool
	groups     []group
	conditions map[string][]condition
	fallback   string
	deprecated bool

	patternFields map[string]node
}

// silent reports whether a view says nothing.
func (v *view) silent() bool {
	return v.plain() && v.types == allTypes && v.enum == nil && v.fallback == "" && !v.deprecated
}

// A condition is a keyword that is compared as a whole: by its text and its schema.
type condition struct {
	text   string
	schema *jsonschema.Schema
}

func newView(n node) *view {
	v := &view{
		types: allTypes, bounds: make(map[string]bound), fields: make(map[string]node), required: make(map[string]bool),
		patternFields: make(map[string]node), conditions: make(map[string][]condition),
	}
	for _, p := range n {
		v.addValue(p)
		v.addObject(p.Schema)
		v.addArray(p.Schema)
		v.addGroups(p)
		v.addConditions(p.Schema)
	}
	v.finish()
	return v
}

func (v *view) addValue(p part) {
	null := types(0)
	if p.optional {
		null = nullType
	}
	if p.Bool != nil && !*p.Bool {
		v.types &= null
	}
	if p.Types != nil && !p.Types.IsEmpty() {
		v.types &= typesOf(p.Types) | null
	}
	if p.Const != nil {
		v.only([]any{*p.Const}, p.optional)
	}
	if p.Enum != nil {
		v.only(p.Enum.Values, p.optional)
	}
	if p.Format != nil {
		v.formats = append(v.formats, p.Format.Name)
	}
	if p.Pattern != nil {
		v.patterns = append(v.patterns, p.Pattern.String())
	}
	for _, l := range allLimits {
		if b := l.get(p.Schema); b.tighter(v.bounds[l.name], l.sign) {
			v.bounds[l.name] = b
		}
	}
	switch {
	case p.MultipleOf == nil:
	case v.multiple == nil:
		v.multiple = p.MultipleOf
	default:
		v.condition("multipleOf", number(p.MultipleOf), nil)
	}
	if p.Default != nil {
		v.fallback = jsonText(*p.Default)
	}
	v.deprecated = v.deprecated || p.Deprecated
}

// only narrows the values to these.
func (v *view) only(vs []any, optional bool) {
	if optional {
		vs = append(slices.Clone(vs), nil)
	}
	allowed, texts := types(0), make([]string, len(vs))
	for i, value := range vs {
		allowed |= typeOf(value)
		texts[i] = jsonText(value)
	}
	v.types &= allowed
	v.onlyTexts(texts)
}

func (v *view) onlyTexts(texts []string) {
	if v.enum != nil {
		texts = slices.DeleteFunc(texts, func(t string) bool { return !slices.Contains(v.enum, t) })
	}
	v.enum = texts
}

func (v *view) addObject(s *jsonschema.Schema) {
	for _, name := range s.Required {
		v.required[name] = true
	}
	for name, sub := range s.Properties {
		v.fields[name] = v.fields[name].with(part{Schema: sub})
	}
	for pattern, sub := range s.PatternProperties {
		v.patternFields[pattern.String()] = v.patternFields[pattern.String()].with(part{Schema: sub})
	}
	switch others := s.AdditionalProperties.(type) {
	case bool:
		v.closed = v.closed || !others
	case *jsonschema.Schema:
		v.others = v.others.with(part{Schema: others})
	}
	if s.UnevaluatedProperties != nil {
		v.others = v.others.with(part{Schema: s.UnevaluatedProperties})
	}
}

func (v *view) addArray(s *jsonschema.Schema) {
	prefix, rest := s.PrefixItems, s.Items2020
	switch items := s.Items.(type) { // before 2020
	case *jsonschema.Schema:
		rest = items
	case []*jsonschema.Schema:
		prefix = items
		switch more := s.AdditionalItems.(type) {
		case *jsonschema.Schema:
			rest = more
		case bool:
			rest = &jsonschema.Schema{Bool: &more}
		}
	}
	for i, sub := range prefix {
		for len(v.prefix) <= i {
			v.prefix = append(v.prefix, slices.Clone(v.rest))
		}
		v.prefix[i] = v.prefix[i].with(part{Schema: sub})
	}
	v.rest = v.rest.with(part{Schema: rest})
	v.unique = v.unique || s.UniqueItems
}

func (v *view) item(i int) node {
	if i < len(v.prefix) {
		return v.prefix[i]
	}
	return v.rest
}

func (v *view) addConditions(s *jsonschema.Schema) {
	for keyword, sub := range map[string]*jsonschema.Schema{
		"not": s.Not, "if": s.If, "then": s.Then, "else": s.Else, "contains": s.Contains,
		"propertyNames": s.PropertyNames, "unevaluatedItems": s.UnevaluatedItems,
	} {
		if sub != nil {
			v.condition(keyword, "", sub)
		}
	}
	for _, name := range union(maps.Keys(s.DependentSchemas)) {
		v.condition("dependentSchemas", name, s.DependentSchemas[name])
	}
	for _, name := range union(maps.Keys(s.DependentRequired)) {
		v.condition("dependentRequired", name+": "+jsonText(s.DependentRequired[name]), nil)
	}
	for _, name := range union(maps.Keys(s.Dependencies)) {
		switch d := s.Dependencies[name].(type) {
		case *jsonschema.Schema:
			v.condition("dependencies", name, d)
		default:
			v.condition("dependencies", name+": "+jsonText(d), nil)
		}
	}
	if s.MinContains != nil {
		v.condition("minContains", jsonText(*s.MinContains), nil)
	}
	if s.MaxContains != nil {
		v.condition("maxContains", jsonText(*s.MaxContains), nil)
	}
}

func (v *view) condition(keyword, text string, sub *jsonschema.Schema) {
	v.conditions[keyword] = append(v.conditions[keyword], condition{text, sub})
}

// finish brings equivalent ways to say something into one form.
func (v *view) finish() {
	v.closed = v.closed || slices.ContainsFunc(v.others, func(p part) bool { return p.Bool != nil && !*p.Bool })
	for _, list := range []*[]string{&v.formats, &v.patterns, &v.enum} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	if v.types&fractionType == 0 {
		v.bounds["the minimum"] = v.bounds["the minimum"].whole(1)
		v.bounds["the maximum"] = v.bounds["the maximum"].whole(-1)
	}
	if v.types == booleanType && len(v.enum) == 2 {
		v.enum = nil // it lists all there is
	}
}

// types is a set of JSON types. Integers are a part of the numbers.
type types int

const (
	nullType types = 1 << iota
	booleanType
	integerType
	fractionType
	stringType
	arrayType
	objectType

	numberType = integerType | fractionType
	allTypes   = objectType<<1 - 1
)

var typeNames = []struct {
	types types
	name  string
}{
	{objectType, "object"},
	{arrayType, "array"},
	{stringType, "string"},
	{numberType, "number"},
	{integerType, "integer"},
	{fractionType, "fraction"},
	{booleanType, "boolean"},
	{nullType, "null"},
}

func (t types) String() string {
	if t == allTypes {
		return "any type"
	}
	var names []string
	for _, n := range typeNames {
		if t&n.types == n.types {
			names = append(names, n.name)
			t &^= n.types
		}
	}
	return strings.Join(names, " or ")
}

func typesOf(names *jsonschema.Types) types {
	var t types
	for _, name := range names.ToStrings() {
		for _, n := range typeNames {
			if n.name == name {
				t |= n.types
			}
		}
	}
	return t
}

func typeOf(v any) types {
	switch v := v.(type) {
	case nil:
		return nullType
	case bool:
		return booleanType
	case string:
		return stringType
	case []any:
		return arrayType
	case map[string]any:
		return objectType
	case json.Number:
		if r, ok := new(big.Rat).SetString(string(v)); ok && !r.IsInt() {
			return fractionType
		}
		return integerType
	}
	return 0
}

// jsonText is the JSON of a value of a schema, with numbers in one form.
func jsonText(v any) string {
	if n, ok := v.(json.Number); ok {
		if r, ok := new(big.Rat).SetString(string(n)); ok {
			return number(r)
		}
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

// union returns the names of several maps, once each, in order.
func union(names ...iter.Seq[string]) []string {
	var all []string
	for _, seq := range names {
		all = slices.AppendSeq(all, seq)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
