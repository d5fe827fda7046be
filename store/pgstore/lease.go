package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/go-outbox/outbox"
)

// lease is the right to relay one shard.
type lease struct {
	s   *Store
	sql *statements
	traits
	info    outbox.LeaseInfo
	owner   pgtype.UUID
	ttl     time.Duration
	started time.Time // of the server: part of the fence
	excused bool      // the previous owner's crash is no crash
	seen    scanner
	mean    int  // bytes per payload in the last page
	backlog bool // the last page was full

	// Of a verbatim table.
	trail    trail
	flight   flight
	versions versioner
}

var _ outbox.Lease = (*lease)(nil)

// Acquire takes a lease that is free or has expired, with a synchronous commit.
func (s *Store) Acquire(ctx context.Context, req outbox.LeaseRequest) (outbox.Lease, error) {
	if !s.fits.Load() {
		if err := s.CheckSchema(ctx); err != nil {
			return nil, fmt.Errorf("acquire: %w", err)
		}
		s.fits.Store(true)
	}
	layout, err := s.layout(ctx, s.pool)
	if err != nil {
		return nil, s.explain("acquire", err)
	}
	l := &lease{s: s, sql: &layout.sql, traits: layout.traits, owner: pgUUID(uuid.New()), ttl: req.TTL, flight: newFlight()}
	if err := l.acquire(ctx, req); err != nil {
		return nil, s.explain("acquire", err)
	}
	return l, nil
}

func (l *lease) acquire(ctx context.Context, req outbox.LeaseRequest) error {
	server, err := l.s.server(ctx, l.sql)
	if err != nil {
		return err
	}
	l.started = server.started
	args := []any{l.owner, req.Instance, req.TTL.Microseconds(), server.system, server.timeline}
	err = l.take(ctx, l.sql.Acquire, req.Instance, args...)
	if errors.Is(err, pgx.ErrNoRows) {
		// Most often there is nothing to wait for, and this returns at once.
		err = l.take(ctx, l.sql.AcquireWait, req.Instance, append(args, l.timeout())...)
	}
	if unknown(err) {
		err = l.find(ctx, req.Instance, err)
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows), code(err) == lockTimeout:
		return outbox.ErrLeaseHeld
	case err != nil:
		return err
	}
	err = l.s.pool.QueryRow(ctx, l.sql.Situation, l.s.mode).Scan(&l.info.Top, &l.info.Shards, &l.info.Paused, &l.info.PausedRoutes)
	if err != nil {
		l.giveBack(ctx)
	}
	l.info.Gapless = l.verbatim // it finds what commits late by other means; see trail
	return err
}

// find looks for the lease after an acquisition whose answer was lost. A caller who
// has gone meanwhile does not want it any more.
func (l *lease) find(ctx context.Context, instance string, cause error) error {
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), detachedTimeout)
	defer cancel()
	if l.take(detached, l.sql.Acquired, instance, l.owner) != nil {
		return cause
	}
	if ctx.Err() != nil {
		l.giveBack(ctx)
		return cause
	}
	return nil
}

// detachedTimeout bounds what is done for a caller whose context has ended.
const detachedTimeout = 2 * time.Second

// giveBack releases a lease that nobody will use, so that the next need not wait for
// it to expire. It may fail: then it does.
func (l *lease) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), detachedTimeout)
	defer cancel()
	_, _ = l.s.pool.Exec(ctx, l.sql.Release, l.s.mode, l.info.Shard, l.owner, l.info.Epoch, l.timeout(), nil)
}

func (l *lease) take(ctx context.Context, statement, instance string, args ...any) error {
	var previous string
	var draining bool
	row := l.s.pool.QueryRow(ctx, statement, append([]any{l.s.mode}, args...)...)
	i := &l.info
	err := row.Scan(&i.Shard, &i.SlotLo, &i.SlotHi, &i.Epoch, &i.Low, &i.Nudge, &previous, &draining, &i.Takeover)
	l.excused = draining || previous == instance
	return err
}

// server is what tells one database from a restored copy of it.
type server struct {
	started          time.Time
	system, timeline pgtype.Int8 // NULL when this role may not know
}

// server looks at the server and refuses a standby and a restored database.
func (s *Store) server(ctx context.Context, stmts *statements) (server, error) {
	var srv server
	var standby bool
	if err := s.pool.QueryRow(ctx, stmts.Server, s.mode).Scan(&standby, &srv.started); err != nil {
		return srv, err
	}
	if standby {
		return srv, errors.New("the server is in recovery: connect to the primary")
	}
	err := s.pool.QueryRow(ctx, stmts.Identity, s.mode).Scan(&srv.system, &srv.timeline)
	switch {
	case code(err) == noPrivilege:
		return server{started: srv.started}, nil
	case err != nil:
		return srv, err
	}
	var restored bool
	if err := s.pool.QueryRow(ctx, stmts.Restored, s.mode, srv.system, srv.timeline).Scan(&restored); err != nil {
		return srv, err
	}
	if restored {
		return srv, outbox.ErrRestored.With("", "the leases of "+s.cfg.Table+" were last held on another database or a later timeline: "+
			"compare what consumers have seen, then confirm the restore")
	}
	return srv, nil
}

