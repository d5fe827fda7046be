package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/bulk"
)

// Heartbeat registers a relay process and counts those that live.
func (s *Store) Heartbeat(ctx context.Context, m outbox.Member) (outbox.FleetView, error) {
	var view outbox.FleetView
	l, err := s.layout(ctx, s.pool)
	if err == nil {
		err = s.pool.QueryRow(ctx, l.sql.Heartbeat, s.mode, m.Instance, m.Version, m.TTL.Microseconds(), bulk.EncodeNote(m.Note)).
			Scan(&view.Shards, &view.Live)
	}
	return view, s.explain("heartbeat", err)
}

// Leave removes the process from the fleet.
func (s *Store) Leave(ctx context.Context, instance string) error {
	l, err := s.layout(ctx, s.pool)
	if err == nil {
		_, err = s.pool.Exec(ctx, l.sql.Leave, s.mode, instance)
	}
	return s.explain("leave", err)
}

// Resize changes the number of shards. Batches that crashed relays left behind are
// split along the new ranges, so that their messages are recovered by whoever will
// own them.
func (s *Store) Resize(ctx context.Context, shards int) error {
	if shards < 1 || shards > 256 {
		return outbox.ErrInvalidConfig.With("shards", fmt.Sprintf("must be between 1 and 256, got %d", shards))
	}
	l, err := s.layout(ctx, s.pool)
	if err != nil {
		return s.explain("resize", err)
	}
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		return resize{s, &l.sql, tx, shards}.run(ctx)
	})
	return s.explain("resize", err)
}

// operatorTimeout bounds how long an operator's transaction may hold the leases.
const operatorTimeout = "5000"

// resize is one change of the number of shards.
type resize struct {
	s      *Store
	sql    *statements
	tx     pgx.Tx
	shards int
}

func (r resize) run(ctx context.Context) error {
	if _, err := r.tx.Exec(ctx, r.sql.Timeouts, r.s.mode, operatorTimeout); err != nil {
		return err
	}
	leases, err := lockLeases(ctx, r.tx, r.sql, r.s.mode)
	if err != nil || len(leases) == r.shards {
		return err
	}
	var epoch, nudge int64
	low := leases[0].Low
	draining := map[int16]bool{}
	for _, l := range leases {
		if l.Held {
			return outbox.ErrLeaseHeld
		}
		epoch, nudge, low = max(epoch, l.Epoch), max(nudge, l.Nudge), min(low, l.Low)
		draining[l.Shard] = l.Draining
	}
	if _, err := r.tx.Exec(ctx, r.sql.DropLeases, r.s.mode); err != nil {
		return err
	}
	if _, err := r.tx.Exec(ctx, r.sql.InsertLeases, r.s.mode, r.shards, epoch+1, low, nudge+1); err != nil {
		return err
	}
	return r.splitBatches(ctx, epoch, draining)
}

// lockLeases locks every lease. Whoever waits for a resize finds the rows of its own
// snapshot deleted and none in their place, so it looks again: the next statement's
// snapshot has the new ones.
func lockLeases(ctx context.Context, tx pgx.Tx, sql *statements, mode pgx.QueryExecMode) ([]lockedLease, error) {
	for range 5 {
		rows, err := tx.Query(ctx, sql.LockLeases, mode)
		if err != nil {
			return nil, err
		}
		leases, err := pgx.CollectRows(rows, pgx.RowToStructByPos[lockedLease])
		if err != nil || len(leases) > 0 {
			return leases, err
		}
	}
	return nil, outbox.ErrLeaseHeld.With("leases", "are being resized by others; try again")
}

// lockedLease is a row of leases_lock.sql.
type lockedLease struct {
	Shard             int16
	Epoch, Low, Nudge int64
	Draining, Held    bool
}

// splitBatches moves every batch to the shards its messages belong to now. All of
// them get the old highest epoch and numbers of their own.
func (r resize) splitBatches(ctx context.Context, epoch int64, draining map[int16]bool) error {
	rows, err := r.tx.Query(ctx, r.sql.DropBatches, r.s.mode)
	if err != nil {
		return err
	}
	batches, err := pgx.CollectRows(rows, pgx.RowToStructByPos[movedBatch])
	if err != nil || len(batches) == 0 {
		return err
	}
	var all []int64
	for _, b := range batches {
		all = append(all, expand(b.IDs)...)
	}
	slots, err := r.slots(ctx, all)
	if err != nil {
		return err
	}
	no := int64(0)
	for _, b := range batches {
		parts := make([][]int64, r.shards)
		for _, id := range expand(b.IDs) {
			if slot, ok := slots[id]; ok {
				shard := r.shard(slot)
				parts[shard] = append(parts[shard], id)
			}
		}
		for shard, ids := range parts {
			if len(ids) == 0 {
				continue
			}
			no++
			_, err := r.tx.Exec(ctx, r.sql.InsertBatch, r.s.mode, shard, epoch, no, multirange(ids), b.Crashes,
				b.InFlight && !draining[b.Shard], b.Solo, b.Lost, b.Beat, b.RecordedAt, b.Server)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// movedBatch is a row of batches_drop.sql.
type movedBatch struct {
	Shard                int16
	IDs                  pgtype.Multirange[pgtype.Range[pgtype.Int8]]
	Crashes              int16
	InFlight, Solo, Lost bool
	Beat                 pgtype.Timestamptz
	RecordedAt, Server   time.Time
}

// shard is the shard of a slot, as leases_insert.sql draws the ranges.
func (r resize) shard(slot int16) int {
	shard := int(slot) * r.shards / 256
	for (shard+1)*256/r.shards <= int(slot) { // integer division rounds both ways
		shard++
	}
	return shard
}

func (r resize) slots(ctx context.Context, ids []int64) (map[int64]int16, error) {
	rows, err := r.tx.Query(ctx, r.sql.SlotsOf, r.s.mode, ids)
	if err != nil {
		return nil, err
	}
	slots := make(map[int64]int16, len(ids))
	var id int64
	var slot int16
	_, err = pgx.ForEachRow(rows, []any{&id, &slot}, func() error {
		slots[id] = slot
		return nil
	})
	return slots, err
}
