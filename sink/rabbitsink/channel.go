package rabbitsink

import (
	"errors"
	"fmt"

	"github.com/rabbitmq/amqp091-go"

	"github.com/go-outbox/outbox"
)

// A channel belongs to one dispatch at a time, so that a confirm, a return and an
// exception belong to its messages.
type channel struct {
	raw *amqp091.Channel
	// returns has room for every message that is not confirmed: the client library
	// drops what it cannot hand over.
	returns   chan amqp091.Return
	closed    chan *amqp091.Error
	unsettled []*amqp091.DeferredConfirmation
}

// settled reports whether the channel may be used: the broker has confirmed all that
// was ever published on it.
func (c *channel) settled() bool {
	for _, confirm := range c.unsettled {
		select {
		case <-confirm.Done():
		default:
			return false
		}
	}
	c.unsettled = c.unsettled[:0]
	c.returned() // those of the last dispatch
	return true
}

// returned takes the messages that no queue took. A return comes before its confirm.
func (c *channel) returned() map[string]bool {
	var ids map[string]bool
	for {
		select {
		case r, ok := <-c.returns:
			if !ok {
				return ids
			}
			if ids == nil {
				ids = map[string]bool{}
			}
			ids[r.MessageId+" "+r.RoutingKey] = true
		default:
			return ids
		}
	}
}

var (
	errNacked = errors.New("the broker could not take it (nack): a queue is full or has failed")
	errLost   = errors.New("the connection was lost before the confirm")
)

// judge fills in the results of letters. Why is what ended the wait for those that are
// not confirmed. It reports whether the broker closed the channel for the sake of one
// message.
func (c *channel) judge(letters []*letter, why error) (oneForAll bool) {
	closed := c.raw.IsClosed()
	if closed {
		oneForAll, why = c.reason(why)
	} else if why == nil {
		why = errLost // the channel closes at this moment
	}
	returned := c.returned()
	for _, x := range letters {
		*x.err = x.result(returned, closed, why)
	}
	return oneForAll
}

// reason is why the channel was closed: by the broker, which says so, or with its
// connection.
func (c *channel) reason(why error) (oneForAll bool, err error) {
	select {
	case e := <-c.closed:
		switch {
		case e == nil: // we closed it
		case e.Server:
			return aboutOne(e), brokerError(e)
		case outbox.IsUnavailable(why): // blocked, and then the deadline ended a write that hung
			return false, why
		default:
			return false, fmt.Errorf("%w: %w", errLost, e)
		}
	default:
	}
	switch {
	case why == nil:
		return false, errLost
	case outbox.IsUnavailable(why):
		return false, why
	}
	return false, fmt.Errorf("%w: %w", errLost, why)
}

// result is what became of one letter.
func (x *letter) result(returned map[string]bool, closed bool, why error) error {
	switch {
	case x.confirm == nil, !isDone(x.confirm), closed && !x.confirm.Acked():
		return fmt.Errorf("rabbitmq: %w", why)
	case !x.confirm.Acked():
		return fmt.Errorf("rabbitmq: %w", errNacked)
	case returned[x.publishing.MessageId+" "+x.key]:
		return fmt.Errorf("rabbitmq: no queue takes %q: bind one to the exchange", x.key)
	}
	return nil
}

func isDone(confirm *amqp091.DeferredConfirmation) bool {
	select {
	case <-confirm.Done():
		return true
	default:
		return false
	}
}
