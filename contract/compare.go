package contract

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxComparisons bounds the work on schemas whose definitions multiply.
const maxComparisons = 20_000

// Compare returns how new differs from old, as far as payloads are concerned.
//
// A contract binds both sides. Consumers that were written for the old one must be able
// to read new events: nothing they read may disappear, become optional or change its
// type. And what was valid must stay valid, because old events are stored, replayed and
// still written by producers that are not deployed yet: nothing may become required or
// narrower. An optional field that is added breaks neither. Wider bounds and further
// values of an enumeration are a caution. What cannot be judged is breaking.
func Compare(old, new *Schema) []Change {
	work := maxComparisons
	c := &comparison{topic: new.topic, busy: make(map[string]bool), same: make(map[string]bool), work: &work}
	c.compare("", flatten(old.compiled), flatten(new.compiled))
	if work < 0 {
		c.add(Breaking, TooComplex, "", "the schemas are too complex to be compared")
	}
	slices.SortStableFunc(c.changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(b.Level, a.Level), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Kind, b.Kind))
	})
	return slices.Compact(c.changes)
}

// CompareAll compares the contracts of two versions of a repository, topic by topic. A
// topic may be added. It may be removed with a caution when a later version of it
// remains; otherwise its removal is breaking.
func CompareAll(old, new *Registry) []Change {
	var changes []Change
	for _, topic := range old.Topics() {
		if s := new.Schema(topic); s != nil {
			changes = append(changes, Compare(old.Schema(topic), s)...)
			continue
		}
		c := Change{Topic: topic, Level: Breaking, Kind: TopicRemoved, Text: "was removed, and no later version replaces it"}
		if later := new.later(topic); later != "" {
			c.Level, c.Text = Caution, "was removed; its consumers must have moved to "+later
		}
		changes = append(changes, c)
	}
	for _, topic := range new.Topics() {
		if old.Schema(topic) == nil {
			changes = append(changes, Change{Topic: topic, Level: Compatible, Kind: TopicAdded, Text: "was added"})
		}
	}
	return changes
}

// later returns a higher version of a topic, or "".
func (r *Registry) later(topic string) string {
	name, version := splitVersion(topic)
	for _, other := range r.Topics() {
		if n, v := splitVersion(other); n == name && version > 0 && v > version {
			return other
		}
	}
	return ""
}

// A comparison collects changes while it descends into both schemas together.
type comparison struct {
	topic   string
	changes []Change
	// busy are the pairs above the present one. A recursive schema comes back to
	// them; that they are compared already is all there is to say.
	busy map[string]bool
	same map[string]bool // results of equal
	work *int            // comparisons that are left
}

func (c *comparison) add(level Level, kind Kind, path, format string, args ...any) {
	c.changes = append(c.changes, Change{Topic: c.topic, Path: path, Level: level, Kind: kind, Text: fmt.Sprintf(format, args...)})
}

func (c *comparison) compare(path string, old, new node) {
	pair := old.identity() + "|" + new.identity()
	if c.busy[pair] || old.open() && new.open() {
		return
	}
	if *c.work--; *c.work < 0 {
		return
	}
	c.busy[pair] = true
	defer delete(c.busy, pair)

	o, n := newView(old), newView(new)
	if !c.types(path, o, n) {
		return
	}
	c.values(path, o, n)
	c.ranges(path, o, n)
	c.texts(path, o, n)
	c.fields(path, o, n)
	c.items(path, o, n)
	c.choices(path, o, n)
	c.conditions(path, o, n)
	c.annotations(path, o, n)
}

// equal reports whether two schemas mean the same.
func (c *comparison) equal(old, new node) bool {
	pair := old.identity() + "|" + new.identity()
	if same, known := c.same[pair]; known {
		return same
	}
	sub := &comparison{busy: c.busy, same: c.same, work: c.work}
	sub.compare("", old, new)
	c.same[pair] = len(sub.changes) == 0
	return c.same[pair]
}

// types compares which types a value may have, and reports whether the rest is worth
// comparing.
func (c *comparison) types(path string, o, n *view) bool {
	lost, gained := o.types&^n.types, n.types&^o.types
	switch {
	case o.types == 0 && n.types == 0:
		return false
	case n.types == 0:
		c.add(Breaking, FieldRemoved, path, "is no longer allowed")
		return false
	case o.types == 0:
		c.add(Compatible, FieldAdded, path, "is now allowed")
		return false
	case lost|gained == 0:
		return true
	case lost == 0 && gained == nullType:
		c.add(Breaking, TypeChanged, path, "may now be null: consumers that read %s fail", o.types)
	case gained == 0 && lost == nullType:
		c.add(Breaking, TypeChanged, path, "may no longer be null: events that have null are refused")
	default:
		c.add(Breaking, TypeChanged, path, "was %s and is now %s", o.types, n.types)
	}
	return o.types&n.types != 0
}

func (c *comparison) values(path string, o, n *view) {
	switch {
	case o.enum == nil && n.enum == nil:
	case n.enum == nil:
		c.add(Caution, ValuesWidened, path, "may now have other values than %s", list(o.enum))
	case o.enum == nil:
		c.add(Breaking, ValuesNarrowed, path, "may now only be %s: events with other values are refused", list(n.enum))
	default:
		if lost := without(o.enum, n.enum); len(lost) > 0 {
			c.add(Breaking, ValuesNarrowed, path, "may no longer be %s: events with it are refused", list(lost))
		}
		if gained := without(n.enum, o.enum); len(gained) > 0 {
			c.add(Caution, ValuesWidened, path, "may now also be %s: consumers must cope with it", list(gained))
		}
	}
}

