// Package redisguard recognises duplicates with a key in Redis: cheaper than an inbox and
// weaker.
//
// The key outbox:dispatched:ID is written after the fact, when the handler has returned or
// the sink has acknowledged, and lives for a day. A duplicate that comes later than that
// moment, and within the day, is skipped. No event is ever lost to it: a key is written
// only for what has happened, and a Redis that is down, slow or empty lets everything
// through.
//
// Duplicates do pass in these windows: while the first delivery is still under way, when
// the process dies or Redis fails between the effect and the key, when Redis lost keys
// (eviction, a restart without persistence, a failover), and when the day is over. Where
// that is not good enough, use package inbox, whose mark is part of the transaction.
package redisguard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/go-outbox/outbox"
)

// Config configures a Guard. The zero value works.
type Config struct {
	// Prefix is what keys begin with. Consumers of the same events that share a Redis
	// need prefixes of their own: the guard of one would skip the other's. Defaults to
	// "outbox:dispatched:".
	Prefix string
	// TTL is how long duplicates are recognised. Defaults to 24 hours.
	TTL time.Duration
	// Timeout bounds each exchange with Redis, so that one that hangs costs time and
	// not deliveries. Defaults to 500 ms.
	Timeout time.Duration
	// Failed hears of every exchange that failed and was ignored. It runs on the
	// goroutine of the delivery and must not block. Optional.
	Failed func(err error)
}

const (
	defaultPrefix  = "outbox:dispatched:"
	defaultTTL     = 24 * time.Hour
	defaultTimeout = 500 * time.Millisecond
)

// A Guard remembers what was delivered. Create it with New; the zero value is not usable.
// It is safe for concurrent use.
type Guard struct {
	client redis.Cmdable
	cfg    Config
}

// New makes a guard on a client that stays the caller's: a single server, a cluster or a
// ring. It does no I/O.
func New(client redis.Cmdable, cfg Config) (*Guard, error) {
	var errs []error
	if client == nil {
		errs = append(errs, outbox.ErrInvalidConfig.With("client", "is nil"))
	}
	if cfg.TTL < 0 {
		errs = append(errs, outbox.ErrInvalidConfig.With("ttl", "is negative"))
	}
	if cfg.Timeout < 0 {
		errs = append(errs, outbox.ErrInvalidConfig.With("timeout", "is negative"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if cfg.Prefix == "" {
		cfg.Prefix = defaultPrefix
	}
	if cfg.TTL == 0 {
		cfg.TTL = defaultTTL
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.Failed == nil {
		cfg.Failed = func(error) {}
	}
	return &Guard{client, cfg}, nil
}

// Once calls fn, unless event is known to be handled, and reports whether it did. It is
// for consumers whose effect is not in a database. fn's error is returned and leaves no
// key; failures of Redis go to Config.Failed and nowhere else.
func (g *Guard) Once(ctx context.Context, event uuid.UUID, fn func() error) (bool, error) {
	if event == uuid.Nil {
		return false, outbox.ErrInvalidMessage.With("event_id", "is missing; without it every event is a duplicate of the first")
	}
	key := []string{g.cfg.Prefix + event.String()}
	if g.seen(ctx, key)[0] {
		return false, nil
	}
	if err := fn(); err != nil {
		return false, err
	}
	g.mark(ctx, key)
	return true, nil
}

// seen reports which keys exist. What cannot be found out does not.
func (g *Guard) seen(ctx context.Context, keys []string) []bool {
	found := make([]bool, len(keys))
	ctx, cancel := context.WithTimeout(ctx, g.cfg.Timeout)
	defer cancel()
	answers := make([]*redis.IntCmd, len(keys))
	_, err := g.client.Pipelined(ctx, func(p redis.Pipeliner) error { // not MGET: the keys of a cluster are apart
		for i, key := range keys {
			answers[i] = p.Exists(ctx, key)
		}
		return nil
	})
	if err != nil {
		g.cfg.Failed(fmt.Errorf("look for %d keys: %w", len(keys), err))
	}
	for i, answer := range answers {
		found[i] = answer != nil && answer.Err() == nil && answer.Val() > 0
	}
	return found
}

// mark writes keys, also when ctx has ended meanwhile: what they say has happened.
func (g *Guard) mark(ctx context.Context, keys []string) {
	if len(keys) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.cfg.Timeout)
	defer cancel()
	_, err := g.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, key := range keys {
			p.Set(ctx, key, 1, g.cfg.TTL)
		}
		return nil
	})
	if err != nil {
		g.cfg.Failed(fmt.Errorf("write %d keys: %w", len(keys), err))
	}
}
