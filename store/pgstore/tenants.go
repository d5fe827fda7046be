package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/bulk"
)

// Tenants counts messages by tenant.
func (s *Store) Tenants(ctx context.Context, limit int) (outbox.Tenants, error) {
	l, err := s.layout(ctx, s.pool)
	if err != nil {
		return outbox.Tenants{}, s.explain("count tenants", err)
	}
	t := bulk.NewTenants(outbox.CountCap)
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, l.sql.Ordered, s.mode); err != nil {
			return err
		}
		return countTenants(ctx, inspection{s, &l.sql, tx}, t)
	})
	if err != nil {
		return outbox.Tenants{}, s.explain("count tenants", err)
	}
	return t.Top(limit), nil
}

func countTenants(ctx context.Context, v inspection, t *bulk.Tenants) error {
	rows, err := v.tx.Query(ctx, v.sql.Tenants, v.s.mode, outbox.CountCap)
	if err != nil {
		return err
	}
	var part string
	var looked int
	var c outbox.TenantCount
	var oldest pgtype.Timestamptz
	var now time.Time
	_, err = pgx.ForEachRow(rows, []any{&part, &c.TenantID, &looked, &c.Pending, &c.Dead, &oldest, &now}, func() error {
		c.OldestPending = 0
		if oldest.Valid {
			c.OldestPending = max(now.Sub(oldest.Time), 0)
		}
		t.Add(part, looked, c)
		return nil
	})
	return err
}
