package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

// Acquire takes the lease of the table's one shard. The first call checks the schema.
func (s *Store) Acquire(ctx context.Context, req outbox.LeaseRequest) (outbox.Lease, error) {
	if err := s.ready(ctx); err != nil {
		return nil, fmt.Errorf("acquire: %w", err)
	}
	l := &lease{store: s, owner: uuid.NewString(), instance: req.Instance, ttl: req.TTL}
	err := s.write(ctx, func(ctx context.Context, conn *sql.Conn) error { return l.take(ctx, conn) })
	if err != nil {
		return nil, fmt.Errorf("acquire: %w", err)
	}
	// Top is read after the commit: nothing may be read in the transaction that
	// acquires, or it could predate the last write of the former owner.
	err = s.read(ctx, func(ctx context.Context, conn *sql.Conn) error {
		if err := conn.QueryRowContext(ctx, s.sql.Top).Scan(&l.info.Top); err != nil {
			return err
		}
		l.info.Paused, l.info.PausedRoutes, err = s.stopped(ctx, conn)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("acquire: %w", err)
	}
	return l, nil
}

// A lease is an outbox.Lease. It holds no connection, only the owner token and the
// epoch that fence its writes.
type lease struct {
	store *Store
	owner string
	ttl   time.Duration
	info  outbox.LeaseInfo
	// instance is the process that holds the lease. former is the epoch before,
	// whose owner was stopping if drained.
	instance string
	former   int64
	drained  bool
}

// take takes the lease if it is free or has expired.
func (l *lease) take(ctx context.Context, conn *sql.Conn) error {
	var owner string
	var expires int64
	info := outbox.LeaseInfo{Shards: 1, Gapless: true}
	err := conn.QueryRowContext(ctx, l.store.sql.Lease).Scan(&owner, &l.former, &expires, &l.drained,
		&info.Nudge, &info.Low, &info.SlotLo, &info.SlotHi)
	if err != nil {
		return err
	}
	now := l.store.now()
	if owner != "" && expires >= now {
		return outbox.ErrLeaseHeld
	}
	info.Epoch, info.Takeover = l.former+1, owner != ""
	l.info = info
	return exec(ctx, conn, l.store.sql.Acquire, l.owner, l.instance, now+l.ttl.Microseconds())
}

// Info describes the lease.
func (l *lease) Info() outbox.LeaseInfo { return l.info }

// write runs fn in a fenced write transaction.
func (l *lease) write(ctx context.Context, fn func(context.Context, *sql.Conn) error) error {
	return l.store.write(ctx, l.fenced(fn))
}

// read runs fn on one snapshot, in which the lease is still held.
func (l *lease) read(ctx context.Context, fn func(context.Context, *sql.Conn) error) error {
	return l.store.read(ctx, l.fenced(fn))
}

func (l *lease) fenced(fn func(context.Context, *sql.Conn) error) func(context.Context, *sql.Conn) error {
	return func(ctx context.Context, conn *sql.Conn) error {
		var held bool
		if err := conn.QueryRowContext(ctx, l.store.sql.Fence, l.owner, l.info.Epoch).Scan(&held); err != nil {
			return err
		}
		if !held {
			return outbox.ErrLeaseLost
		}
		return fn(ctx, conn)
	}
}

// Renew extends the lease.
func (l *lease) Renew(ctx context.Context, r outbox.Renewal) (outbox.Renewed, error) {
	var renewed outbox.Renewed
	err := l.write(ctx, func(ctx context.Context, conn *sql.Conn) error {
		err := conn.QueryRowContext(ctx, l.store.sql.Renew, l.owner, l.info.Epoch,
			l.store.now()+l.ttl.Microseconds(), r.Low, r.Draining).Scan(&renewed.Nudge)
		if err != nil {
			return err
		}
		renewed.Paused, renewed.PausedRoutes, err = l.store.stopped(ctx, conn)
		return err
	})
	if err != nil {
		return outbox.Renewed{}, fmt.Errorf("renew: %w", err)
	}
	return renewed, nil
}

// Release gives the lease back.
func (l *lease) Release(ctx context.Context, low int64) error {
	err := l.write(ctx, func(ctx context.Context, conn *sql.Conn) error {
		return exec(ctx, conn, l.store.sql.Release, l.owner, l.info.Epoch, low)
	})
	if err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return nil
}

// stopped reports what an operator has paused: the table, or some routes.
func (s *Store) stopped(ctx context.Context, conn *sql.Conn) (table bool, routes []string, err error) {
	paused, err := s.paused(ctx, conn)
	for _, p := range paused {
		if p.Route == "" {
			table = true
		} else {
			routes = append(routes, p.Route)
		}
	}
	return table, routes, err
}

func (s *Store) paused(ctx context.Context, conn *sql.Conn) ([]outbox.PausedRoute, error) {
	var paused []outbox.PausedRoute
	err := each(ctx, conn, func(rows *sql.Rows) error {
		var p outbox.PausedRoute
		var at int64
		err := rows.Scan(&p.Route, &at, &p.By, &p.Reason)
		p.At = moment(at)
		paused = append(paused, p)
		return err
	}, s.sql.Paused)
	return paused, err
}
