package contract

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A group is the alternatives of an anyOf or oneOf.
type group struct {
	keyword  string
	branches []*jsonschema.Schema
}

// addGroups takes the alternatives of a part. Those that only list types or values are
// not a group: they are another way to write type or enum.
func (v *view) addGroups(p part) {
	for _, g := range []group{{"anyOf", p.AnyOf}, {"oneOf", p.OneOf}} {
		if s, _ := single(g.branches); s != nil || len(g.branches) == 0 {
			continue
		}
		allowed, plain, listed, values := types(0), true, 0, []string{}
		for _, b := range g.branches {
			bv := newView(flatten(b))
			allowed |= bv.types
			plain = plain && bv.plain()
			values = append(values, bv.enum...)
			if bv.enum != nil {
				listed++
			}
		}
		if p.optional {
			allowed |= nullType
			values = append(values, "null")
		}
		v.types &= allowed
		switch {
		case plain && listed == len(g.branches):
			v.onlyTexts(values)
		case plain && listed == 0: // the types say it all
		default:
			v.groups = append(v.groups, g)
		}
	}
}

// plain reports whether a view says nothing but types and values.
func (v *view) plain() bool {
	return len(v.formats)+len(v.patterns)+len(v.fields)+len(v.required)+len(v.patternFields)+len(v.prefix)+len(v.groups)+
		len(v.conditions) == 0 && v.multiple == nil && !v.closed && v.others.open() && v.rest.open() && !v.unique && !v.bounded()
}

func (v *view) bounded() bool {
	for _, b := range v.bounds {
		if b.value != nil {
			return true
		}
	}
	return false
}

func (c *comparison) choices(path string, o, n *view) {
	if len(o.groups) != len(n.groups) {
		c.add(Breaking, ConditionChanged, path, "there were %d sets of alternatives and are now %d; what that means cannot be told",
			len(o.groups), len(n.groups))
		return
	}
	for i := range o.groups {
		c.group(path, o.groups[i], n.groups[i])
	}
}

func (c *comparison) group(path string, old, new group) {
	if old.keyword != new.keyword {
		level := Breaking
		if new.keyword == "anyOf" {
			level = Caution
		}
		c.add(level, ConditionChanged, path, "%s became %s", old.keyword, new.keyword)
	}
	was, is := slices.Clone(old.branches), slices.Clone(new.branches)
	c.pair(&was, &is, func(a, b *jsonschema.Schema) bool { return c.equal(flatten(a), flatten(b)) }, nil)
	var widened []*jsonschema.Schema
	differ := func(a, b *jsonschema.Schema) {
		before := len(c.changes)
		c.compare(path+"("+label(b, slices.Index(new.branches, b))+")", flatten(a), flatten(b))
		if slices.ContainsFunc(c.changes[before:], Change.widens) {
			widened = append(widened, b)
		}
	}
	c.pair(&was, &is, func(a, b *jsonschema.Schema) bool { return label(a, -1) != "" && label(a, -1) == label(b, -1) }, differ)
	if len(was) == len(is) {
		c.pair(&was, &is, func(a, b *jsonschema.Schema) bool { return label(a, -1) == "" && label(b, -1) == "" }, differ)
	}
	for _, s := range was {
		c.add(Breaking, ChoiceRemoved, path, "alternative %s was removed: events of it are refused", label(s, slices.Index(old.branches, s)))
	}
	for _, s := range is {
		c.add(Caution, ChoiceAdded, path, "alternative %s was added: consumers must cope with it", label(s, slices.Index(new.branches, s)))
	}
	c.overlaps(path, new, append(widened, is...))
}

// overlaps looks for alternatives of a oneOf that allow more than before: an event that
// fitted one of them may now fit two, and is refused for it.
func (c *comparison) overlaps(path string, g group, wider []*jsonschema.Schema) {
	if g.keyword != "oneOf" {
		return
	}
	for _, s := range wider {
		for _, other := range g.branches {
			if s != other && !disjoint(newView(flatten(s)), newView(flatten(other))) {
				c.add(Breaking, ConditionChanged, path, "alternative %s may overlap with %s: events that fit both are refused",
					label(s, slices.Index(g.branches, s)), label(other, slices.Index(g.branches, other)))
				return
			}
		}
	}
}

// disjoint reports whether surely no value fits both: by its type, its values, or a
// required field that tells them apart.
func disjoint(a, b *view) bool {
	if a.types&b.types == 0 || distinct(a.enum, b.enum) {
		return true
	}
	if (a.types | b.types) != objectType {
		return false
	}
	for name := range a.required {
		if b.required[name] && distinct(newView(a.fields[name]).enum, newView(b.fields[name]).enum) {
			return true
		}
	}
	return false
}

// distinct reports whether two enumerations share no value.
func distinct(a, b []string) bool {
	return a != nil && b != nil && len(without(a, b)) == len(a)
}

// pair takes away the alternatives that belong together, and hands them to found.
func (c *comparison) pair(was, is *[]*jsonschema.Schema, match func(a, b *jsonschema.Schema) bool, found func(a, b *jsonschema.Schema)) {
	*was = slices.DeleteFunc(*was, func(a *jsonschema.Schema) bool {
		i := slices.IndexFunc(*is, func(b *jsonschema.Schema) bool { return match(a, b) })
		if i < 0 {
			return false
		}
		if found != nil {
			found(a, (*is)[i])
		}
		*is = slices.Delete(*is, i, i+1)
		return true
	})
}

// label names an alternative: by its title, by the constants that tell it from the
// others, or by the definition it refers to. Without any of them it has a number, or no
// name when that is negative.
func label(s *jsonschema.Schema, i int) string {
	if s.Title != "" {
		return clip(s.Title)
	}
	v := newView(flatten(s))
	var constants []string
	for _, name := range union(maps.Keys(v.fields)) {
		if values := newView(v.fields[name]).enum; len(values) == 1 {
			constants = append(constants, name+"="+values[0])
		}
	}
	if len(constants) > 0 {
		return clip(strings.Join(constants, ","))
	}
	if s.Ref != nil {
		return clip(s.Ref.Location[strings.LastIndex(s.Ref.Location, "/")+1:])
	}
	if i < 0 {
		return ""
	}
	return fmt.Sprint(i)
}
