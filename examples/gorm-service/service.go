package main

import (
	"context"
	"log/slog"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/config"
	"github.com/go-outbox/outbox/relay"
)

// An EventPublisher is the bus as the application knows it. The service is given one and
// does not know what is behind it.
type EventPublisher interface {
	Publish(ctx context.Context, topic string, data []byte) error
}

// dispatcher makes a dispatcher of a publisher. Publish must return nil only when the bus
// has the event: the message is then published, and otherwise tried again.
func dispatcher(p EventPublisher) outbox.Dispatcher {
	return outbox.DispatcherFunc(func(ctx context.Context, msg outbox.DispatchedMessage) error {
		return p.Publish(ctx, msg.Meta.Topic, msg.Payload)
	})
}

// A Service keeps archives.
type Service struct {
	db        *Database
	topics    *outbox.TopicMapper
	relay     *relay.Relay
	scheduler *relay.Scheduler
}

func newService(db *Database, cfg *config.Config, publisher EventPublisher, log *slog.Logger) (*Service, error) {
	topics, err := newTopics()
	if err != nil {
		return nil, err
	}
	for _, note := range cfg.Notes { // settings that nothing needs any more
		log.Info("configuration", slog.String("note", note))
	}
	relayConfig := cfg.RelayConfig(table)
	relayConfig.Log = log
	r, err := relay.New(db.outbox, dispatcher(publisher), relayConfig)
	if err != nil {
		return nil, err
	}
	cleanerConfig := cfg.CleanerConfig()
	cleanerConfig.Leader, cleanerConfig.Log = r.Leading, log
	cleaner, err := relay.NewCleaner(db.outbox, cleanerConfig)
	if err != nil {
		return nil, err
	}
	scheduler := relay.NewScheduler(relay.SchedulerConfig{Log: log})
	if err := scheduler.Add("relay", r.Run); err != nil {
		return nil, err
	}
	if err := scheduler.Add("cleaner", cleaner.Run); err != nil {
		return nil, err
	}
	return &Service{db: db, topics: topics, relay: r, scheduler: scheduler}, nil
}

// Start starts the relay and the cleaner.
func (s *Service) Start(ctx context.Context) error { return s.scheduler.Start(ctx) }

// IsRunning reports whether they run.
func (s *Service) IsRunning() bool { return s.scheduler.IsRunning() }

// Stop lets what is in flight finish and gives the lease back.
func (s *Service) Stop(ctx context.Context) error { return s.scheduler.Stop(ctx) }
