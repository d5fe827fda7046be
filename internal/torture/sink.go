package torture

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/relay"
)

// A Relay is the real engine on the real store, with a sink that writes down what it is
// handed.
type Relay struct {
	Lease, Poll time.Duration
	Batch       int
	Shards      int
	MaxAttempts int
	// Retention, when set, runs a cleaner that keeps published messages for so long.
	Retention time.Duration
	// Batched hands the sink many messages at once.
	Batched bool
	Sink    Sink
	// Program, when set, is what relays instead of the engine in this program. The
	// sink is a Hook then.
	Program *Program `json:",omitempty"`
}

// A Sink says how deliveries are answered. The zero value accepts everything at once.
type Sink struct {
	// Errors is the share of deliveries that are answered with an error, Slow the
	// share that are answered late, after Delay at most.
	Errors float64
	Slow   float64
	Delay  time.Duration
	// One event in three hundred takes up to Heavy, each time: so there is always
	// something in flight when a relay is struck, and again when it wakes up and
	// somebody else has taken over. More, or longer, makes a run mostly wait: who
	// was in flight twice when its relay died is delivered alone in the process.
	Heavy time.Duration
	// One refusal in five asks to be tried again after up to Later: so keys are
	// held while leases change hands.
	Later time.Duration
	// One event in so many is refused for good, each time; 0 is none.
	Unwanted uint32
	// Ambiguous is the share of deliveries that are kept and answered with an error.
	Ambiguous float64
}

// Weather is what the nemesis does to the sink for a while. Relays and producers read it
// from a file.
type Weather struct {
	// Crowded: so much is waiting that producers pause, or a run on a slow machine
	// would end in hours of draining.
	Crowded bool
	// Down: nothing is accepted.
	Down bool
	// Foggy: this share of deliveries is kept and answered with an error.
	Foggy float64
}

const (
	maxBackoff = 500 * time.Millisecond
	// poisonExit is the status of a process that a poison event has ended.
	poisonExit = 3
	// weatherEvery is between two looks at the weather.
	weatherEvery = 20 * time.Millisecond
)

var (
	errRefused = errors.New("refused on purpose")
	errLost    = errors.New("kept, and the answer was lost on purpose")
	errDown    = errors.New("down on purpose")
	errNever   = errors.New("refused for good on purpose")
)

func (r *Relay) run(ctx context.Context, spec *Spec, db Database, j *journal) error {
	sink := &recorder{Sink: r.Sink, relay: spec.Name, journal: j, weather: weather{path: spec.Weather}, dice: dice(spec.Seed, spec.Name)}
	var dispatcher outbox.Dispatcher = sink
	if r.Batched {
		dispatcher = &batchRecorder{sink}
	}
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	store := db.Store()
	used := Resource{Relay: spec.Name, Before: runtime.NumGoroutine()}
	engine, err := relay.New(store, dispatcher, relay.Config{
		Instance: spec.Name,
		Lease:    r.Lease,
		Poll:     r.Poll,
		Batch:    r.Batch,
		Shards:   r.Shards,
		Retries: outbox.Retries{Default: outbox.RetryPolicy{
			MaxAttempts: r.MaxAttempts, Base: 20 * time.Millisecond, Max: maxBackoff, Jitter: 20 * time.Millisecond,
		}},
		DrainTimeout: 10 * time.Second,
		// Being killed three times in the wrong moments condemns a message, as it
		// must. Then its followers are not to wait for a person.
		OnDead: relay.Skip,
		Log:    log,
	})
	if err != nil {
		return err
	}
	var cleaning sync.WaitGroup
	if r.Retention > 0 {
		cleaner, err := relay.NewCleaner(store, relay.CleanerConfig{
			Interval: r.Retention / 4, Retention: r.Retention, Batch: 1000, Leader: engine.Leading, Log: log,
		})
		if err != nil {
			return err
		}
		cleaning.Go(func() { _ = cleaner.Run(ctx) }) // it returns nil
	}
	err = engine.Run(ctx)
	cleaning.Wait()
	used.After, used.MaxRSS = runtime.NumGoroutine(), maxRSS()
	return errors.Join(err, used.save(spec.Journal+".used"))
}

func maxRSS() int64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return usage.Maxrss << 10
}

