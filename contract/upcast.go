package contract

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/go-outbox/outbox"
)

// An Upcaster turns the payload of one version into that of the next. It must not
// change the bytes it is given.
type Upcaster func(payload []byte) ([]byte, error)

// Upcasters let a consumer handle the newest version of an event only: they lift older
// ones to it, one version after the other. The relay never does this; events are
// delivered as they were enqueued. The zero value has no steps and is ready to use. Add
// first, then share: Upcast is safe for concurrent use, Add is not.
type Upcasters struct {
	steps map[string]Upcaster // by the topic they start from, with .vN
}

// Add registers the step from a topic version, such as shop.order.placed.v1, to the
// next. The topic must end in .vN; for topics without a version, append it.
func (u *Upcasters) Add(topic string, step Upcaster) error {
	_, version := splitVersion(topic)
	switch {
	case version == 0:
		return outbox.ErrInvalidConfig.With("topic", fmt.Sprintf("%q: must end in .vN, such as .v1", clip(topic)))
	case step == nil:
		return outbox.ErrInvalidConfig.With("upcaster", "of "+topic+" is nil")
	case u.steps[topic] != nil:
		return outbox.ErrInvalidConfig.With("upcaster", "of "+topic+" exists already")
	}
	if u.steps == nil {
		u.steps = make(map[string]Upcaster)
	}
	u.steps[topic] = step
	return nil
}

// An Event is a payload with the version of its topic.
type Event struct {
	Topic   string
	Version int
	Payload []byte
}

// Upcast lifts an event as far as the steps go. Topic and version are those of its
// Meta; a version of 0 is taken from the topic. An event without a step comes back
// unchanged. When a step fails, so does Upcast, and nothing of the event is usable: a
// consumer that returns the error has the event again later.
func (u *Upcasters) Upcast(topic string, version int, payload []byte) (Event, error) {
	name, n := splitVersion(topic)
	if version == 0 || n != 0 {
		version = n // the topic is what routes; it cannot be wrong
	}
	e := Event{Topic: topic, Version: version, Payload: payload}
	for {
		step := u.steps[versioned(name, e.Version)]
		if step == nil {
			return e, nil
		}
		next, err := step(e.Payload)
		if err == nil && len(next) == 0 {
			err = errors.New("the result is empty")
		}
		if err != nil {
			return Event{}, fmt.Errorf("upcast %s from v%d: %w", name, e.Version, err)
		}
		e.Version++
		e.Payload = next
		if n != 0 {
			e.Topic = versioned(name, e.Version)
		}
	}
}

func versioned(name string, version int) string { return name + ".v" + strconv.Itoa(version) }
