package outbox

import (
	"fmt"
	"strconv"
	"strings"
)

// A TopicPolicy decides which topics may be enqueued. It returns nil, or an error
// that says what the policy wants.
type TopicPolicy func(topic string) error

// maxTopic bounds every topic, whatever the policy: brokers have limits too.
const maxTopic = 255

// StrictTopics is the default policy: `module.aggregate.event.vN`, lower case,
// letters, digits, dots and hyphens, shorter than 128 bytes. A breaking change of
// the payload takes the next vN.
func StrictTopics(topic string) error {
	segments := strings.Split(topic, ".")
	switch {
	case len(topic) >= 128:
		return topicError(topic, "must be shorter than 128 bytes")
	case len(segments) < 4:
		return topicError(topic, "want module.aggregate.event.vN, such as shop.order.placed.v1")
	}
	for _, s := range segments {
		if !isToken(s, false) {
			return topicError(topic, "segments hold lower-case letters, digits and hyphens")
		}
	}
	if topicVersion(topic) == 0 {
		return topicError(topic, "must end in .vN, such as .v1")
	}
	return nil
}

// DomainTopics accepts `domain.action` and `domain.action.phase`, lower case, with
// underscores allowed.
func DomainTopics(topic string) error {
	segments := strings.Split(topic, ".")
	if n := len(segments); n < 2 || n > 3 {
		return topicError(topic, "want domain.action or domain.action.phase, such as stock.move.done")
	}
	for _, s := range segments {
		if !isToken(s, true) {
			return topicError(topic, "segments hold lower-case letters, digits, hyphens and underscores")
		}
	}
	return nil
}

// AnyTopic accepts every topic of printable ASCII without spaces. Sinks may still
// refuse what their broker cannot carry.
func AnyTopic(string) error { return nil }

// checkTopic is what holds for every policy: hostile topics must never reach a
// broker's wire protocol.
func checkTopic(topic string) error {
	if topic == "" {
		return ErrInvalidTopic.With("topic", "is empty")
	}
	if len(topic) > maxTopic {
		return ErrInvalidTopic.With("topic", fmt.Sprintf("is %d bytes long, at most %d are allowed", len(topic), maxTopic))
	}
	for i := range len(topic) {
		if c := topic[i]; c <= ' ' || c >= 0x7f {
			return topicError(topic, "may only hold printable ASCII without spaces")
		}
	}
	return nil
}

func topicError(topic, want string) error {
	return ErrInvalidTopic.With("topic", fmt.Sprintf("%q: %s", clip(topic, 80), want))
}

func isToken(s string, underscore bool) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-':
		case c == '_' && underscore:
		default:
			return false
		}
	}
	return s != ""
}

// topicVersion is the N of a topic that ends in .vN, or 0.
func topicVersion(topic string) int {
	i := strings.LastIndexByte(topic, '.')
	last := topic[i+1:]
	if i < 0 || len(last) < 2 || last[0] != 'v' || last[1] == '0' {
		return 0
	}
	n, err := strconv.ParseUint(last[1:], 10, 31)
	if err != nil {
		return 0
	}
	return int(n)
}

// A TopicMapper gives each aggregate type its topic, for applications that name
// aggregates and not topics. Make it with NewTopicMapper.
type TopicMapper struct {
	topics map[string]string
}

// NewTopicMapper makes a mapper from aggregate type to topic. Every topic must
// satisfy policy (nil means [StrictTopics]).
func NewTopicMapper(topics map[string]string, policy TopicPolicy) (*TopicMapper, error) {
	if policy == nil {
		policy = StrictTopics
	}
	m := &TopicMapper{topics: make(map[string]string, len(topics))}
	for aggregate, topic := range topics {
		if err := checkTopic(topic); err != nil {
			return nil, fmt.Errorf("aggregate type %q: %w", aggregate, err)
		}
		if err := policy(topic); err != nil {
			return nil, fmt.Errorf("aggregate type %q: %w", aggregate, err)
		}
		m.topics[aggregate] = topic
	}
	return m, nil
}

// Topic returns the topic of an aggregate type, or ErrUnmappedTopic: never an
// empty topic.
func (m *TopicMapper) Topic(aggregateType string) (string, error) {
	if t, ok := m.topics[aggregateType]; ok {
		return t, nil
	}
	return "", ErrUnmappedTopic.With("aggregate_type", fmt.Sprintf("%q has no topic; add it to the mapper", clip(aggregateType, 80)))
}

// GetTopic is Topic for code that expects R-B9's signature; it returns "" for an
// unmapped type, which Enqueue refuses.
func (m *TopicMapper) GetTopic(aggregateType string) string { return m.topics[aggregateType] }

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