// ConfirmRestore lets relays work a restored database. Messages that were published
// after the backup will be published again.
func (s *Store) ConfirmRestore(ctx context.Context, actor, reason string) error {
	if actor == "" || reason == "" {
		return outbox.ErrInvalidConfig.With("reason", "and actor are required")
	}
	l, err := s.layout(ctx, s.pool)
	if err == nil {
		_, err = s.pool.Exec(ctx, l.sql.ConfirmRestore, s.mode, actor, reason)
	}
	return s.explain("confirm restore", err)
}

func (l *lease) Info() outbox.LeaseInfo { return l.info }

func (l *lease) Renew(ctx context.Context, r outbox.Renewal) (outbox.Renewed, error) {
	var renewed outbox.Renewed
	err := again(func() error {
		return l.s.pool.QueryRow(ctx, l.sql.Renew, l.fenced(l.ttl.Microseconds(), r.Low, r.Draining)...).
			Scan(&renewed.Nudge, &renewed.Paused, &renewed.PausedRoutes)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		err = l.lost(ctx)
	}
	return renewed, l.s.explain("renew", err)
}

func (l *lease) Release(ctx context.Context, low int64) error {
	tag, err := l.s.pool.Exec(ctx, l.sql.Release, l.s.mode, l.info.Shard, l.owner, l.info.Epoch, l.timeout(), low)
	if err == nil && tag.RowsAffected() == 0 {
		err = outbox.ErrLeaseLost
	}
	return l.s.explain("release", err)
}

// fenced are the parameters of a fenced statement: what the fence compares, its
// lock timeout, and args.
func (l *lease) fenced(args ...any) []any {
	return append([]any{l.s.mode, l.info.Shard, l.owner, l.info.Epoch, l.started, l.timeout()}, args...)
}

// timeout is a third of the lease, for waits inside the server.
func (l *lease) timeout() string {
	return strconv.FormatInt(max(l.ttl.Milliseconds()/3, 1), 10)
}

// lost is ErrLeaseLost. When the fence failed only because the server has started
// anew, the row still has this owner: it is given back, so that the next
// acquisition need not wait for it to expire.
func (l *lease) lost(ctx context.Context) error {
	var standby bool
	var started time.Time
	err := l.s.pool.QueryRow(ctx, l.sql.Server, l.s.mode).Scan(&standby, &started)
	if err != nil || started.Equal(l.started) {
		return outbox.ErrLeaseLost
	}
	l.giveBack(ctx)
	return outbox.ErrLeaseLost.With("", "the database server was restarted; what this lease knew may not be true any more")
}

// inFence runs fn in a transaction that holds the lease row.
func (l *lease) inFence(ctx context.Context, fn func(tx pgx.Tx) error) error {
	err := pgx.BeginFunc(ctx, l.s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, l.sql.Timeouts, l.s.mode, l.timeout()); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, l.sql.Fence, l.s.mode, l.info.Shard, l.owner, l.info.Epoch, l.started)
		switch {
		case err != nil:
			return err
		case tag.RowsAffected() == 0:
			return errNotHeld
		}
		return fn(tx)
	})
	if errors.Is(err, errNotHeld) {
		return l.lost(ctx)
	}
	return err
}

var errNotHeld = errors.New("lease not held")

func (l *lease) Heads(ctx context.Context, after int64, limit int) ([]outbox.Head, error) {
	var heads []outbox.Head
	err := again(func() error {
		return pgx.BeginFunc(ctx, l.s.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, l.sql.Planner, l.s.mode); err != nil {
				return err
			}
			rows, err := tx.Query(ctx, l.sql.Heads, l.s.mode, max(after, 0), limit, l.info.SlotLo, l.info.SlotHi,
				l.info.Shard, l.owner, l.info.Epoch)
			if err != nil {
				return err
			}
			heads, err = pgx.CollectRows(rows, pgx.RowToStructByPos[outbox.Head])
			return err
		})
	})
	switch {
	case err != nil:
		return nil, l.s.explain("read heads", err)
	case len(heads) == 0 || !heads[0].Dead:
		return nil, l.s.explain("read heads", outbox.ErrLeaseLost)
	}
	return heads[1:], nil
}
