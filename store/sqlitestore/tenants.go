package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/bulk"
)

// Tenants counts messages by tenant.
func (s *Store) Tenants(ctx context.Context, limit int) (outbox.Tenants, error) {
	var t *bulk.Tenants
	err := s.read(ctx, func(ctx context.Context, conn *sql.Conn) error {
		t = bulk.NewTenants(s.countCap)
		now := s.now()
		for part, statement := range map[string]string{"fresh": s.sql.TenantsFresh, "held": s.sql.TenantsHeld, "dead": s.sql.TenantsDead} {
			err := each(ctx, conn, func(rows *sql.Rows) error { return t.Scan(part, rows) }, statement, s.countCap, now)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return outbox.Tenants{}, fmt.Errorf("count tenants: %w", err)
	}
	return t.Top(limit), nil
}
