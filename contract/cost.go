package contract

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// applied counts the schemas that apply to one and the same place of a payload. Without
// a bound, definitions that refer twice to the next one double with each step; a schema
// that comes back to itself before it descends into the payload would never end.
type applied struct {
	count map[*jsonschema.Schema]int
	path  map[*jsonschema.Schema]bool
}

// checkApplied looks at every schema that can be reached from s.
func checkApplied(s *jsonschema.Schema) error {
	a := applied{count: make(map[*jsonschema.Schema]int), path: make(map[*jsonschema.Schema]bool)}
	seen := map[*jsonschema.Schema]bool{}
	todo := []*jsonschema.Schema{s}
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[s] {
			continue
		}
		seen[s] = true
		if _, err := a.of(s); err != nil {
			return err
		}
		todo = append(todo, inPlace(s)...)
		for _, subs := range below(s) {
			todo = append(todo, subs...)
		}
	}
	return nil
}

func (a applied) of(s *jsonschema.Schema) (int, error) {
	if n, ok := a.count[s]; ok {
		return n, nil
	}
	if a.path[s] {
		return 0, fmt.Errorf("%s refers to itself without descending into the document", place(s))
	}
	a.path[s] = true
	defer delete(a.path, s)
	total := 1
	for _, sub := range inPlace(s) {
		n, err := a.of(sub)
		if err != nil {
			return 0, err
		}
		if total += n; total > maxApplied {
			return 0, fmt.Errorf("%s applies more than %d schemas to one place of the document", place(s), maxApplied)
		}
	}
	a.count[s] = total
	return total, nil
}

// inPlace are the schemas that apply to the same value as s.
func inPlace(s *jsonschema.Schema) []*jsonschema.Schema {
	all := slices.Concat(s.AllOf, s.AnyOf, s.OneOf, slices.Collect(maps.Values(s.DependentSchemas)))
	all = append(all, s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else)
	if s.DynamicRef != nil {
		all = append(all, s.DynamicRef.Ref)
	}
	for _, d := range s.Dependencies {
		if sub, ok := d.(*jsonschema.Schema); ok {
			all = append(all, sub)
		}
	}
	return slices.DeleteFunc(all, func(s *jsonschema.Schema) bool { return s == nil })
}

// A step leads from a value to one of its parts: to a field, to any field, or to an
// item.
type step struct {
	name  string
	field bool
}

var (
	anyField = step{field: true}
	anyItem  = step{}
)

// below are the schemas that apply to parts of the value.
func below(s *jsonschema.Schema) map[step][]*jsonschema.Schema {
	parts := make(map[step][]*jsonschema.Schema)
	add := func(to step, subs ...*jsonschema.Schema) {
		for _, sub := range subs {
			if sub != nil {
				parts[to] = append(parts[to], sub)
			}
		}
	}
	for name, sub := range s.Properties {
		add(step{name, true}, sub)
	}
	add(anyField, slices.Collect(maps.Values(s.PatternProperties))...)
	add(anyField, s.UnevaluatedProperties, s.PropertyNames)
	add(anyItem, s.PrefixItems...)
	add(anyItem, s.Contains, s.Items2020, s.UnevaluatedItems)
	if sub, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
		add(anyField, sub)
	}
	for _, v := range []any{s.AdditionalItems, s.Items} {
		switch v := v.(type) {
		case *jsonschema.Schema:
			add(anyItem, v)
		case []*jsonschema.Schema:
			add(anyItem, v...)
		}
	}
	return parts
}

// payloadDepth is how deep a payload of a schema may be nested. Alternatives that both
// descend into the same field double the work with each level, and a recursive schema
// has any number of them: then the depth ends where checking would take too long.
func payloadDepth(root *jsonschema.Schema) (int, error) {
	parts, err := reachable(root)
	if err != nil {
		return 0, err
	}
	work := make(map[*jsonschema.Schema]int, len(parts)) // for a payload of the present depth
	for depth := range maxPayloadDepth + 1 {
		next := make(map[*jsonschema.Schema]int, len(parts))
		for s, p := range parts {
			next[s] = p.work(work)
		}
		switch {
		case next[root] > maxWork:
			return depth - 1, nil
		case maps.Equal(work, next): // the schema does not go deeper
			return maxPayloadDepth, nil
		}
		work = next
	}
	return maxPayloadDepth, nil
}

// paths counts the ways from a schema to others: to those that apply in the same place,
// and by step to those one level deeper.
type paths struct {
	here int
	down map[step]map[*jsonschema.Schema]int
}

// work is how many schemas apply to a value and the worst chain of its parts.
func (p paths) work(below map[*jsonschema.Schema]int) int {
	sum := func(to step) int {
		total := 0
		for s, n := range p.down[to] {
			total = min(total+n*below[s], 2*maxWork)
		}
		return total
	}
	worst, others := 0, sum(anyField)
	for to := range p.down {
		total := sum(to)
		if to.field && to != anyField {
			total += others // which also apply to named fields
		}
		worst = max(worst, total)
	}
	return min(p.here+worst, 2*maxWork)
}

// reachable returns the paths from every schema that applies to some value as a whole.
func reachable(root *jsonschema.Schema) (map[*jsonschema.Schema]paths, error) {
	total := 0
	all := make(map[*jsonschema.Schema]paths)
	todo := []*jsonschema.Schema{root}
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if _, ok := all[s]; ok {
			continue
		}
		p := paths{down: make(map[step]map[*jsonschema.Schema]int)}
		p.collect(s)
		all[s] = p
		if total += p.here; total > maxWork {
			return nil, fmt.Errorf("applies more than %d schemas in all", maxWork)
		}
		for _, subs := range p.down {
			todo = slices.AppendSeq(todo, maps.Keys(subs))
		}
	}
	return all, nil
}

func (p *paths) collect(s *jsonschema.Schema) {
	p.here++
	for to, subs := range below(s) {
		for _, sub := range subs {
			if p.down[to] == nil {
				p.down[to] = make(map[*jsonschema.Schema]int)
			}
			p.down[to][sub]++
		}
	}
	for _, sub := range inPlace(s) {
		p.collect(sub)
	}
}

// place is where in its file a schema stands.
func place(s *jsonschema.Schema) string { return strings.TrimPrefix(s.Location, scheme) }
