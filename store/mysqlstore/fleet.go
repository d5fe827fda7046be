package mysqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/bulk"
)

// Heartbeat registers a relay process and counts those that live. Processes that have
// been silent for an hour are forgotten.
func (s *Store) Heartbeat(ctx context.Context, m outbox.Member) (outbox.FleetView, error) {
	var view outbox.FleetView
	err := s.write(ctx, operatorPatience, func(ctx context.Context, tx *sql.Tx) error {
		if err := exec(ctx, tx, s.sql.Heartbeat, m.Instance, m.Version, m.TTL.Microseconds(), bulk.EncodeNote(m.Note)); err != nil {
			return err
		}
		return one(ctx, tx, []any{&view.Shards, &view.Live}, s.sql.Fleet)
	})
	if err == nil {
		err = s.forgetSilent(ctx)
	}
	return view, s.explain("heartbeat", err)
}

// forgetSilent deletes by primary key: a condition alone would lock the rows of others.
func (s *Store) forgetSilent(ctx context.Context) error {
	var silent []string
	err := s.committed(ctx, func(ctx context.Context, conn *sql.Conn) error {
		return each(ctx, conn, func(rows *sql.Rows) error {
			var instance string
			err := rows.Scan(&instance)
			silent = append(silent, instance)
			return err
		}, s.sql.SilentRelays)
	})
	for _, instance := range silent {
		if err == nil {
			err = s.leave(ctx, instance)
		}
	}
	return err
}

// Leave removes the process from the fleet.
func (s *Store) Leave(ctx context.Context, instance string) error {
	return s.explain("leave", s.leave(ctx, instance))
}

func (s *Store) leave(ctx context.Context, instance string) error {
	return s.write(ctx, operatorPatience, func(ctx context.Context, tx *sql.Tx) error {
		return exec(ctx, tx, s.sql.Leave, instance)
	})
}

// Resize changes the number of shards. Batches that crashed relays left behind are split
// along the new ranges, so that their messages are recovered by whoever will own them.
func (s *Store) Resize(ctx context.Context, shards int) error {
	if shards < 1 || shards > slots {
		return outbox.ErrInvalidConfig.With("shards", fmt.Sprintf("must be between 1 and %d, got %d", slots, shards))
	}
	err := s.write(ctx, operatorPatience, func(ctx context.Context, tx *sql.Tx) error {
		return resize{s, tx, shards}.run(ctx)
	})
	return s.explain("resize", err)
}

// slots is how many slots there are to divide.
const slots = 256

// resize is one change of the number of shards.
type resize struct {
	s      *Store
	tx     *sql.Tx
	shards int
}

func (r resize) run(ctx context.Context) error {
	leases, err := r.s.lockLeases(ctx, r.tx)
	if err != nil || len(leases) == r.shards {
		return err
	}
	var epoch, nudge int64
	low := leases[0].low
	draining := map[int]bool{}
	for _, l := range leases {
		if l.held {
			return outbox.ErrLeaseHeld
		}
		epoch, nudge, low = max(epoch, l.epoch), max(nudge, l.nudge), min(low, l.low)
		draining[l.shard] = l.draining
	}
	if err := exec(ctx, r.tx, r.s.sql.DropLeases); err != nil {
		return err
	}
	for shard := range r.shards {
		err := exec(ctx, r.tx, r.s.sql.InsertLease, shard, r.from(shard), r.from(shard+1)-1, epoch+1, low, nudge+1)
		if err != nil {
			return err
		}
	}
	return r.splitBatches(ctx, epoch, draining)
}

// from is the first slot of a shard.
func (r resize) from(shard int) int { return shard * slots / r.shards }

// shard is the shard of a slot.
func (r resize) shard(slot int) int {
	shard := slot * r.shards / slots
	for r.from(shard+1) <= slot { // integer division rounds both ways
		shard++
	}
	return shard
}

// A lockedLease is a row of lock_leases.sql.
type lockedLease struct {
	shard             int
	epoch, low, nudge int64
	draining, held    bool
}

// lockLeases locks every lease, in the order of shards.
func (s *Store) lockLeases(ctx context.Context, tx *sql.Tx) ([]lockedLease, error) {
	var leases []lockedLease
	err := each(ctx, tx, func(rows *sql.Rows) error {
		var l lockedLease
		err := rows.Scan(&l.shard, &l.epoch, &l.low, &l.nudge, &l.draining, &l.held)
		leases = append(leases, l)
		return err
	}, s.sql.LockLeases)
	if err == nil && len(leases) == 0 {
		err = outbox.ErrSchema.With("table", fmt.Sprintf("%s has no leases: run `outbox migrate down` and `up`", s.cfg.Table))
	}
	return leases, err
}

// A movedBatch is a row of all_batches.sql.
type movedBatch struct {
	shard                      int
	ids                        []int64
	crashes                    int
	inFlight, solo, lost, beat bool
	recordedAt, server         int64
}

// splitBatches moves every batch to the shards its messages belong to now. All of them
// get the old highest epoch and numbers of their own.
func (r resize) splitBatches(ctx context.Context, epoch int64, draining map[int]bool) error {
	batches, err := r.batches(ctx)
	if err != nil || len(batches) == 0 {
		return err
	}
	if err := exec(ctx, r.tx, r.s.sql.DropBatches); err != nil {
		return err
	}
	slotOf, err := r.slots(ctx, batches)
	if err != nil {
		return err
	}
	no := int64(0)
	for _, b := range batches {
		parts := make([][]int64, r.shards)
		for _, id := range b.ids {
			if slot, ok := slotOf[id]; ok {
				shard := r.shard(slot)
				parts[shard] = append(parts[shard], id)
			}
		}
		var beat any
		if b.beat {
			beat = moment(b.recordedAt)
		}
		for shard, ids := range parts {
			if len(ids) == 0 {
				continue
			}
			no++
			err := exec(ctx, r.tx, r.s.sql.InsertBatch, shard, epoch, no, encodeRuns(ids), b.crashes,
				b.inFlight && !draining[b.shard], b.solo, b.lost, beat, moment(b.recordedAt), moment(b.server))
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (r resize) batches(ctx context.Context) ([]movedBatch, error) {
	var list []movedBatch
	err := each(ctx, r.tx, func(rows *sql.Rows) error {
		var b movedBatch
		var runs string
		err := rows.Scan(&b.shard, &runs, &b.crashes, &b.inFlight, &b.solo, &b.lost, &b.beat, &b.recordedAt, &b.server)
		if err == nil {
			b.ids, err = decodeRuns(runs)
		}
		list = append(list, b)
		return err
	}, r.s.sql.AllBatches)
	return list, err
}

func (r resize) slots(ctx context.Context, batches []movedBatch) (map[int64]int, error) {
	slotOf := map[int64]int{}
	for _, b := range batches {
		err := inSlices(b.ids, func(ids []int64) error {
			return each(ctx, r.tx, func(rows *sql.Rows) error {
				var id int64
				var slot int
				err := rows.Scan(&id, &slot)
				slotOf[id] = slot
				return err
			}, r.s.sql.SlotsOf, ids)
		})
		if err != nil {
			return nil, err
		}
	}
	return slotOf, nil
}
