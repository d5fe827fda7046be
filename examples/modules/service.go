package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/relay"
	"github.com/go-outbox/outbox/store/pgstore"
)

// A Service wires the modules to their outboxes.
type Service struct {
	db        *Database
	org       *Org
	hrm       *HRM
	scheduler *relay.Scheduler
	relays    []*relay.Relay
}

func newService(ctx context.Context, pool *pgxpool.Pool, log *slog.Logger) (*Service, error) {
	s := &Service{db: &Database{pool: pool}, scheduler: relay.NewScheduler(relay.SchedulerConfig{Log: log})}
	if err := createBusinessTables(ctx, pool); err != nil {
		return nil, err
	}
	orgBox, err := s.openOutbox(ctx, pool, "org_outbox", log)
	if err != nil {
		return nil, err
	}
	hrmBox, err := s.openOutbox(ctx, pool, "hrm_outbox", log)
	if err != nil {
		return nil, err
	}
	s.org = &Org{box: orgBox}
	s.hrm = &HRM{box: hrmBox}
	return s, nil
}

// openOutbox prepares one module's table and the relay and cleaner of it.
func (s *Service) openOutbox(ctx context.Context, pool *pgxpool.Pool, table string, log *slog.Logger) (*pgstore.Store, error) {
	store, err := pgstore.New(pool, pgstore.Config{Table: table})
	if err != nil {
		return nil, err
	}
	if _, err := store.Migrate(ctx); err != nil { // in production: `outbox migrate up`, before the deploy
		return nil, fmt.Errorf("migrate %s: %w", table, err)
	}
	r, err := relay.New(store, outbox.DispatcherFunc(s.dispatch), relay.Config{Log: log})
	if err != nil {
		return nil, err
	}
	cleaner, err := relay.NewCleaner(store, relay.CleanerConfig{Leader: r.Leading, Log: log})
	if err != nil {
		return nil, err
	}
	s.relays = append(s.relays, r)
	if err := s.scheduler.Add("relay "+table, r.Run); err != nil {
		return nil, err
	}
	return store, s.scheduler.Add("cleaner "+table, cleaner.Run)
}

// dispatch is the error boundary: it hands each topic to the module that cares. An
// error means "not delivered, try again"; a topic that nobody takes is never dropped.
func (s *Service) dispatch(ctx context.Context, msg outbox.DispatchedMessage) error {
	switch msg.Meta.Topic {
	case topicDepartmentOpened:
		return s.hrm.onDepartmentOpened(ctx, s.db, msg)
	case topicEmployeeHired:
		return s.org.onEmployeeHired(ctx, s.db, msg)
	}
	return outbox.ErrNoRoute.With("topic", msg.Meta.Topic)
}

// Hire is one business operation across both modules: one transaction, two business
// rows, two events, all or nothing.
func (s *Service) Hire(ctx context.Context, employee, department string) error {
	err := s.db.InTx(ctx, func(ctx context.Context) error {
		if err := s.org.OpenDepartment(ctx, department); err != nil {
			return err
		}
		return s.hrm.Hire(ctx, employee, department)
	})
	if err == nil {
		s.wake() // saves the relays in this process the wait for their next poll
	}
	return err
}

func (s *Service) wake() {
	for _, r := range s.relays {
		r.Wake()
	}
}

// Start starts the relays and cleaners; Stop drains them.
func (s *Service) Start(ctx context.Context) error { return s.scheduler.Start(ctx) }

// Stop lets what is in flight finish and hands the leases over.
func (s *Service) Stop(ctx context.Context) error { return s.scheduler.Stop(ctx) }
