package outboxtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/go-outbox/outbox"
)

// Faults are the ways in which deliveries go wrong, all of them permitted by
// at-least-once delivery. The zero value has none. They can be combined.
type Faults struct {
	// Duplicates is how often each message is delivered again later, after
	// messages that followed it, as when a broker redelivers.
	Duplicates int
	// Concurrent delivers each message twice at the same moment, as when two
	// consumers of a group, or a relay that lost its lease and its successor, have
	// the same message.
	Concurrent bool
	// Reorder delays each delivery by a random time, so that messages with
	// different keys, and those without one, overtake each other.
	Reorder bool
	// LostAcks is how many deliveries succeed without the relay learning of it.
	// Their messages are delivered again after a backoff.
	LostAcks int
	// Crashes is how many relays end after the consumer has accepted a message and
	// before that is recorded. The next relay waits for the lease to expire and
	// delivers the message again. At most 2: a third crash in a row would be
	// blamed on the message.
	Crashes int
	// Down is how long, from the first delivery on, the destination is unavailable.
	Down time.Duration
	// Seed makes the random choices; the same seed makes the same ones.
	Seed uint64
}

var faultCases = []struct {
	name   string
	faults Faults
}{
	{"no fault", Faults{}},
	{"duplicates", Faults{Duplicates: 2}},
	{"concurrent duplicates", Faults{Concurrent: true}},
	{"reordered", Faults{Reorder: true}},
	{"lost acknowledgements", Faults{LostAcks: 3}},
	{"crash after publish", Faults{Crashes: 2}},
	{"sink down", Faults{Down: 10 * time.Minute}},
	{"all at once", Faults{Duplicates: 2, Concurrent: true, Reorder: true, LostAcks: 3, Crashes: 2, Down: time.Minute}},
}

func (f Faults) validate() error {
	var errs []error
	for _, n := range []struct {
		name  string
		value int
		max   int
	}{
		{"duplicates", f.Duplicates, 100}, {"lost_acks", f.LostAcks, 1 << 30}, {"crashes", f.Crashes, 2},
	} {
		if n.value < 0 || n.value > n.max {
			errs = append(errs, outbox.ErrInvalidConfig.With("faults."+n.name, fmt.Sprintf("must be from 0 to %d, got %d", n.max, n.value)))
		}
	}
	if f.Down < 0 {
		errs = append(errs, outbox.ErrInvalidConfig.With("faults.down", "must not be negative"))
	}
	return errors.Join(errs...)
}

var (
	errDown  = errors.New("the destination is down")
	errLost  = errors.New("the acknowledgement was lost")
	errCrash = errors.New("the relay has crashed")
)

// A Delivery is one message as the consumer was given it, and what it said.
type Delivery struct {
	Message outbox.DispatchedMessage
	At      time.Time
	Err     error
}

// A courier brings messages to the consumer, or fails to, and writes down what it did.
type courier struct {
	faults   Faults
	consumer outbox.Dispatcher

	mu        sync.Mutex
	random    *rand.Rand
	log       []Delivery
	copies    []outbox.DispatchedMessage // to be delivered again
	lostAcks  int                        // left
	crashes   int                        // left
	downUntil time.Time
}

func newCourier(f Faults) *courier {
	return &courier{faults: f, random: rand.New(rand.NewPCG(f.Seed, 1)), lostAcks: f.LostAcks, crashes: f.Crashes}
}

// dispatch delivers a message for a relay. crash reports that the relay ends now.
func (c *courier) dispatch(ctx context.Context, msg outbox.DispatchedMessage) (crash bool, err error) {
	if c.isDown() {
		return false, outbox.Unavailable(errDown)
	}
	if err := pause(ctx, c.delay()); err != nil {
		return false, err
	}
	if err := c.deliver(ctx, clone(msg)); err != nil {
		return false, err
	}
	if err := c.redeliver(ctx, msg); err != nil {
		return false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.crashes > 0:
		c.crashes--
		return true, nil
	case c.lostAcks > 0:
		c.lostAcks--
		return false, errLost
	}
	return false, nil
}

func (c *courier) isDown() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.downUntil.IsZero() {
		c.downUntil = time.Now().Add(c.faults.Down)
	}
	return time.Now().Before(c.downUntil)
}

func (c *courier) delay() time.Duration {
	if !c.faults.Reorder {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Duration(c.random.Int64N(int64(100 * time.Millisecond)))
}

// deliver gives a message to the consumer, twice when the faults say so.
func (c *courier) deliver(ctx context.Context, msg outbox.DispatchedMessage) error {
	if !c.faults.Concurrent {
		return c.give(ctx, msg)
	}
	var twice sync.WaitGroup
	var errs [2]error
	for i := range errs {
		twice.Go(func() { errs[i] = c.give(ctx, clone(msg)) })
	}
	twice.Wait()
	return errors.Join(errs[:]...)
}

func (c *courier) give(ctx context.Context, msg outbox.DispatchedMessage) error {
	var err error
	at := time.Now()
	if c.consumer != nil {
		err = c.consumer.Dispatch(ctx, msg)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = append(c.log, Delivery{Message: clone(msg), At: at, Err: err})
	return err
}

// redeliver keeps copies of msg for later, and delivers one of those it has kept.
func (c *courier) redeliver(ctx context.Context, msg outbox.DispatchedMessage) error {
	if c.faults.Duplicates == 0 {
		return nil
	}
	old, ok := c.takeCopy()
	c.mu.Lock()
	for range c.faults.Duplicates {
		c.copies = append(c.copies, clone(msg))
	}
	c.mu.Unlock()
	if !ok {
		return nil
	}
	return c.give(ctx, old)
}

func (c *courier) takeCopy() (outbox.DispatchedMessage, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.copies) == 0 {
		return outbox.DispatchedMessage{}, false
	}
	i := c.random.IntN(len(c.copies))
	msg := c.copies[i]
	c.copies = slices.Delete(c.copies, i, i+1)
	return msg, true
}

// deliverCopies delivers the copies that are left. One that fails is tried again, as a
// broker would.
func (c *courier) deliverCopies(ctx context.Context) error {
	const attempts = 10
	for {
		msg, ok := c.takeCopy()
		if !ok {
			return nil
		}
		var err error
		for range attempts {
			if err = c.give(ctx, clone(msg)); err == nil || outbox.IsPermanent(err) {
				break
			}
			if err := pause(ctx, time.Second); err != nil {
				return err
			}
		}
		if err != nil {
			return fmt.Errorf("duplicate of %s %s: %w", msg.Meta.Topic, msg.Meta.EventID, err)
		}
	}
}

func (c *courier) deliveries() []Delivery {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.log)
}
