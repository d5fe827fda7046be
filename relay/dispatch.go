package relay

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/go-outbox/outbox"
)

// batchWorkers is how many batches a batch dispatcher gets at once.
const batchWorkers = 4

var errGoexit = errors.New("the dispatcher ended its goroutine")

// A PanicError is a panic of a dispatcher, turned into a failed attempt.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic in dispatcher: %v", e.Value) }

// maxPools bounds how many routes have workers of their own.
const maxPools = 16

// A pool is the workers of a shift. Every route has as many as its concurrency allows,
// so that one whose calls hang does not keep the others from theirs.
type pool struct {
	group   sync.WaitGroup
	started int
}

// hireFor starts the workers of the routes that are known by now.
func (s *shift) hireFor(ctx context.Context) {
	s.mu.Lock()
	routes := min(max(len(s.ledger.circuits), 1), maxPools)
	size := s.cfg.Concurrency
	if s.routing.batches {
		size = min(batchWorkers, size)
	}
	more := routes*size - s.pool.started
	if s.stopping {
		more = 0
	}
	s.pool.started += max(more, 0)
	s.mu.Unlock()
	for range more {
		s.startWorker(ctx)
	}
}

func (s *shift) startWorker(ctx context.Context) {
	s.pool.group.Go(func() {
		whole := false
		defer func() {
			if !whole { // a handler called runtime.Goexit; another worker takes over
				s.startWorker(ctx)
			}
		}()
		if d, ok := s.dispatcher.(outbox.BatchDispatcher); ok {
			s.batchLoop(ctx, d)
		} else {
			s.dispatchLoop(ctx)
		}
		whole = true
	})
}

func (s *shift) dispatchLoop(ctx context.Context) {
	for {
		it := s.await(ctx)
		if it == nil {
			return
		}
		s.gate.enter()
		s.dispatchGated(ctx, it)
	}
}

func (s *shift) dispatchGated(ctx context.Context, it *item) {
	defer s.gate.leave()
	s.dispatchOne(ctx, it, it.circuit, s.cfg.DispatchTimeout)
}

// await returns the next message, or nil when the shift ends: nothing starts under a
// context that has ended. A worker that finds more wakes one more, so that as many run as
// there is work for.
func (s *shift) await(ctx context.Context) *item {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if s.stopping || ctx.Err() != nil {
			return nil
		}
		if now := time.Now(); now.After(s.deadline) || s.halted() {
			// The lease may be lost, or the table is paused: nothing starts until the
			// lease is renewed, or the table resumed.
		} else if it := s.ledger.take(now); it != nil {
			if s.idle > 0 && s.ledger.readyCount > 0 {
				s.workers.Signal()
			}
			return it
		} else if at := s.ledger.throttled; !at.IsZero() {
			s.wakeAt(at, now)
		}
		s.idle++
		s.workers.Wait()
		s.idle--
	}
}

// wakeAt wakes a worker when a rate allows the next message. One timer is enough: who
// finds nothing sets it again.
func (s *shift) wakeAt(at, now time.Time) {
	if s.throttle.Before(at) && s.throttle.After(now) {
		return
	}
	s.throttle = at
	time.AfterFunc(at.Sub(now), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.workers.Signal()
	})
}

// message is what the dispatcher gets.
func (s *shift) message(it *item) outbox.DispatchedMessage {
	msg := outbox.DispatchedMessage{Meta: it.rec.Meta(s.table), Payload: it.rec.Payload}
	msg.Meta.Routes = it.routes()
	return msg
}

// dispatchOne dispatches a message and notes its outcome. call is the route that the
// dispatch counts for, or nil.
func (s *shift) dispatchOne(ctx context.Context, it *item, call *circuit, timeout time.Duration) {
	msg := s.message(it)
	start := time.Now()
	err := errGoexit
	defer func() { s.ended(ctx, call, []*item{it}, []error{err}, time.Since(start)) }()
	err = s.protect(ctx, timeout, func(ctx context.Context) error { return s.dispatcher.Dispatch(ctx, msg) })
	if s.hooks.Dispatched != nil {
		s.hooks.Dispatched(&msg.Meta, time.Since(start), err)
	}
}

