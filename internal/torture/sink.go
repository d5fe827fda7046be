package torture

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/relay"
)

// A Relay is the real engine on the real store, with a sink that writes down what it is
// handed.
type Relay struct {
	Lease       time.Duration
	Batch       int
	Shards      int
	MaxAttempts int
	Sink        Sink
}

// A Sink says how deliveries are answered. The zero value accepts everything at once.
type Sink struct {
	// Errors is the share of deliveries that are answered with an error, Slow the
	// share that are answered late, after Delay at most.
	Errors float64
	Slow   float64
	Delay  time.Duration
	// One event in a hundred takes up to Heavy, each time: so there is always
	// something in flight when a relay is struck, and again when it wakes up and
	// somebody else has taken over.
	Heavy time.Duration
	// One refusal in five asks to be tried again after up to Later: so keys are
	// held while leases change hands.
	Later time.Duration
}

// poisonExit is the status of a process that a poison event has ended.
const poisonExit = 3

var errRefused = errors.New("refused on purpose")

func (r *Relay) run(ctx context.Context, spec *Spec, db Database, j *journal) error {
	sink := &recorder{Sink: r.Sink, relay: spec.Name, journal: j, dice: dice(spec.Seed, spec.Name)}
	engine, err := relay.New(db.Store(), sink, relay.Config{
		Instance: spec.Name,
		Lease:    r.Lease,
		Poll:     100 * time.Millisecond,
		Batch:    r.Batch,
		Shards:   r.Shards,
		Retries: outbox.Retries{Default: outbox.RetryPolicy{
			MaxAttempts: r.MaxAttempts, Base: 20 * time.Millisecond, Max: 500 * time.Millisecond, Jitter: 20 * time.Millisecond,
		}},
		DrainTimeout: 10 * time.Second,
		// Being killed three times in the wrong moments condemns a message, as it
		// must. Then its followers are not to wait for a person.
		OnDead: relay.Skip,
		Log:    slog.New(slog.NewJSONHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	return engine.Run(ctx)
}

// recorder is the sink inside a relay process.
type recorder struct {
	Sink
	relay   string
	journal *journal

	mu   sync.Mutex
	dice *rand.Rand
}

var _ outbox.Dispatcher = (*recorder)(nil)

// Dispatch writes down the delivery, then answers. What is not written down was not
// delivered, as far as anybody can tell.
func (s *recorder) Dispatch(ctx context.Context, msg outbox.DispatchedMessage) error {
	delay, answer := s.choose(msg.Meta.EventID)
	b, damage := unseal(msg.Payload)
	d := Delivery{
		Event: msg.Meta.EventID, Key: msg.Meta.Key, N: b.N, Sequence: msg.Meta.Sequence, Attempt: msg.Meta.Attempts,
		Relay: s.relay, Pid: os.Getpid(), Sum: sum(msg.Payload), Accepted: answer == nil && !b.Poison,
	}
	if damage != nil {
		d.Damage = damage.Error()
	}
	d.At = now()
	s.journal.record(d)
	if b.Poison {
		os.Exit(poisonExit)
	}
	if delay > 0 && !wait(ctx, delay) {
		return context.Cause(ctx)
	}
	return answer
}

func (s *recorder) choose(event uuid.UUID) (delay time.Duration, answer error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dice.Float64() < s.Slow {
		delay = between(s.dice, 0, s.Delay)
	}
	if weight := binary.BigEndian.Uint32(event[12:]); weight%100 == 0 {
		delay += s.Heavy * time.Duration(weight/100%100) / 100
	}
	if s.dice.Float64() < s.Errors {
		answer = errRefused
		if s.dice.IntN(5) == 0 {
			answer = outbox.RetryAfter(errRefused, between(s.dice, 0, s.Later))
		}
	}
	return delay, answer
}
