package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/go-outbox/outbox"
)

// tenantLine is one line of status --by-tenant --json. Its names are fixed.
type tenantLine struct {
	Table            string  `json:"table"`
	TenantID         string  `json:"tenant_id"`
	Pending          int     `json:"pending"`
	Dead             int     `json:"dead"`
	OldestPendingAge float64 `json:"oldest_pending_age_seconds"`
	Capped           bool    `json:"capped"` // counts mean "at least"
}

// statusByTenant prints what waits and what is dead by tenant, at most limit of each
// table.
func (a *app) statusByTenant(ctx context.Context, stores []store, limit int) error {
	c := newColumns(a.out)
	if !a.json {
		c.row("TABLE", "TENANT", "OLDEST", "PENDING", "DEAD")
	}
	var notes []string
	for _, s := range stores {
		t, err := s.Tenants(ctx, limit)
		if err != nil {
			return fmt.Errorf("tenants of %s: %w", s.Table(), err)
		}
		for _, n := range t.Tenants {
			if !a.json {
				c.row(s.Table(), orDash(n.TenantID), age(n.OldestPending), strconv.Itoa(n.Pending), strconv.Itoa(n.Dead))
				continue
			}
			if err := a.printJSON(tenantLine{s.Table(), n.TenantID, n.Pending, n.Dead, n.OldestPending.Seconds(), t.Capped}); err != nil {
				return err
			}
		}
		notes = append(notes, tenantNotes(s.Table(), t)...)
	}
	if err := c.flush(); err != nil {
		return err
	}
	for _, note := range notes {
		a.warnf("%s", note)
	}
	return nil
}

func tenantNotes(table string, t outbox.Tenants) (notes []string) {
	if t.Others > 0 {
		notes = append(notes, fmt.Sprintf("%s: %d more tenants: use --limit", table, t.Others))
	}
	if t.Capped {
		notes = append(notes, fmt.Sprintf("%s: only the first %d messages were counted", table, outbox.CountCap))
	}
	return notes
}
