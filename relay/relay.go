// Package relay moves committed messages from a store to a dispatcher.
//
// Every message is delivered at least once, and messages that share a Key are first
// delivered in order. Messages with different keys, or none, may overtake each
// other, and a crash between delivery and settlement delivers twice: consumers must
// deduplicate on EventID.
//
// A relay works a table, or a shard of it, only while it holds the lease; every
// write is fenced by it. It reads due messages without writing, records them as a
// batch in one row, dispatches them outside of any transaction, and settles the
// outcomes in batches. Several relays may run: with one shard the others stand by,
// with more each takes its share.
package relay

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-outbox/outbox"
)

// ErrRunning is returned by Run and PublishPending when the relay is at work.
var ErrRunning = errors.New("relay is already running")

// A Relay delivers messages from one store to one dispatcher. Create it with New;
// the zero value is not usable. Run and PublishPending may not be called at the same
// time; all other methods are safe for concurrent use.
type Relay struct {
	cfg        Config
	store      outbox.Store
	dispatcher outbox.Dispatcher
	routing    *routing
	log        *logger
	gate       *gate

	mu      sync.Mutex
	running bool
	shifts  map[int]*shift
}

// New makes a relay. It does no I/O and reports every mistake in cfg at once.
func New(store outbox.Store, dispatcher outbox.Dispatcher, cfg Config) (*Relay, error) {
	if store == nil {
		return nil, outbox.ErrInvalidConfig.With("store", "is required")
	}
	if dispatcher == nil {
		return nil, outbox.ErrInvalidConfig.With("dispatcher", "is required")
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.Hooks = cfg.Hooks.withDefaults()
	r := &Relay{
		cfg: cfg, store: store, dispatcher: dispatcher, gate: processGate,
		routing: newRouting(dispatcher),
		log:     &logger{slog: cfg.Log.With(slog.String("table", store.Table()))},
		shifts:  make(map[int]*shift),
	}
	return r, nil
}

// Run relays until ctx ends and returns nil after an orderly stop: what is in flight
// has finished or timed out, is settled, and the leases are given back. It returns
// an error only for what a person must mend, such as a missing schema; everything
// else is retried.
func (r *Relay) Run(ctx context.Context) error {
	if !r.start() {
		return ErrRunning
	}
	defer r.stop()
	var group sync.WaitGroup
	defer group.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if w, ok := r.store.(outbox.Waker); ok {
		group.Go(func() { r.listen(ctx, w) })
	}
	return newCrew(r).run(ctx)
}

// PublishPending publishes what is due now and returns how many messages were
// published. Messages in backoff are not waited for. ErrLeaseHeld means that another
// relay works the table, or some shards of it.
func (r *Relay) PublishPending(ctx context.Context) (int, error) {
	if !r.start() {
		return 0, ErrRunning
	}
	defer r.stop()

	if err := newCrew(r).resize(ctx); err != nil {
		return 0, err
	}
	leases, held, err := r.acquireAll(ctx)
	if err != nil {
		return 0, err
	}
	var group sync.WaitGroup
	shifts, errs := make([]*shift, len(leases)), make([]error, len(leases))
	for i, a := range leases {
		shifts[i] = r.newShift(a, true)
		group.Go(func() { errs[i] = shifts[i].run(ctx) })
	}
	group.Wait()
	published := 0
	for _, s := range shifts {
		r.forget(s)
		published += s.ledger.published
	}
	return published, errors.Join(errors.Join(errs...), held)
}

// acquireAll takes every free lease. held says that there were others.
func (r *Relay) acquireAll(ctx context.Context) (leases []acquired, held, err error) {
	for {
		a, err := r.acquire(ctx)
		switch {
		case errors.Is(err, outbox.ErrLeaseHeld):
			if len(leases) == 0 {
				return nil, nil, err
			}
			if len(leases) < leases[0].lease.Info().Shards {
				held = err
			}
			return leases, held, nil
		case err != nil:
			return nil, nil, err // what was acquired expires; nothing was read under it
		}
		leases = append(leases, a)
		if len(leases) == a.lease.Info().Shards {
			return leases, nil, nil
		}
	}
}

// Wake tells the relay that messages may have been committed, so that it looks at
// once. Call it after a commit in the same process. It never blocks.
func (r *Relay) Wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.shifts {
		s.wake()
	}
}

// Leading reports whether this relay works the first shard: with one shard, whether
// it is the active one.
func (r *Relay) Leading() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.shifts[0]
	return ok
}

func (s *shift) wake() {
	s.mu.Lock()
	s.ledger.scan.kicked = true
	s.mu.Unlock()
	kick(s.readKick)
}

func (r *Relay) start() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running {
		return false
	}
	r.running = true
	return true
}

func (r *Relay) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = false
}

// acquired is a lease and the moment until which it is surely ours.
type acquired struct {
	lease    outbox.Lease
	deadline time.Time
}

// acquire takes a lease. A stop does not cut it off at once: whether the database had
// granted the lease would be unknown, and the others would have to wait for it.
func (r *Relay) acquire(ctx context.Context) (acquired, error) {
	if err := ctx.Err(); err != nil {
		return acquired{}, err
	}
	sent := time.Now()
	stop := ctx
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), r.cfg.Lease, errors.New("acquire timed out"))
	defer cancel()
	defer context.AfterFunc(stop, func() { time.AfterFunc(cutGrace, cancel) })()
	lease, err := r.store.Acquire(ctx, outbox.LeaseRequest{Instance: r.cfg.Instance, TTL: r.cfg.Lease})
	if err != nil {
		return acquired{}, err
	}
	return acquired{lease: lease, deadline: sent.Add(r.cfg.Lease)}, nil
}

func (r *Relay) newShift(a acquired, once bool) *shift {
	s := newShift(r, a.lease, a.deadline, once)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shifts[a.lease.Info().Shard] = s
	return s
}

// forget ends a shift for everybody who watches. Its open circuits end with it: whoever
// works the shard next finds out for itself.
func (r *Relay) forget(s *shift) {
	for _, route := range s.endCircuits() {
		r.cfg.Hooks.Circuit(s.table, route, false)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if shard := s.lease.Info().Shard; r.shifts[shard] == s {
		delete(r.shifts, shard)
	}
}

// endCircuits closes the circuits that are open and names their routes. A dispatch that
// was left behind closes none of them again.
func (s *shift) endCircuits() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var routes []string
	for _, c := range s.ledger.circuits {
		if c.open() {
			c.failures = 0
			routes = append(routes, c.route)
		}
	}
	return routes
}

// listen keeps the store's wake-up working. Polling goes on regardless.
func (r *Relay) listen(ctx context.Context, w outbox.Waker) {
	retry := backoff{max: 30 * time.Second}
	for ctx.Err() == nil {
		if err := w.Listen(ctx, r.Wake); err != nil && ctx.Err() == nil {
			r.cfg.Hooks.DatabaseError(r.store.Table(), "listen", err)
		}
		if !pause(ctx, retry.next()) {
			return
		}
	}
}

func (l *ledger) random() float64 {
	if l.cfg.Retries.Random != nil {
		return l.cfg.Retries.Random()
	}
	return rand.Float64()
}