// batchLoop dispatches what is ready in batches.
func (s *shift) batchLoop(ctx context.Context, d outbox.BatchDispatcher) {
	for {
		items := s.awaitMany(ctx)
		if items == nil {
			return
		}
		s.gate.enter()
		s.dispatchMany(ctx, d, items)
	}
}

func (s *shift) awaitMany(ctx context.Context) []*item {
	it := s.await(ctx)
	if it == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// All of one route: another one that hangs would hold up the whole batch.
	from := it.circuit
	items := append(make([]*item, 0, min(s.cfg.Batch, 1+from.ready.len())), it)
	now := time.Now()
	for len(items) < s.cfg.Batch {
		if it = s.ledger.takeFrom(from, now); it == nil {
			break
		}
		items = append(items, it)
	}
	return items
}

func (s *shift) dispatchMany(ctx context.Context, d outbox.BatchDispatcher, items []*item) {
	defer s.gate.leave()
	msgs := make([]outbox.DispatchedMessage, len(items))
	for i, it := range items {
		msgs[i] = s.message(it)
	}
	start := time.Now()
	errs := repeat(errGoexit, len(items))
	defer func() { s.ended(ctx, items[0].circuit, items, errs, time.Since(start)) }()
	var results []error
	err := s.protect(ctx, s.cfg.DispatchTimeout, func(ctx context.Context) error {
		results = d.DispatchBatch(ctx, msgs)
		return nil
	})
	switch {
	case err != nil:
		errs = repeat(err, len(items))
	case len(results) != len(items):
		errs = repeat(errNoResult, len(items))
	default:
		errs = results
	}
	if s.hooks.Dispatched != nil {
		for i := range msgs {
			s.hooks.Dispatched(&msgs[i].Meta, time.Since(start), errs[i])
		}
	}
}

func repeat(err error, n int) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// ended notes the outcomes of dispatches. Those that we cut short ourselves have
// none: the message is let go, no attempt is spent, and it is dispatched again.
func (s *shift) ended(ctx context.Context, call *circuit, items []*item, errs []error, took time.Duration) {
	hit(atDispatched)
	cut := ctx.Err() != nil
	for i, it := range items {
		// Outside of the lock: a large payload takes milliseconds to look for.
		it.text = outbox.SanitizeError(errs[i], it.rec.Payload, s.cfg.MaxError)
	}
	s.mu.Lock()
	now := time.Now()
	if call != nil {
		call.calls--
	}
	for i, it := range items {
		if cut && errs[i] != nil {
			s.ledger.cutShort(it)
			continue
		}
		it.noteResult(errs[i], took, now)
		s.ledger.finish(it, s.ledger.judge(it, errs[i], took, now), now)
	}
	turns, stops := s.ledger.turns, s.ledger.stops
	s.ledger.turns, s.ledger.stops = nil, nil
	if s.idle > 0 && s.ledger.readyCount > 0 {
		s.workers.Signal()
	}
	s.mu.Unlock()
	s.kickWriter()
	for _, t := range turns {
		s.log.circuit(ctx, t)
		s.hooks.Circuit(s.table, t.route, t.open)
	}
	for _, p := range stops {
		s.log.stopped(ctx, p)
	}
	s.report(turns, stops)
}

// cutShort lets a running message go. Whether its destination has it is not known, so
// nothing of its key follows it in this shift.
func (l *ledger) cutShort(it *item) {
	l.running--
	l.release(it)
}

// protect calls a dispatcher with a deadline and turns a panic into an error.
func (s *shift) protect(ctx context.Context, timeout time.Duration, call func(context.Context) error) (err error) {
	bounded := withDeadline(ctx, time.Now().Add(timeout))
	defer bounded.release()
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	err = call(bounded) //nolint:contextcheck // bounded is ctx with a deadline
	if err != nil && errors.Is(bounded.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("dispatch timed out after %s: %w", timeout, err)
	}
	return err
}
