package mysqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/bulk"
)

// Stats counts, at a cost that outbox.CountCap bounds.
func (s *Store) Stats(ctx context.Context) (outbox.Stats, error) {
	stats := outbox.Stats{Table: s.cfg.Table}
	err := s.snapshot(ctx, func(ctx context.Context, tx *sql.Tx) error {
		v := inspection{s, tx}
		now, err := v.now(ctx)
		if err != nil {
			return err
		}
		stats.Now = now
		for _, part := range []func(context.Context, *outbox.Stats) error{v.counts, v.inFlight, v.leases, v.relays, v.paused} {
			if err := part(ctx, &stats); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return outbox.Stats{}, s.explain("read stats", err)
	}
	return stats, nil
}

// An inspection is one look at the store.
type inspection struct {
	s  *Store
	tx *sql.Tx
}

func (v inspection) now(ctx context.Context) (time.Time, error) {
	var now int64
	err := one(ctx, v.tx, []any{&now}, v.s.sql.Now)
	return moment(now), err
}

func (v inspection) counts(ctx context.Context, st *outbox.Stats) error {
	limit := v.s.countCap
	var fresh, held, looked int
	var oldestFresh, oldestHeld int64
	for _, q := range []struct {
		statement string
		dest      []any
	}{
		{v.s.sql.CountFresh, []any{&fresh, &oldestFresh, &looked}},
		{v.s.sql.CountHeld, []any{&held, &st.Retrying, &st.Scheduled, &oldestHeld}},
		{v.s.sql.CountDead, []any{&st.Dead, &st.Discarded}},
	} {
		if err := one(ctx, v.tx, q.dest, q.statement, limit); err != nil {
			return err
		}
	}
	st.Pending = min(fresh+held, limit)
	st.Capped = looked >= limit || fresh+held >= limit || st.Dead+st.Discarded >= limit
	for _, at := range []int64{oldestFresh, oldestHeld} {
		if at != 0 {
			st.OldestPending = max(st.OldestPending, st.Now.Sub(moment(at)))
		}
	}
	return nil
}

// inFlight counts what the batches hold. A message in flight is not retrying.
func (v inspection) inFlight(ctx context.Context, st *outbox.Stats) error {
	recorded, err := v.recorded(ctx)
	if err != nil {
		return err
	}
	return inSlices(sortedKeys(recorded), func(ids []int64) error {
		return each(ctx, v.tx, func(rows *sql.Rows) error {
			var id, at, attempts int64
			if err := rows.Scan(&id, &at, &attempts); err != nil {
				return err
			}
			if at > recorded[id].at {
				return nil
			}
			st.InFlight++
			if attempts > 0 {
				st.Retrying = max(st.Retrying-1, 0)
			}
			return nil
		}, v.s.sql.Unsettled, ids)
	})
}

// A flight is where and since when a message that is listed in a batch was recorded.
type flight struct {
	at       int64
	instance string
}

// recorded is the last flight of each message that is listed in a batch.
func (v inspection) recorded(ctx context.Context) (map[int64]flight, error) {
	recorded := map[int64]flight{}
	err := each(ctx, v.tx, func(rows *sql.Rows) error {
		var runs string
		var f flight
		if err := rows.Scan(&runs, &f.at, &f.instance); err != nil {
			return err
		}
		ids, err := decodeRuns(runs)
		for _, id := range ids {
			if f.at >= recorded[id].at {
				recorded[id] = f
			}
		}
		return err
	}, v.s.sql.Batches)
	return recorded, err
}

func sortedKeys(m map[int64]flight) []int64 { return slices.Sorted(maps.Keys(m)) }

func (v inspection) leases(ctx context.Context, st *outbox.Stats) error {
	return each(ctx, v.tx, func(rows *sql.Rows) error {
		var l outbox.LeaseState
		var expires int64
		err := rows.Scan(&l.Shard, &l.Instance, &l.Epoch, &expires, &l.Held, &l.Draining, &l.SlotLo, &l.SlotHi, &l.Low, &l.Batches)
		l.ExpiresAt = moment(expires)
		st.Leases = append(st.Leases, l)
		return err
	}, v.s.sql.Leases)
}

func (v inspection) relays(ctx context.Context, st *outbox.Stats) error {
	return each(ctx, v.tx, func(rows *sql.Rows) error {
		var r outbox.RelayState
		var seen int64
		var note string
		err := rows.Scan(&r.Instance, &r.Version, &seen, &r.Live, &note)
		r.SeenAt, r.Note = moment(seen), bulk.DecodeNote(note)
		st.Relays = append(st.Relays, r)
		return err
	}, v.s.sql.Relays)
}

func (v inspection) paused(ctx context.Context, st *outbox.Stats) (err error) {
	st.Paused, err = v.s.paused(ctx, v.tx)
	return err
}

// listScan is how many rows one page of List may look at, and listStep how many at once.
const (
	listScan = 50_000
	listStep = 2_000
)

// List returns a page of messages without payloads. A page may be short, even empty, and
// still have a Next: then the filter matched little of what it was allowed to look at.
func (s *Store) List(ctx context.Context, f outbox.Filter) (outbox.List, error) {
	var list outbox.List
	err := s.snapshot(ctx, func(ctx context.Context, tx *sql.Tx) error {
		v := inspection{s, tx}
		now, err := v.now(ctx)
		if err != nil {
			return err
		}
		recorded, err := v.recorded(ctx)
		if err != nil {
			return err
		}
		p := lister{inspection: v, filter: f, recorded: recorded, list: outbox.List{Now: now}}
		err = p.run(ctx)
		list = p.list
		return err
	})
	if err != nil {
		return outbox.List{}, s.explain("list", err)
	}
	return list, nil
}

// A lister fills one page of a list.
type lister struct {
	inspection
	filter   outbox.Filter
	recorded map[int64]flight
	list     outbox.List
}

// run looks at one slice after the other, in order, until the page is full.
func (p *lister) run(ctx context.Context) error {
	after, before := p.filter.After, p.filter.Before
	if before <= 0 {
		before = math.MaxInt64
	}
	size := p.filter.PageSize() + 1
	for looked := 0; looked < listScan; size = min(4*size, listStep) {
		records, err := p.slice(ctx, after, before, size)
		if err != nil {
			return err
		}
		routes, err := p.routes(ctx, p.filter, records)
		if err != nil {
			return err
		}
		for _, r := range records {
			if !p.filter.Matches(r, routes[r.Sequence], p.list.Now) {
				continue
			}
			if n := len(p.list.Records); n == p.filter.PageSize() {
				p.list.Next = p.list.Records[n-1].Sequence
				return nil
			}
			p.list.Records = append(p.list.Records, r)
		}
		if len(records) < size {
			return nil
		}
		looked += len(records)
		p.list.Next = records[len(records)-1].Sequence
		if p.filter.OldestFirst {
			after = p.list.Next
		} else {
			before = p.list.Next
		}
	}
	return nil
}

// slice reads from the smallest set that holds every message of the status.
func (p *lister) slice(ctx context.Context, after, before int64, size int) ([]*outbox.Record, error) {
	all, held := p.s.sql.ListDesc, p.s.sql.ListHeldDesc
	if p.filter.OldestFirst {
		all, held = p.s.sql.ListAsc, p.s.sql.ListHeldAsc
	}
	switch p.filter.Status {
	case outbox.StatusRetrying, outbox.StatusScheduled:
		return p.shown(ctx, held, after, before, size, 1)
	case outbox.StatusDead, outbox.StatusDiscarded:
		return p.shown(ctx, held, after, before, size, 2)
	case outbox.StatusInFlight:
		return p.recordedSlice(ctx, after, before, size)
	default:
		return p.shown(ctx, all, after, before, size)
	}
}

// recordedSlice reads what is listed in batches and still exists.
func (p *lister) recordedSlice(ctx context.Context, after, before int64, size int) ([]*outbox.Record, error) {
	var ids []int64
	for _, id := range sortedKeys(p.recorded) {
		if id > after && id < before {
			ids = append(ids, id)
		}
	}
	if !p.filter.OldestFirst {
		slices.Reverse(ids)
	}
	var records []*outbox.Record
	err := inSlices(ids[:min(len(ids), listScan)], func(ids []int64) error {
		part, err := p.shown(ctx, p.s.sql.Summaries, ids)
		records = append(records, part...)
		return err
	})
	slices.SortFunc(records, func(a, b *outbox.Record) int {
		if p.filter.OldestFirst {
			return bySequence(a, b)
		}
		return bySequence(b, a)
	})
	return records[:min(len(records), size)], err
}

func (p *lister) shown(ctx context.Context, statement string, args ...any) ([]*outbox.Record, error) {
	records, err := p.s.shown(ctx, p.tx, statement, args...)
	for _, r := range records {
		mark(r, p.recorded)
	}
	return records, err
}

// routes are where the last recorded attempts went, as far as the filter asks for it.
func (v inspection) routes(ctx context.Context, f outbox.Filter, records []*outbox.Record) (map[int64]string, error) {
	if f.Route == "" {
		return nil, nil
	}
	return v.lastRoutes(ctx, records)
}

func (v inspection) lastRoutes(ctx context.Context, records []*outbox.Record) (map[int64]string, error) {
	ids := make([]int64, len(records))
	for i, r := range records {
		ids[i] = r.Sequence
	}
	routes := map[int64]string{}
	err := inSlices(ids, func(ids []int64) error {
		return each(ctx, v.tx, func(rows *sql.Rows) error {
			var id int64
			var route string
			err := rows.Scan(&id, &route)
			routes[id] = route
			return err
		}, v.s.sql.LastRoutes, ids)
	})
	return routes, err
}

// mark says whether a message is in flight: open, recorded in a batch and not put back
// since.
func mark(r *outbox.Record, recorded map[int64]flight) {
	f, ok := recorded[r.Sequence]
	r.InFlight = ok && r.PublishedAt.IsZero() && r.DeadAt.IsZero() && r.AvailableAt.UnixMicro() <= f.at
}

// shown reads messages for people.
func (s *Store) shown(ctx context.Context, q querier, statement string, args ...any) ([]*outbox.Record, error) {
	var records []*outbox.Record
	var sc scanner
	err := each(ctx, q, func(rows *sql.Rows) error {
		if err := sc.readShown(rows); err != nil {
			return err
		}
		records = append(records, sc.record())
		return nil
	}, statement, args...)
	return records, err
}

// Get returns one message with its payload.
func (s *Store) Get(ctx context.Context, id uuid.UUID) (*outbox.Record, error) {
	var rec *outbox.Record
	err := s.snapshot(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		rec, err = inspection{s, tx}.get(ctx, id)
		return err
	})
	return rec, s.explain("get", err)
}

func (v inspection) get(ctx context.Context, id uuid.UUID) (*outbox.Record, error) {
	records, err := v.s.shown(ctx, v.tx, v.s.sql.Get, id.String())
	if err != nil {
		return nil, err
	}
	if len(records) == 0 {
		return nil, outbox.ErrNotFound.With("event_id", fmt.Sprintf("%s is not in %s", id, v.s.cfg.Table))
	}
	recorded, err := v.recorded(ctx)
	rec := records[0]
	mark(rec, recorded)
	if rec.InFlight {
		f := recorded[rec.Sequence]
		rec.Flight = &outbox.Flight{Instance: f.instance, Since: moment(f.at)}
	}
	return rec, err
}

// Attempts returns the history of a message, newest first.
func (s *Store) Attempts(ctx context.Context, sequence int64) ([]outbox.Attempt, error) {
	var attempts []outbox.Attempt
	err := s.snapshot(ctx, func(ctx context.Context, tx *sql.Tx) error {
		return each(ctx, tx, func(rows *sql.Rows) error {
			var a outbox.Attempt
			var at, took int64
			err := rows.Scan(&at, &a.Attempt, &a.Route, &a.Outcome, &a.Error, &took)
			a.At, a.Took = moment(at), time.Duration(took)*time.Microsecond
			attempts = append(attempts, a)
			return err
		}, s.sql.Attempts, sequence)
	})
	return attempts, s.explain("read attempts", err)
}
