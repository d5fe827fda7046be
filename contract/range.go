package contract

import (
	"math/big"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A bound is a lower or upper limit; nil is none.
type bound struct {
	value     *big.Rat
	exclusive bool
}

func (b bound) String() string {
	switch {
	case b.value == nil:
		return "none"
	case b.exclusive:
		return number(b.value) + " (exclusive)"
	}
	return number(b.value)
}

// tighter reports whether b allows less than other. sign is 1 for lower bounds and -1
// for upper ones.
func (b bound) tighter(other bound, sign int) bool {
	if b.value == nil || other.value == nil {
		return b.value != nil
	}
	order := b.value.Cmp(other.value) * sign
	return order > 0 || order == 0 && b.exclusive && !other.exclusive
}

func (b bound) equal(other bound) bool {
	return !b.tighter(other, 1) && !other.tighter(b, 1) && (b.value == nil) == (other.value == nil)
}

// whole is the same bound for integers, which have no place between 0 and 1: above 0
// is at least 1.
func (b bound) whole(sign int64) bound {
	if b.value == nil {
		return b
	}
	if !b.value.IsInt() {
		floor := new(big.Int).Div(b.value.Num(), b.value.Denom())
		if sign > 0 {
			floor.Add(floor, big.NewInt(1))
		}
		return bound{value: new(big.Rat).SetInt(floor)}
	}
	if b.exclusive {
		return bound{value: new(big.Rat).Add(b.value, big.NewRat(sign, 1))}
	}
	return b
}

// A limit is one of a schema's bounds with its name and its side.
type limit struct {
	name string
	sign int // 1 for lower bounds
	get  func(*jsonschema.Schema) bound
}

var allLimits = []limit{
	{"the minimum", 1, func(s *jsonschema.Schema) bound { return bound{value: s.Minimum} }},
	{"the minimum", 1, func(s *jsonschema.Schema) bound { return bound{s.ExclusiveMinimum, true} }},
	{"the maximum", -1, func(s *jsonschema.Schema) bound { return bound{value: s.Maximum} }},
	{"the maximum", -1, func(s *jsonschema.Schema) bound { return bound{s.ExclusiveMaximum, true} }},
	{"the minimal length", 1, func(s *jsonschema.Schema) bound { return count(s.MinLength, 1) }},
	{"the maximal length", -1, func(s *jsonschema.Schema) bound { return count(s.MaxLength, -1) }},
	{"the minimal number of items", 1, func(s *jsonschema.Schema) bound { return count(s.MinItems, 1) }},
	{"the maximal number of items", -1, func(s *jsonschema.Schema) bound { return count(s.MaxItems, -1) }},
	{"the minimal number of fields", 1, func(s *jsonschema.Schema) bound { return count(s.MinProperties, 1) }},
	{"the maximal number of fields", -1, func(s *jsonschema.Schema) bound { return count(s.MaxProperties, -1) }},
}

// count is the bound of a number of things: at least none is no bound.
func count(n *int, sign int) bound {
	if n == nil || sign > 0 && *n <= 0 {
		return bound{}
	}
	return bound{value: big.NewRat(int64(*n), 1)}
}

func (c *comparison) ranges(path string, o, n *view) {
	seen := ""
	for _, l := range allLimits {
		if l.name == seen {
			continue
		}
		seen = l.name
		was, is := o.bounds[l.name], n.bounds[l.name]
		if was.equal(is) {
			continue
		}
		if is.tighter(was, l.sign) {
			c.add(Breaking, RangeNarrowed, path, "%s was %s and is now %s: events beyond it are refused", l.name, was, is)
		} else {
			c.add(Caution, RangeWidened, path, "%s was %s and is now %s", l.name, was, is)
		}
	}
	c.multiples(path, o.multiple, n.multiple)
}

func (c *comparison) multiples(path string, was, is *big.Rat) {
	switch {
	case was == nil && is == nil, was != nil && is != nil && was.Cmp(is) == 0:
	case is == nil:
		c.add(Caution, RangeWidened, path, "need no longer be a multiple of %s", number(was))
	case was != nil && new(big.Rat).Quo(was, is).IsInt():
		c.add(Caution, RangeWidened, path, "was a multiple of %s and is now one of %s", number(was), number(is))
	default:
		c.add(Breaking, RangeNarrowed, path, "must now be a multiple of %s: other events are refused", number(is))
	}
}
