package redisguard

import (
	"context"
	"errors"

	"github.com/go-outbox/outbox"
)

// Dispatcher puts the guard in front of next, for a relay: a message whose key exists
// counts as delivered, and the key is written after next has acknowledged. So a relay that
// takes over from one that was killed between acknowledgement and settlement sends less
// twice. The key is made of the deduplication id, so a replay by an operator is sent. Each
// route of a message that goes to several has a key of its own.
//
// What it returns takes batches and has routes if next does. Wrap what the relay is given,
// a router as a whole: two routes must not share the guard of one.
func (g *Guard) Dispatcher(next outbox.Dispatcher) outbox.Dispatcher {
	single := guarded{g, next}
	batches, isBatch := next.(outbox.BatchDispatcher)
	router, isRouter := next.(outbox.Router)
	switch {
	case isBatch && isRouter:
		return struct {
			guardedBatch
			routes
		}{guardedBatch{single, batches}, routes{router}}
	case isBatch:
		return guardedBatch{single, batches}
	case isRouter:
		return struct {
			guarded
			routes
		}{single, routes{router}}
	}
	return single
}

type guarded struct {
	guard *Guard
	next  outbox.Dispatcher
}

func (d guarded) Dispatch(ctx context.Context, msg outbox.DispatchedMessage) error {
	left, keys := d.guard.open([]outbox.DispatchedMessage{msg}, d.guard.seen(ctx, d.guard.keys(msg)))
	if len(left) == 0 {
		return nil
	}
	err := d.next.Dispatch(ctx, left[0])
	d.guard.mark(ctx, keys.of(0, left[0].Meta.Routes, err))
	return err
}

type guardedBatch struct {
	guarded
	batches outbox.BatchDispatcher
}

func (d guardedBatch) DispatchBatch(ctx context.Context, msgs []outbox.DispatchedMessage) []error {
	left, keys := d.guard.open(msgs, d.guard.seen(ctx, d.guard.keys(msgs...)))
	results := make([]error, len(msgs))
	if len(left) == 0 {
		return results
	}
	errs := d.batches.DispatchBatch(ctx, left)
	if len(errs) != len(left) {
		return errs[:0:0] // of the wrong length, too: every message has failed
	}
	var done []string
	for i, err := range errs {
		done = append(done, keys.of(i, left[i].Meta.Routes, err)...)
		results[keys[i].message] = err
	}
	d.guard.mark(ctx, done)
	return results
}

// keys are those of messages, in order: one each, or one for each route to try.
func (g *Guard) keys(msgs ...outbox.DispatchedMessage) []string {
	var keys []string
	for i := range msgs {
		keys = append(keys, g.keysOf(&msgs[i].Meta)...)
	}
	return keys
}

func (g *Guard) keysOf(m *outbox.Meta) []string {
	key := g.cfg.Prefix + m.DedupID()
	if len(m.Routes) == 0 {
		return []string{key}
	}
	keys := make([]string, len(m.Routes))
	for i, route := range m.Routes {
		keys[i] = key + ":" + route
	}
	return keys
}

// open returns the messages that are not delivered, with the routes that are not, and
// their keys. seen is about the keys of msgs.
func (g *Guard) open(msgs []outbox.DispatchedMessage, seen []bool) ([]outbox.DispatchedMessage, openKeys) {
	left := make([]outbox.DispatchedMessage, 0, len(msgs))
	keys := make(openKeys, 0, len(msgs))
	for i, msg := range msgs {
		own := g.keysOf(&msg.Meta)
		var open, routes []string
		for k, key := range own {
			if seen[k] {
				continue
			}
			open = append(open, key)
			if len(msg.Meta.Routes) > 0 {
				routes = append(routes, msg.Meta.Routes[k])
			}
		}
		seen = seen[len(own):]
		if len(open) > 0 {
			msg.Meta.Routes = routes
			left = append(left, msg)
			keys = append(keys, openKey{i, open})
		}
	}
	return left, keys
}

type openKey struct {
	message int // its place in the batch
	keys    []string
}

type openKeys []openKey

// of returns the keys of what a result says was delivered: all, none, or those of the
// routes without an error.
func (o openKeys) of(i int, routes []string, err error) []string {
	if err == nil {
		return o[i].keys
	}
	var failed outbox.RouteErrors
	if len(routes) == 0 || !errors.As(err, &failed) {
		return nil
	}
	var done []string
	for k, route := range routes {
		if failed[route] == nil {
			done = append(done, o[i].keys[k])
		}
	}
	return done
}

// routes are those of the dispatcher behind the guard.
type routes struct{ router outbox.Router }

func (r routes) Route(topic string) string { return r.router.Route(topic) }

func (r routes) Routes(topic string) []string {
	if f, ok := r.router.(outbox.FanOut); ok {
		return f.Routes(topic)
	}
	return []string{r.router.Route(topic)}
}

func (r routes) Policy(route string) outbox.RoutePolicy {
	if p, ok := r.router.(outbox.PolicyRouter); ok {
		return p.Policy(route)
	}
	return outbox.RoutePolicy{}
}
