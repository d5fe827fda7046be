package relay

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-outbox/outbox"
)

// CleanerConfig tunes a Cleaner. The zero value keeps published messages for a week
// and dead ones for ever.
type CleanerConfig struct {
	// Interval is between two rounds. Defaults to 1 minute.
	Interval time.Duration
	// Retention is how long published messages are kept. Defaults to 168 h.
	Retention time.Duration
	// DeadRetention is how long dead messages are kept, from the moment they
	// died. Zero keeps them for ever.
	DeadRetention time.Duration
	// Batch bounds one delete. Defaults to 1000.
	Batch int
	// Leader, when set, says whether this process cleans: one is enough. Use
	// (*Relay).Leading.
	Leader func() bool
	// Archive receives each message before it is deleted. Optional.
	Archive func(*outbox.Record) error
	Hooks   Hooks
	Log     *slog.Logger
}

// A Cleaner deletes messages whose retention is over, in bounded batches, and never
// anything that is pending. Create it with NewCleaner.
type Cleaner struct {
	cfg    CleanerConfig
	purger outbox.Purger
	table  string
	log    *logger
}

// NewCleaner makes a cleaner of a store that can purge.
func NewCleaner(store outbox.Store, cfg CleanerConfig) (*Cleaner, error) {
	purger, ok := store.(outbox.Purger)
	if !ok {
		return nil, outbox.ErrInvalidConfig.With("store", "cannot purge")
	}
	setDefault(&cfg.Interval, time.Minute)
	setDefault(&cfg.Retention, 168*time.Hour)
	setDefault(&cfg.Batch, 1000)
	for name, d := range map[string]time.Duration{
		"cleaner interval": cfg.Interval, "retention": cfg.Retention, "dead_retention": cfg.DeadRetention,
	} {
		if d < 0 {
			return nil, outbox.ErrInvalidConfig.With(name, fmt.Sprintf("must not be negative, got %s", d))
		}
	}
	if cfg.Batch < 0 {
		return nil, outbox.ErrInvalidConfig.With("cleaner batch", "must not be negative")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Hooks = cfg.Hooks.withDefaults()
	return &Cleaner{
		cfg: cfg, purger: purger, table: store.Table(),
		log: &logger{slog: cfg.Log.With(slog.String("table", store.Table()))},
	}, nil
}

// Run cleans until ctx ends, then returns nil.
func (c *Cleaner) Run(ctx context.Context) error {
	for {
		if c.cfg.Leader == nil || c.cfg.Leader() {
			if _, err := c.Clean(ctx); err != nil && ctx.Err() == nil {
				c.cfg.Hooks.DatabaseError(c.table, "purge", err)
				c.log.databaseDown(ctx, "purge", err)
			} else {
				c.log.databaseUp(ctx)
			}
		}
		if !pause(ctx, c.cfg.Interval) {
			return nil
		}
	}
}

// Clean deletes everything whose retention is over and reports what it deleted.
func (c *Cleaner) Clean(ctx context.Context) (outbox.PurgeResult, error) {
	var total outbox.PurgeResult
	for ctx.Err() == nil {
		res, err := c.purger.Purge(ctx, outbox.PurgeRequest{
			Published: c.cfg.Retention, Dead: c.cfg.DeadRetention, Limit: c.cfg.Batch, Archive: c.cfg.Archive,
		})
		total.Published += res.Published
		total.Dead += res.Dead
		if err != nil {
			return total, fmt.Errorf("purge: %w", err)
		}
		hit(atPurged)
		if res.Published+res.Dead > 0 {
			c.cfg.Hooks.Purged(c.table, res)
		}
		if !res.More {
			break
		}
	}
	if n := total.Published + total.Dead; n > 0 {
		c.log.info(ctx, "purged", slog.Int("published", total.Published), slog.Int("dead", total.Dead))
	}
	return total, nil
}
