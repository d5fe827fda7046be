package mysqlstore

import (
	"context"
	"database/sql"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/bulk"
)

// Tenants counts messages by tenant.
func (s *Store) Tenants(ctx context.Context, limit int) (outbox.Tenants, error) {
	var t *bulk.Tenants
	err := s.snapshot(ctx, func(ctx context.Context, tx *sql.Tx) error {
		t = bulk.NewTenants(s.countCap)
		for part, statement := range map[string]string{"fresh": s.sql.TenantsFresh, "held": s.sql.TenantsHeld, "dead": s.sql.TenantsDead} {
			err := each(ctx, tx, func(rows *sql.Rows) error { return t.Scan(part, rows) }, statement, s.countCap)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return outbox.Tenants{}, s.explain("count tenants", err)
	}
	return t.Top(limit), nil
}
