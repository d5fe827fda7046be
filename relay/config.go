package relay

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

// OnDead says what happens to the later messages of a key when one of them dies.
type OnDead int

const (
	// Block holds the key until the dead message is replayed or discarded.
	Block OnDead = iota
	// Skip lets the key go on without the dead message.
	Skip
)

func (o OnDead) String() string {
	if o == Skip {
		return "skip"
	}
	return "block"
}

// Config tunes a Relay. The zero value is right for most.
type Config struct {
	// Instance names this process in leases. It must differ for every start of
	// it, so that a crash can be told from a lost lease. Defaults to the host
	// name, the process id and a random part.
	Instance string
	// Version is shown to operators.
	Version string

	// Lease is how long a crashed relay's shard waits for another. It is renewed
	// every third of it, also while a dispatch is slow. Defaults to 15 s.
	Lease time.Duration
	// Poll is the longest wait between two looks at an idle table; a busy one is
	// looked at every few milliseconds. Defaults to 1 s.
	Poll time.Duration
	// Batch is how many messages are recorded at once. A larger batch costs the
	// database less and repeats more after a crash. Defaults to 500.
	Batch int
	// Window is how many messages may be read and not yet settled. Defaults to
	// eight batches.
	Window int
	// MaxBytes bounds the payload bytes in the window. Defaults to 64 MiB.
	MaxBytes int
	// Concurrency is how many dispatches may run at once, for each route.
	// Defaults to 256.
	Concurrency int
	// DispatchTimeout bounds one dispatch. Defaults to 30 s.
	DispatchTimeout time.Duration
	// DrainTimeout bounds how long a stop waits for dispatches in flight; what
	// is left is tried again by the next relay. Defaults to 30 s.
	DrainTimeout time.Duration

	// Retries is the retry policy by topic.
	Retries outbox.Retries
	// OnDead says whether a dead message holds its key. Defaults to Block.
	OnDead OnDead
	// DeleteOnPublish deletes messages when they are published instead of
	// marking them: no history, no deduplication of later enqueues, less work.
	DeleteOnPublish bool
	// Shards, when not 0, is how many relays may work the table at once. The
	// first relay to start with another number resizes when all leases are free.
	Shards int
	// MaxPayload bounds the payloads that are dispatched; a larger row, written
	// by someone else, becomes dead(size). Defaults to 64 MiB.
	MaxPayload int
	// MaxError bounds stored error texts. Defaults to outbox.MaxErrorBytes.
	MaxError int

	Hooks Hooks
	// Log receives state changes and failures. Defaults to slog.DiscardHandler.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	setDefault(&c.Lease, 15*time.Second)
	setDefault(&c.Poll, time.Second)
	setDefault(&c.Batch, 500)
	setDefault(&c.Window, 8*c.Batch)
	setDefault(&c.MaxBytes, 64<<20)
	setDefault(&c.Concurrency, 256)
	setDefault(&c.DispatchTimeout, 30*time.Second)
	setDefault(&c.DrainTimeout, 30*time.Second)
	setDefault(&c.MaxPayload, 64<<20)
	if c.Instance == "" {
		host, _ := os.Hostname() // an unnamed host is no reason to fail
		c.Instance = fmt.Sprintf("%s-%d-%s", host, os.Getpid(), uuid.NewString()[:8])
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c Config) validate() error {
	var errs []error
	bad := func(field, text string) { errs = append(errs, outbox.ErrInvalidConfig.With(field, text)) }
	for _, d := range []struct {
		name  string
		value time.Duration
		min   time.Duration
	}{
		{"lease", c.Lease, 100 * time.Millisecond},
		{"poll", c.Poll, time.Millisecond},
		{"dispatch_timeout", c.DispatchTimeout, time.Millisecond},
		{"drain_timeout", c.DrainTimeout, time.Millisecond},
	} {
		if d.value < d.min {
			bad(d.name, fmt.Sprintf("must be at least %s, got %s", d.min, d.value))
		}
	}
	for _, n := range []struct {
		name     string
		value    int
		min, max int
	}{
		{"batch", c.Batch, 1, 100_000},
		{"window", c.Window, 1, 10_000_000},
		{"max_bytes", c.MaxBytes, 1, 1 << 40},
		{"concurrency", c.Concurrency, 1, 100_000},
		{"shards", c.Shards, 0, 256},
	} {
		if n.value < n.min || n.value > n.max {
			bad(n.name, fmt.Sprintf("must be between %d and %d, got %d", n.min, n.max, n.value))
		}
	}
	if len(c.Instance) > 200 {
		bad("instance", "must be at most 200 bytes")
	}
	if err := c.Retries.Validate(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
