package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-outbox/outbox"
)

// cutGrace is how long a dispatch may take to notice that its context has ended. A
// handler that ignores it is left behind: its outcome no longer counts.
const cutGrace = time.Second

// Causes of an ended shift.
var (
	errDrained = errors.New("nothing left to publish")
	errDrain   = errors.New("the relay is stopping")
	errExpired = fmt.Errorf("%w: it could not be renewed in time", outbox.ErrLeaseLost)
)

// A shift works one shard for as long as its lease lasts. Four loops share a
// ledger: one reads, one writes, one renews, and the workers dispatch.
type shift struct {
	cfg        *Config
	hooks      *Hooks
	log        *logger
	table      string
	lease      outbox.Lease
	dispatcher outbox.Dispatcher
	routing    *routing
	gate       *gate
	store      outbox.Store
	pool       pool
	hire       func() // starts the workers of routes that are new
	// once: stop when everything that is due has been published.
	once bool

	mu       sync.Mutex
	ledger   *ledger
	deadline time.Time // after this nothing may be dispatched
	idle     int       // workers waiting
	stopping bool
	draining bool
	nudge    int64
	nudged   bool
	paused   bool
	workers  *sync.Cond
	throttle time.Time // when a worker is woken for a rate

	readKick  chan struct{}
	writeKick chan struct{}
	renewKick chan struct{}
	leaving   chan struct{} // closed when the lease is renewed no more

	reports    []report
	reportKick chan struct{}
}

func newShift(r *Relay, lease outbox.Lease, deadline time.Time, once bool) *shift {
	info := lease.Info()
	s := &shift{
		cfg: &r.cfg, hooks: &r.cfg.Hooks, log: r.log, table: r.store.Table(), lease: lease, dispatcher: r.dispatcher,
		routing: r.routing, store: r.store, gate: r.gate, once: once, deadline: deadline, nudge: info.Nudge, paused: info.Paused,
		readKick: make(chan struct{}, 1), writeKick: make(chan struct{}, 1), renewKick: make(chan struct{}, 1), leaving: make(chan struct{}),
		reportKick: make(chan struct{}, 1),
	}
	s.ledger = newLedger(&r.cfg, s.table, info, r.routing)
	s.ledger.setPaused(info.PausedRoutes, time.Now())
	s.ledger.scan.eager = once
	s.workers = sync.NewCond(&s.mu)
	return s
}

// run works until ctx ends or the lease is lost. It returns nil when the lease was
// given back in order.
func (s *shift) run(ctx context.Context) error {
	// What is in flight may outlive ctx: a stop lets it finish.
	held, lose := context.WithCancelCause(context.WithoutCancel(ctx))
	defer lose(nil)

	var renewing sync.WaitGroup
	renewing.Go(func() {
		if err := s.renewLoop(held); err != nil {
			lose(err)
		}
	})
	err := s.work(ctx, held, lose)
	close(s.leaving) // a renewal that came after the release would find the lease lost
	renewing.Wait()
	stopped := ctx.Err() != nil && held.Err() == nil // perhaps before anything was read
	if err == nil || stopped {
		err = s.handOver(held)
	}
	if cause := context.Cause(held); err != nil && cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// work runs the loops and, when ctx ends, drains them. It returns nil when nothing
// is left in flight.
func (s *shift) work(ctx, held context.Context, lose context.CancelCauseFunc) error {
	reading, stopReading := context.WithCancelCause(held)
	defer stopReading(nil)
	dispatching, stopDispatching := context.WithCancelCause(held)
	defer stopDispatching(nil)
	defer context.AfterFunc(ctx, func() { stopReading(errDrain) })()

	if err := s.begin(reading); err != nil {
		return err
	}
	s.hire = func() { s.hireFor(dispatching) }
	var readers, writer sync.WaitGroup
	readers.Go(func() { stopReading(s.readLoop(reading)) })
	readers.Go(func() { s.isolate(reading, dispatching) })
	readers.Go(func() { s.reportLoop(reading) })
	s.hire()
	flush := make(chan struct{})
	var wrote error
	writer.Go(func() {
		if wrote = s.writeLoop(held, flush); wrote != nil {
			lose(wrote)
		}
	})

	readers.Wait()
	s.letGo()
	if !waitFor(held, &s.pool.group, s.cfg.DrainTimeout) {
		stopDispatching(errDrain)
		waitFor(context.WithoutCancel(held), &s.pool.group, cutGrace)
	}
	close(flush)
	writer.Wait()
	if held.Err() != nil {
		return context.Cause(held)
	}
	return wrote
}

// begin recovers what earlier owners left and learns which keys are held, before
// anything is read.
func (s *shift) begin(ctx context.Context) error {
	if err := s.recover(ctx); err != nil {
		return err
	}
	heads, err := s.readHeads(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range heads {
		s.hold(h)
	}
	return nil
}

func (s *shift) hold(h outbox.Head) {
	key := s.ledger.laneOf(h.Key, h.Topic)
	if key == noLane || h.Dead && s.ledger.skipDead(h.Topic) {
		return
	}
	s.ledger.holdKey(key, h.Sequence)
}

func (s *shift) readHeads(ctx context.Context) ([]outbox.Head, error) {
	const page = 50_000 // a store may have to sort all of them for each page
	var heads []outbox.Head
	for after := int64(0); ; {
		some, err := s.lease.Heads(ctx, after, page)
		if err != nil {
			return nil, fmt.Errorf("read heads: %w", err)
		}
		heads = append(heads, some...)
		if len(some) < page {
			return heads, nil
		}
		after = some[len(some)-1].Sequence
	}
}

// letGo releases everything that was read and not dispatched. It costs no attempt:
// attempts are counted when a dispatch is settled.
func (s *shift) letGo() {
	s.mu.Lock()
	s.stopping, s.draining = true, true
	l := s.ledger
	for _, b := range l.live {
		if b.crashes > 0 {
			continue // suspects stay recorded, and suspect
		}
		for _, it := range b.items {
			if it.state == waiting {
				l.release(it)
			}
		}
	}
	l.unrecorded = slices.DeleteFunc(l.unrecorded, func(b *batch) bool { return b.crashes == 0 })
	s.workers.Broadcast()
	s.mu.Unlock()
	kick(s.renewKick) // say that we are draining: losing us now is no crash
}

// handOver gives the lease back, so that nobody has to wait for it to expire.
func (s *shift) handOver(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.Lease, errors.New("release timed out"))
	defer cancel()
	s.mu.Lock()
	low := s.ledger.low()
	s.mu.Unlock()
	if err := s.lease.Release(ctx, low); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return nil
}

func (s *shift) kickWriter() { kick(s.writeKick) }

func kick(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// pause waits for d, or until ctx ends: then it returns false.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// waitFor waits for a group at most d, or until ctx ends.
func waitFor(ctx context.Context, group *sync.WaitGroup, d time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}
