package main

import (
	"context"
	"errors"
	"time"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/compat"
	"github.com/go-outbox/outbox/relay"
)

// A PublisherConfig is the configuration that the service has always had.
type PublisherConfig struct {
	PollInterval    time.Duration
	BatchSize       int
	MaxRetries      int
	RetryInterval   time.Duration // nothing needs it: a retry is found when it is due
	CleanupInterval time.Duration
	CleanupAfter    time.Duration
}

// SamplePublisherConfig is what its documentation recommends.
var SamplePublisherConfig = PublisherConfig{
	PollInterval: time.Second, BatchSize: 100, MaxRetries: 3, RetryInterval: 5 * time.Second,
	CleanupInterval: time.Hour, CleanupAfter: 24 * time.Hour,
}

// relay is the same configuration in the words of the relay. Retries do not count the
// first try, attempts do.
func (c PublisherConfig) relay() (relay.Config, error) {
	policy, err := compat.Retry("c")
	policy.MaxAttempts = c.MaxRetries + 1
	return relay.Config{Poll: c.PollInterval, Batch: c.BatchSize, Retries: outbox.Retries{Default: policy}}, err
}

func (c PublisherConfig) cleaner() relay.CleanerConfig {
	return relay.CleanerConfig{Interval: c.CleanupInterval, Retention: c.CleanupAfter}
}

// A Handler publishes one event. An error means that it will be called again.
type Handler func(ctx context.Context, e Event) error

// A Store is what a publisher needs.
type Store interface {
	outbox.Store
	outbox.Inspector
}

// A Publisher publishes the entries of an outbox: in the background between Start and
// Stop, and by hand with PublishPending. It is safe for concurrent use.
type Publisher struct {
	store     Store
	relay     *relay.Relay
	scheduler *relay.Scheduler
}

// NewPublisher makes a publisher.
func NewPublisher(store Store, handle Handler, cfg PublisherConfig) (*Publisher, error) {
	relayConfig, err := cfg.relay()
	if err != nil {
		return nil, err
	}
	r, err := relay.New(store, outbox.DispatcherFunc(func(ctx context.Context, msg outbox.DispatchedMessage) error {
		event, err := ToEvent(msg.Payload)
		if err != nil {
			return err
		}
		return handle(ctx, event)
	}), relayConfig)
	if err != nil {
		return nil, err
	}
	cleanerConfig := cfg.cleaner()
	cleanerConfig.Leader = r.Leading
	cleaner, err := relay.NewCleaner(store, cleanerConfig)
	if err != nil {
		return nil, err
	}
	scheduler := relay.NewScheduler(relay.SchedulerConfig{})
	err = errors.Join(scheduler.Add("relay", r.Run), scheduler.Add("cleaner", cleaner.Run))
	return &Publisher{store: store, relay: r, scheduler: scheduler}, err
}

// Start publishes what is pending and goes on in the background.
func (p *Publisher) Start(ctx context.Context) error { return p.scheduler.Start(ctx) }

// Stop ends it, when what is in flight has finished.
func (p *Publisher) Stop(ctx context.Context) error { return p.scheduler.Stop(ctx) }

// PublishPending publishes what is due now: by itself, or through the background when
// that runs. Entries that wait for their retry are left to it.
func (p *Publisher) PublishPending(ctx context.Context) error {
	_, err := p.relay.PublishPending(ctx)
	if errors.Is(err, relay.ErrRunning) {
		p.relay.Wake()
		return nil
	}
	return err
}

// Pending are entries that are not published, oldest first.
func (p *Publisher) Pending(ctx context.Context, limit int) ([]*outbox.Record, error) {
	return p.list(ctx, outbox.Filter{Status: outbox.StatusPending, OldestFirst: true, Limit: limit})
}

// Failed are entries that were given up, newest first.
func (p *Publisher) Failed(ctx context.Context, limit int) ([]*outbox.Record, error) {
	return p.list(ctx, outbox.Filter{Status: outbox.StatusDead, Limit: limit})
}

func (p *Publisher) list(ctx context.Context, f outbox.Filter) ([]*outbox.Record, error) {
	page, err := p.store.List(ctx, f)
	return page.Records, err
}