func (u *Resource) save(path string) error {
	text, err := json.Marshal(u)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// weather looks at the sky now and then.
type weather struct {
	path string

	mu   sync.Mutex
	at   time.Time
	last Weather
}

func (w *weather) now() Weather {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.path == "" || time.Since(w.at) < weatherEvery {
		return w.last
	}
	w.at = time.Now()
	if text, err := os.ReadFile(w.path); err == nil {
		var now Weather
		if json.Unmarshal(text, &now) == nil {
			w.last = now
		}
	}
	return w.last
}

// recorder is the sink inside a relay process.
type recorder struct {
	Sink
	relay   string
	journal *journal
	weather weather

	mu   sync.Mutex
	dice *rand.Rand
	no   int
}

var _ outbox.Dispatcher = (*recorder)(nil)

// A reply is how one delivery will be answered.
type reply struct {
	no    int
	delay time.Duration
	err   error
	kept  bool // although there is an error
}

// Dispatch writes down the delivery, then answers. What is not written down was not
// delivered, as far as anybody can tell.
func (s *recorder) Dispatch(ctx context.Context, msg outbox.DispatchedMessage) error {
	r := s.choose(msg.Meta.EventID)
	s.receive(&msg, r)
	if r.delay > 0 && !wait(ctx, r.delay) {
		return s.cut(ctx, r)
	}
	return r.err
}

// cut notes that a delivery ended with an error although it was to be accepted.
func (s *recorder) cut(ctx context.Context, r reply) error {
	if r.err == nil {
		s.journal.record(Delivery{No: r.no, Cut: true})
	}
	return context.Cause(ctx)
}

func (s *recorder) receive(msg *outbox.DispatchedMessage, r reply) {
	b, damage := unseal(msg.Payload)
	d := Delivery{
		No: r.no, Event: msg.Meta.EventID, Key: msg.Meta.Key, N: b.N, Sequence: msg.Meta.Sequence,
		Attempt: msg.Meta.Attempts, Replay: msg.Meta.Replays, Relay: s.relay, Pid: os.Getpid(), Sum: sum(msg.Payload),
		Accepted: r.err == nil && !b.Poison, Kept: r.kept, Final: errors.Is(r.err, errNever),
	}
	if damage != nil {
		d.Damage = damage.Error()
	}
	d.At = now()
	s.journal.record(d)
	if b.Poison {
		os.Exit(poisonExit)
	}
}

func (s *recorder) choose(event uuid.UUID) reply {
	sky := s.weather.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.no++
	r := reply{no: s.no}
	if sky.Down {
		r.err = outbox.Unavailable(errDown)
		return r
	}
	if s.dice.Float64() < s.Slow {
		r.delay = between(s.dice, 0, s.Delay)
	}
	if weight := binary.BigEndian.Uint32(event[12:]); weight%300 == 0 {
		r.delay += s.Heavy * time.Duration(weight/300%100) / 100
	}
	switch p := s.dice.Float64(); {
	case s.Unwanted > 0 && binary.BigEndian.Uint32(event[8:])%s.Unwanted == 0:
		r.err = outbox.Permanent(errNever)
	case p < s.Errors:
		r.err = errRefused
		if s.Later > 0 && s.dice.IntN(5) == 0 {
			r.err = outbox.RetryAfter(errRefused, between(s.dice, 0, s.Later))
		}
	case p < s.Errors+max(s.Ambiguous, sky.Foggy):
		r.err, r.kept = errLost, true
	}
	return r
}

// batchRecorder is a recorder that takes batches and answers them in part.
type batchRecorder struct{ *recorder }

var _ outbox.BatchDispatcher = (*batchRecorder)(nil)

// DispatchBatch answers when the slowest of its messages is done. One answer in two
// hundred has the wrong length: everything of it is kept, and nobody is told.
func (s *batchRecorder) DispatchBatch(ctx context.Context, msgs []outbox.DispatchedMessage) []error {
	s.mu.Lock()
	garbled := s.dice.IntN(200) == 0
	s.mu.Unlock()
	replies, errs := make([]reply, len(msgs)), make([]error, len(msgs))
	var longest time.Duration
	for i := range msgs {
		r := s.choose(msgs[i].Meta.EventID)
		if garbled && r.err == nil {
			r.err, r.kept = errLost, true
		}
		s.receive(&msgs[i], r)
		replies[i], errs[i] = r, r.err
		longest = max(longest, r.delay)
	}
	if longest > 0 && !wait(ctx, longest) {
		for i, r := range replies {
			errs[i] = s.cut(ctx, r)
		}
	}
	if garbled {
		return errs[:len(errs)-1]
	}
	return errs
}
