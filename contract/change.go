package contract

import "fmt"

// Level says what a change asks of the producer.
type Level int

const (
	// Compatible changes need nothing: an optional field was added, a closed
	// object was opened.
	Compatible Level = iota
	// Caution means: consumers that rely on a bound or on the list of allowed values may
	// be surprised, although everything they parse still parses.
	Caution
	// Breaking changes need a new topic version: readers of old events cannot read
	// the new ones, or events that were valid no longer are.
	Breaking
)

func (l Level) String() string {
	switch l {
	case Compatible:
		return "compatible"
	case Caution:
		return "caution"
	default:
		return "breaking"
	}
}

// MarshalText is how a level appears in JSON.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// Kind names what changed. The values are stable.
type Kind string

// The kinds of change.
const (
	TopicAdded       Kind = "topic_added"
	TopicRemoved     Kind = "topic_removed"
	FieldAdded       Kind = "field_added"
	FieldRemoved     Kind = "field_removed"
	FieldRequired    Kind = "field_required"
	FieldOptional    Kind = "field_optional"
	FieldDeprecated  Kind = "field_deprecated"
	TypeChanged      Kind = "type_changed"
	FormatChanged    Kind = "format_changed"
	ValuesNarrowed   Kind = "values_narrowed"
	ValuesWidened    Kind = "values_widened"
	RangeNarrowed    Kind = "range_narrowed"
	RangeWidened     Kind = "range_widened"
	PatternChanged   Kind = "pattern_changed"
	PatternRemoved   Kind = "pattern_removed"
	ObjectClosed     Kind = "object_closed"
	ObjectOpened     Kind = "object_opened"
	ChoiceAdded      Kind = "choice_added"
	ChoiceRemoved    Kind = "choice_removed"
	ConditionAdded   Kind = "condition_added"
	ConditionRemoved Kind = "condition_removed"
	ConditionChanged Kind = "condition_changed"
	DefaultChanged   Kind = "default_changed"
	TooComplex       Kind = "too_complex"
)

// A Change is one difference between two contracts.
type Change struct {
	Topic string `json:"topic"`
	// Path is where in the payload: a JSON pointer in which * stands for every
	// item or name. Empty is the payload itself.
	Path  string `json:"path"`
	Level Level  `json:"level"`
	Kind  Kind   `json:"kind"`
	// Text explains the change to a person.
	Text string `json:"text"`
}

func (c Change) String() string {
	path := c.Path
	if path == "" {
		path = "payload"
	}
	return fmt.Sprintf("%s: %s: %s: %s", c.Topic, c.Level, path, c.Text)
}

// widens reports whether c allows payloads that were not valid before.
func (c Change) widens() bool { return c.Level == Caution || c.Kind == ObjectOpened }

// Worst is the highest level among changes, Compatible when there are none.
func Worst(changes []Change) Level {
	worst := Compatible
	for _, c := range changes {
		worst = max(worst, c.Level)
	}
	return worst
}