func (c *comparison) texts(path string, o, n *view) {
	if !slices.Equal(o.formats, n.formats) {
		c.add(Breaking, FormatChanged, path, "the format was %s and is now %s", orNone(o.formats), orNone(n.formats))
	}
	lost, gained := without(o.patterns, n.patterns), without(n.patterns, o.patterns)
	switch {
	case len(gained) > 0:
		c.add(Breaking, PatternChanged, path, "must now match %s: events that do not are refused", list(gained))
	case len(lost) > 0:
		c.add(Caution, PatternRemoved, path, "need no longer match %s", list(lost))
	}
}

func (c *comparison) fields(path string, o, n *view) {
	for _, name := range union(maps.Keys(o.fields), maps.Keys(n.fields), maps.Keys(o.required), maps.Keys(n.required)) {
		c.field(child(path, name), name, o, n)
	}
	for _, pattern := range union(maps.Keys(o.patternFields), maps.Keys(n.patternFields)) {
		was, is := o.patternFields[pattern], n.patternFields[pattern]
		where := path + "/{" + clip(pattern) + "}"
		switch {
		case was == nil:
			c.add(Compatible, FieldAdded, where, "fields of this pattern were added")
		case is == nil:
			c.add(Breaking, FieldRemoved, where, "fields of this pattern were removed: consumers that read them fail")
		default:
			c.compare(where, was, is)
		}
	}
	switch {
	case o.closed && n.closed:
	case n.closed:
		c.add(Breaking, ObjectClosed, path, "may no longer have other fields: events that do are refused")
	case o.closed:
		c.add(Compatible, ObjectOpened, path, "may now have other fields")
	default:
		c.compare(path+"/*", o.others, n.others)
	}
}

func (c *comparison) field(path, name string, o, n *view) {
	was, is := o.fields[name], n.fields[name]
	had, required := o.required[name], n.required[name]
	switch {
	case was != nil && is == nil && newView(was).types != 0:
		c.add(Breaking, FieldRemoved, path, "was removed: consumers that read it fail")
		return
	case required && !had:
		c.add(Breaking, FieldRequired, path, "is now required: events without it are refused")
	case had && !required:
		c.add(Breaking, FieldOptional, path, "is no longer required: consumers that rely on it fail")
	}
	switch {
	case was != nil && is != nil:
		c.compare(path, was, is)
	case is == nil:
	case o.others != nil && !o.closed && !o.others.open():
		c.compare(path, o.others, is) // it was one of the other fields until now
	case newView(is).types == 0:
		c.add(Breaking, FieldRemoved, path, "is no longer allowed")
	case !required:
		c.add(Compatible, FieldAdded, path, "was added, optional")
	}
}

func (c *comparison) items(path string, o, n *view) {
	for i := range max(len(o.prefix), len(n.prefix)) {
		c.compare(fmt.Sprintf("%s/%d", path, i), o.item(i), n.item(i))
	}
	c.compare(path+"/*", o.rest, n.rest)
	if n.unique && !o.unique {
		c.add(Breaking, RangeNarrowed, path, "items must now be unique: events that repeat one are refused")
	}
	if o.unique && !n.unique {
		c.add(Caution, RangeWidened, path, "items may now repeat")
	}
}

// conditions compares keywords that cannot be judged further than whether they are the
// same.
func (c *comparison) conditions(path string, o, n *view) {
	for _, keyword := range union(maps.Keys(o.conditions), maps.Keys(n.conditions)) {
		was, is := o.conditions[keyword], n.conditions[keyword]
		switch {
		case was == nil:
			c.add(Breaking, ConditionAdded, path, "%s was added: events that violate it are refused", keyword)
		case is == nil:
			c.add(Caution, ConditionRemoved, path, "%s was removed", keyword)
		case !c.sameConditions(was, is):
			c.add(Breaking, ConditionChanged, path, "%s changed, and what that means for events cannot be told", keyword)
		}
	}
}

func (c *comparison) sameConditions(was, is []condition) bool {
	return slices.EqualFunc(was, is, func(a, b condition) bool {
		return a.text == b.text && (a.schema == nil) == (b.schema == nil) &&
			(a.schema == nil || c.equal(flatten(a.schema), flatten(b.schema)))
	})
}

func (c *comparison) annotations(path string, o, n *view) {
	if o.fallback != n.fallback {
		c.add(Caution, DefaultChanged, path, "the default was %s and is now %s", cmp.Or(o.fallback, "none"), cmp.Or(n.fallback, "none"))
	}
	if n.deprecated && !o.deprecated {
		c.add(Compatible, FieldDeprecated, path, "was deprecated")
	}
}

func child(path, name string) string { return path + pointer([]string{name}) }

func orNone(s []string) string {
	if len(s) == 0 {
		return "none"
	}
	return strings.Join(s, " and ")
}

func list(vs []string) string { return clip(strings.Join(vs, ", ")) }

// without returns the members of a that are not in b.
func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(v string) bool { return slices.Contains(b, v) })
}
