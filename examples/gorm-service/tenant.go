package main

import (
	"context"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/compat"
)

// Unpublished are the events of a tenant that wait for their first try, oldest first.
func (s *Service) Unpublished(ctx context.Context, tenant string, limit int) ([]*outbox.Record, error) {
	return s.list(ctx, outbox.Filter{Status: outbox.StatusPending, TenantID: tenant, OldestFirst: true, Limit: limit})
}

// ForRetry are the events of a tenant that have failed and will be tried again.
func (s *Service) ForRetry(ctx context.Context, tenant string, limit int) ([]*outbox.Record, error) {
	return s.list(ctx, outbox.Filter{Status: outbox.StatusRetrying, TenantID: tenant, OldestFirst: true, Limit: limit})
}

// Failed are the events of a tenant that have been given up.
func (s *Service) Failed(ctx context.Context, tenant string, limit int) ([]*outbox.Record, error) {
	return s.list(ctx, outbox.Filter{Status: outbox.StatusDead, TenantID: tenant, Limit: limit})
}

func (s *Service) list(ctx context.Context, f outbox.Filter) ([]*outbox.Record, error) {
	page, err := s.db.outbox.List(ctx, f)
	return page.Records, err
}

// Find is one event with its payload, and its status in the words of the service.
func (s *Service) Find(ctx context.Context, id uuid.UUID) (*outbox.Record, string, error) {
	record, err := s.db.outbox.Get(ctx, id)
	if err != nil {
		return nil, "", err
	}
	stats, err := s.db.outbox.Stats(ctx) // for the database's clock
	if err != nil {
		return nil, "", err
	}
	return record, compat.B.Word(record.Status(stats.Now)), nil
}

// maxCount bounds a count: beyond it, "many" is what an operator needs to know.
const maxCount = 10_000

// CountUnpublished counts the events of a tenant that are neither published nor given
// up, up to maxCount. Stats has the count of all tenants together, at a bounded cost.
func (s *Service) CountUnpublished(ctx context.Context, tenant string) (n int, err error) {
	for _, status := range []outbox.Status{outbox.StatusPending, outbox.StatusScheduled, outbox.StatusInFlight, outbox.StatusRetrying} {
		f := outbox.Filter{Status: status, TenantID: tenant, OldestFirst: true, Limit: outbox.MaxPage}
		for n < maxCount {
			page, err := s.db.outbox.List(ctx, f)
			if err != nil {
				return 0, err
			}
			n += len(page.Records)
			if f.After = page.Next; f.After == 0 {
				break
			}
		}
	}
	return n, nil
}

// Retry sends an event again that was given up. Who and why go to the audit trail.
func (s *Service) Retry(ctx context.Context, id uuid.UUID, actor, reason string) error {
	_, err := s.db.outbox.Apply(ctx, outbox.Action{Verb: outbox.VerbReplay, EventID: id, Actor: actor, Reason: reason})
	return err
}
