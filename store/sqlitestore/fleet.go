package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/bulk"
)

// Heartbeat registers a relay process. There is always one shard.
func (s *Store) Heartbeat(ctx context.Context, m outbox.Member) (outbox.FleetView, error) {
	view := outbox.FleetView{Shards: 1}
	err := s.write(ctx, func(ctx context.Context, conn *sql.Conn) error {
		now := s.now()
		if err := exec(ctx, conn, s.sql.Heartbeat, m.Instance, m.Version, now, m.TTL.Microseconds(), bulk.EncodeNote(m.Note)); err != nil {
			return err
		}
		if err := exec(ctx, conn, s.sql.ForgetRelays, now); err != nil {
			return err
		}
		return conn.QueryRowContext(ctx, s.sql.LiveRelays, now).Scan(&view.Live)
	})
	if err != nil {
		return outbox.FleetView{}, fmt.Errorf("heartbeat: %w", err)
	}
	return view, nil
}

// Leave removes the process from the fleet.
func (s *Store) Leave(ctx context.Context, instance string) error {
	err := s.write(ctx, func(ctx context.Context, conn *sql.Conn) error {
		return exec(ctx, conn, s.sql.Leave, instance)
	})
	if err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	return nil
}

// Resize accepts one shard only.
func (s *Store) Resize(_ context.Context, shards int) error {
	if shards != 1 {
		return fmt.Errorf("resize: %w", outbox.ErrInvalidConfig.With("shards",
			fmt.Sprintf("SQLite has one writer and therefore one shard, not %d", shards)))
	}
	return nil
}
