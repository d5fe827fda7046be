package relay

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/go-outbox/outbox"
)

// standbyPoll is the longest wait of a spare relay between two looks at a lease: one that
// is given back, as in a deployment, is not to lie about.
const standbyPoll = 250 * time.Millisecond

// A crew is the set of shifts that a relay runs: it takes leases until it has its
// share, and gives one back when it has more. Nobody steals.
type crew struct {
	r     *Relay
	fleet outbox.Fleet // nil: one lease

	group  sync.WaitGroup
	ended  chan ended
	held   map[int]post
	beatAt time.Time
	share  int
	retry  backoff
	waits  bool // standing by, and said so
}

// A post is a shift and how to stop it.
type post struct {
	shift *shift
	stop  context.CancelFunc
}

type ended struct {
	shift *shift
	err   error
}

func newCrew(r *Relay) *crew {
	c := &crew{r: r, ended: make(chan ended), held: make(map[int]post), share: 1, retry: backoff{max: 5 * time.Second}}
	c.fleet, _ = r.store.(outbox.Fleet)
	return c
}

func (c *crew) run(ctx context.Context) error {
	err := c.resize(ctx)
	for err == nil && ctx.Err() == nil {
		var wait time.Duration
		if wait, err = c.tend(ctx); err != nil {
			break
		}
		select {
		case <-ctx.Done():
		case e := <-c.ended:
			c.end(ctx, e)
		case <-time.After(wait):
		}
	}
	c.disband(ctx)
	return err
}

// resize applies the configured number of shards when all leases are free. When
// they are not, other relays are at work with the old number and it stays.
func (c *crew) resize(ctx context.Context) error {
	shards := c.r.cfg.Shards
	if shards == 0 {
		return nil
	}
	if c.fleet == nil {
		if shards == 1 {
			return nil
		}
		return outbox.ErrInvalidConfig.With("shards", "this store has one shard")
	}
	for ctx.Err() == nil {
		err := c.fleet.Resize(ctx, shards)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, outbox.ErrLeaseHeld):
			c.r.log.info(ctx, "other relays are at work; the number of shards stays as it is", slog.Int("wanted", shards))
			return nil
		case fatal(err):
			return err
		}
		c.trouble(ctx, "resize", err)
		pause(ctx, c.retry.next())
	}
	return nil
}

// tend adjusts the number of shifts to our share and says when to look again.
func (c *crew) tend(ctx context.Context) (time.Duration, error) {
	if err := c.heartbeat(ctx); err != nil {
		if ctx.Err() != nil {
			return 0, nil
		}
		if fatal(err) {
			return 0, err
		}
		c.trouble(ctx, "heartbeat", err)
		return c.retry.next(), nil
	}
	for len(c.held) > c.share {
		c.giveBack()
	}
	for len(c.held) < c.share {
		a, err := c.r.acquire(ctx)
		switch {
		case errors.Is(err, outbox.ErrLeaseHeld):
			c.standBy(ctx)
			return min(c.r.cfg.Poll, standbyPoll), nil
		case err != nil && ctx.Err() != nil:
			return 0, nil
		case fatal(err):
			return 0, err
		case err != nil:
			c.trouble(ctx, "acquire", err)
			return c.retry.next(), nil
		}
		c.r.log.databaseUp(ctx)
		c.begin(ctx, a)
	}
	c.retry.reset()
	return min(c.r.cfg.Lease/3, time.Second), nil
}

// fatal errors need a person; everything else is tried again.
func fatal(err error) bool {
	return errors.Is(err, outbox.ErrSchema) || errors.Is(err, outbox.ErrInvalidConfig)
}

func (c *crew) heartbeat(ctx context.Context) error {
	if c.fleet == nil || time.Now().Before(c.beatAt) {
		return nil
	}
	cfg := c.r.cfg
	view, err := c.fleet.Heartbeat(ctx, outbox.Member{Instance: cfg.Instance, Version: cfg.Version, TTL: cfg.Lease, Note: c.r.note()})
	if err != nil {
		return err
	}
	c.beatAt = time.Now().Add(cfg.Lease / 3)
	live := max(view.Live, 1)
	c.share = max((view.Shards+live-1)/live, 1)
	return nil
}

func (c *crew) begin(ctx context.Context, a acquired) {
	c.waits = false
	info := a.lease.Info()
	s := c.r.newShift(a, false)
	ctx, cancel := context.WithCancel(ctx)
	c.held[info.Shard] = post{shift: s, stop: cancel}
	c.r.log.info(ctx, "lease acquired", slog.Int("shard", info.Shard), slog.Int64("epoch", info.Epoch))
	c.r.cfg.Hooks.LeaseAcquired(c.r.store.Table(), info)
	c.group.Go(func() {
		err := s.run(ctx)
		c.ended <- ended{shift: s, err: err}
	})
}

// giveBack stops the highest shift; its end is seen in time.
func (c *crew) giveBack() {
	shards := make([]int, 0, len(c.held))
	for shard := range c.held {
		shards = append(shards, shard)
	}
	last := slices.Max(shards)
	c.held[last].stop()
	delete(c.held, last)
}

func (c *crew) end(ctx context.Context, e ended) {
	info := e.shift.lease.Info()
	c.r.forget(e.shift)
	if p, ok := c.held[info.Shard]; ok && p.shift == e.shift {
		p.stop()
		delete(c.held, info.Shard)
	}
	c.r.cfg.Hooks.LeaseLost(c.r.store.Table(), info, e.err)
	if e.err == nil {
		c.r.log.info(ctx, "lease handed over", slog.Int("shard", info.Shard), slog.Int64("epoch", info.Epoch))
		return
	}
	c.r.log.warn(ctx, "lease lost", slog.Int("shard", info.Shard), slog.Int64("epoch", info.Epoch), errAttr(e.err))
}

func (c *crew) standBy(ctx context.Context) {
	c.r.log.databaseUp(ctx)
	if !c.waits && len(c.held) == 0 {
		c.waits = true
		c.r.log.info(ctx, "standing by: another relay holds the lease")
	}
}

func (c *crew) trouble(ctx context.Context, op string, err error) {
	c.r.cfg.Hooks.DatabaseError(c.r.store.Table(), op, err)
	if errors.Is(err, outbox.ErrRestored) {
		c.r.log.restored(ctx, err)
		return
	}
	c.r.log.databaseDown(ctx, op, err)
}

// disband waits for every shift to end. Their contexts have ended, or end now.
func (c *crew) disband(ctx context.Context) {
	for _, p := range c.held {
		p.stop()
	}
	go func() { c.group.Wait(); close(c.ended) }()
	for e := range c.ended {
		c.end(ctx, e)
	}
	if c.fleet != nil {
		leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if err := c.fleet.Leave(leave, c.r.cfg.Instance); err != nil {
			c.r.cfg.Hooks.DatabaseError(c.r.store.Table(), "leave", err)
		}
	}
}
