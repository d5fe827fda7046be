package memstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

// note appends to the audit trail.
func (s *Store) note(e outbox.AuditEntry) {
	e.ID, e.At, e.Table = int64(len(s.audit))+1, s.clock.now(), s.cfg.Table
	s.audit = append(s.audit, e)
}

// Record keeps an entry of somebody else in the audit trail.
func (s *Store) Record(ctx context.Context, e outbox.AuditEntry) error {
	if err := s.enter(ctx); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	defer s.mu.Unlock()
	s.note(e)
	return nil
}

// Audit lists what was changed, newest first.
func (s *Store) Audit(ctx context.Context, f outbox.AuditFilter) ([]outbox.AuditEntry, error) {
	if err := s.enter(ctx); err != nil {
		return nil, fmt.Errorf("read audit: %w", err)
	}
	defer s.mu.Unlock()
	var list []outbox.AuditEntry
	for _, e := range slices.Backward(s.audit) {
		if len(list) == f.PageSize() {
			break
		}
		if (f.EventID == uuid.Nil || e.EventID == f.EventID) && (f.Verb == "" || e.Verb == f.Verb) &&
			(f.Actor == "" || e.Actor == f.Actor) && (f.Before == 0 || e.ID < f.Before) {
			list = append(list, e)
		}
	}
	return list, nil
}
