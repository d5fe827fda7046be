package sink

import (
	"fmt"
	"strings"

	"github.com/go-outbox/outbox"
)

// A template makes the sink's topic of a message. The empty one is {topic}.
type template []part

// A part is a text or a field.
type part struct {
	text  string
	field string
}

const maxTopic = 255

// fields are what a template may name.
var fields = map[string]func(*outbox.Meta) string{
	"topic":          func(m *outbox.Meta) string { return m.Topic },
	"table":          func(m *outbox.Meta) string { return m.Table },
	"tenant":         func(m *outbox.Meta) string { return m.TenantID },
	"aggregate_type": func(m *outbox.Meta) string { return m.AggregateType },
	"event_type":     func(m *outbox.Meta) string { return m.EventType },
	"version":        func(m *outbox.Meta) string { return version(m.EventVersion) },
}

const fieldNames = "topic, table, tenant, aggregate_type, event_type and version"

func parseTemplate(text string) (template, error) {
	if text == "" || text == "{topic}" {
		return nil, nil
	}
	bad := func(why string) (template, error) { return nil, fmt.Errorf("topic %.80q: %s", text, why) }
	if !isTopic(text) {
		return bad("may only hold printable ASCII without spaces")
	}
	var t template
	for rest := text; rest != ""; {
		before, after, found := strings.Cut(rest, "{")
		if strings.Contains(before, "}") {
			return bad("} without {")
		}
		if before != "" {
			t = append(t, part{text: before})
		}
		if !found {
			break
		}
		name, after, closed := strings.Cut(after, "}")
		switch {
		case !closed:
			return bad("{ without }")
		case fields[name] == nil:
			return bad(fmt.Sprintf("there is no field {%s}; there are %s", name, fieldNames))
		}
		t, rest = append(t, part{field: name}), after
	}
	return t, nil
}

// expand returns the topic for a message. What a field may hold is narrow, so that no
// tenant's name leads to another's topic, and none is a wildcard.
func (t template) expand(m *outbox.Meta) (string, error) {
	if t == nil {
		return m.Topic, nil
	}
	var b strings.Builder
	for _, p := range t {
		if p.field == "" {
			b.WriteString(p.text)
			continue
		}
		value := fields[p.field](m)
		switch {
		case value == "":
			return "", outbox.ErrInvalidTopic.With("topic", fmt.Sprintf("{%s} is empty", p.field))
		case !isPlain(value) || (p.field == "tenant" && strings.Contains(value, ".")):
			return "", outbox.ErrInvalidTopic.With("topic", fmt.Sprintf("{%s} holds %.80q, which cannot be part of a topic", p.field, value))
		}
		b.WriteString(value)
	}
	if b.Len() > maxTopic {
		return "", outbox.ErrInvalidTopic.With("topic", fmt.Sprintf("has %d bytes, at most %d are allowed", b.Len(), maxTopic))
	}
	return b.String(), nil
}

// isPlain reports whether s holds nothing that means something to a broker.
func isPlain(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return false
		}
		return true
	})
}
