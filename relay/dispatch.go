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

func (s *shift) workerCount() int {
	if _, ok := s.dispatcher.(outbox.BatchDispatcher); ok {
		return min(batchWorkers, s.cfg.Concurrency)
	}
	return s.cfg.Concurrency
}

func (s *shift) startWorker(ctx context.Context, group *sync.WaitGroup) {
	group.Go(func() {
		whole := false
		defer func() {
			if !whole { // a handler called runtime.Goexit; another worker takes over
				s.startWorker(ctx, group)
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
		it := s.await()
		if it == nil {
			return
		}
		s.gate.enter()
		s.dispatchGated(ctx, it)
	}
}

func (s *shift) dispatchGated(ctx context.Context, it *item) {
	defer s.gate.leave()
	s.dispatchOne(ctx, it, s.cfg.DispatchTimeout)
}

// await returns the next message, or nil when the shift ends. A worker that finds
// more wakes one more, so that as many run as there is work for.
func (s *shift) await() *item {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if s.stopping {
			return nil
		}
		if time.Now().After(s.deadline) {
			// The lease may be lost: nothing starts until it is renewed.
		} else if it := s.ledger.take(); it != nil {
			if s.idle > 0 && s.ledger.ready.len() > 0 {
				s.workers.Signal()
			}
			return it
		}
		s.idle++
		s.workers.Wait()
		s.idle--
	}
}

// dispatchOne dispatches a message and notes its outcome.
func (s *shift) dispatchOne(ctx context.Context, it *item, timeout time.Duration) {
	msg := outbox.DispatchedMessage{Meta: it.rec.Meta(s.table), Payload: it.rec.Payload}
	start := time.Now()
	err := errGoexit
	defer func() { s.ended(ctx, []*item{it}, []error{err}, time.Since(start)) }()
	err = s.protect(ctx, timeout, func(ctx context.Context) error { return s.dispatcher.Dispatch(ctx, msg) })
	if s.hooks.Dispatched != nil {
		s.hooks.Dispatched(&msg.Meta, time.Since(start), err)
	}
}

// batchLoop dispatches what is ready in batches.
func (s *shift) batchLoop(ctx context.Context, d outbox.BatchDispatcher) {
	for {
		items := s.awaitMany()
		if items == nil {
			return
		}
		s.gate.enter()
		s.dispatchMany(ctx, d, items)
	}
}

func (s *shift) awaitMany() []*item {
	it := s.await()
	if it == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	items := append(make([]*item, 0, min(s.cfg.Batch, 1+s.ledger.ready.len())), it)
	for len(items) < s.cfg.Batch {
		if it = s.ledger.take(); it == nil {
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
		msgs[i] = outbox.DispatchedMessage{Meta: it.rec.Meta(s.table), Payload: it.rec.Payload}
	}
	start := time.Now()
	errs := repeat(errGoexit, len(items))
	defer func() { s.ended(ctx, items, errs, time.Since(start)) }()
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
func (s *shift) ended(ctx context.Context, items []*item, errs []error, took time.Duration) {
	cut := ctx.Err() != nil
	for i, it := range items {
		// Outside of the lock: a large payload takes milliseconds to look for.
		it.text = outbox.SanitizeError(errs[i], it.rec.Payload, s.cfg.MaxError)
	}
	s.mu.Lock()
	now := time.Now()
	for i, it := range items {
		if cut && errs[i] != nil {
			s.ledger.cutShort(it)
			continue
		}
		s.ledger.finish(it, s.ledger.judge(it, errs[i], took, now), now)
	}
	turns := s.ledger.turns
	s.ledger.turns = nil
	if s.idle > 0 && s.ledger.ready.len() > 0 {
		s.workers.Signal()
	}
	s.mu.Unlock()
	s.kickWriter()
	for _, t := range turns {
		s.log.circuit(ctx, t)
		s.hooks.Circuit(s.table, t.route, t.open)
	}
}

// cutShort lets a running message go.
func (l *ledger) cutShort(it *item) {
	l.running--
	l.release(it)
	l.laneIdle(it.lane)
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
