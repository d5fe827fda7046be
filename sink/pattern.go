package sink

import (
	"fmt"
	"strings"
)

// A pattern matches topics: * is one segment, ** at the end is one or more.
type pattern string

func parsePattern(text string) (pattern, error) {
	bad := func(why string) (pattern, error) { return "", fmt.Errorf("pattern %.80q: %s", text, why) }
	if text == "" {
		return bad("is empty")
	}
	segments := strings.Split(text, ".")
	for i, s := range segments {
		switch {
		case s == "":
			return bad("has an empty segment")
		case s == ">" || s == "#":
			return bad("write ** for all that follows")
		case s == "**" && i < len(segments)-1:
			return bad("** is for the end only")
		case s != "*" && s != "**" && strings.Contains(s, "*"):
			return bad("* stands for a whole segment")
		case !isTopic(s):
			return bad("may only hold printable ASCII without spaces")
		}
	}
	return pattern(text), nil
}

func isTopic(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

func (p pattern) literal() bool { return !strings.Contains(string(p), "*") }

func (p pattern) matches(topic string) bool { return p.covers(pattern(topic)) }

// covers reports whether every topic that q matches is one that p matches. A topic
// without wildcards is a pattern that matches itself.
func (p pattern) covers(q pattern) bool {
	for {
		mine, rest, more := strings.Cut(string(p), ".")
		theirs, others, moreOthers := strings.Cut(string(q), ".")
		switch {
		case theirs == "": // no topic has an empty segment
			return false
		case mine == "**":
			return true
		case theirs == "**":
			return false
		case mine != "*" && mine != theirs:
			return false
		case more != moreOthers:
			return false
		case !more:
			return true
		}
		p, q = pattern(rest), pattern(others)
	}
}
