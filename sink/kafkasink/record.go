package kafkasink

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/wire"
)

// maxTopic is Kafka's: a topic is part of a file name.
const maxTopic = 249

// pack makes the record of a message. It copies what belongs to the relay, because the
// client may have the record for longer than the dispatch lasts. Its errors are
// permanent.
func pack(msg *outbox.DispatchedMessage) (*parcel, error) {
	headers, err := wire.Headers(&msg.Meta)
	if err != nil {
		return nil, err
	}
	if err := checkTopic(msg.Meta.Topic); err != nil {
		return nil, outbox.Permanent(err)
	}
	key := msg.Meta.OrderingKey()
	size := len(key) + len(msg.Payload)
	for _, h := range headers {
		size += len(h.Value)
	}
	slab := make([]byte, 0, size)
	hold := func(text string) []byte {
		from := len(slab)
		slab = append(slab, text...)
		return slab[from:len(slab):len(slab)]
	}
	p := &parcel{id: identify(msg)}
	p.record.Topic = msg.Meta.Topic
	p.record.Key = hold(key)
	p.record.Headers = make([]kgo.RecordHeader, len(headers))
	for i, h := range headers {
		p.record.Headers[i] = kgo.RecordHeader{Key: h.Name, Value: hold(h.Value)}
	}
	from := len(slab)
	slab = append(slab, msg.Payload...)
	p.record.Value = slab[from:] // not nil even if empty: that would delete the key from a compacted topic
	return p, nil
}

// checkTopic refuses what no cluster can have.
func checkTopic(topic string) error {
	switch {
	case len(topic) > maxTopic:
		return outbox.ErrInvalidTopic.With("topic", fmt.Sprintf("has %d bytes, Kafka allows %d", len(topic), maxTopic))
	case topic == "." || topic == "..":
		return outbox.ErrInvalidTopic.With("topic", "must not be . or ..")
	case strings.ContainsFunc(topic, notInTopic):
		return outbox.ErrInvalidTopic.With("topic", "may only hold letters, digits, dots, underscores and hyphens in Kafka")
	}
	return nil
}

func notInTopic(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '_' && r != '-'
}

// Parse is for consumers: the message that a sink made this record of. A record that
// is not one of ours is an error. The payload is the record's value, not a copy.
func Parse(record *kgo.Record) (outbox.DispatchedMessage, error) {
	headers := make([]wire.Header, len(record.Headers))
	for i, h := range record.Headers {
		headers[i] = wire.Header{Name: h.Key, Value: string(h.Value)}
	}
	msg, err := wire.Parse(headers, record.Value)
	if err != nil {
		return msg, fmt.Errorf("kafka %s/%d@%d: %w", record.Topic, record.Partition, record.Offset, err)
	}
	return msg, nil
}
