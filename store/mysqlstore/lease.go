package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

// A lease is an outbox.Lease. It holds no connection, only the owner token and the epoch
// that fence its writes.
type lease struct {
	store   *Store
	owner   string
	ttl     time.Duration
	info    outbox.LeaseInfo
	server  int64     // @@server_id: another one has another past
	excused bool      // the previous owner's crash is no crash
	started time.Time // when the server was started, by its own clock
	uptime  uptime
	seen    scanner
	mean    int // bytes per payload in the last page
}

var _ outbox.Lease = (*lease)(nil)

// Acquire takes a lease that is free or has expired. The first call checks the schema.
func (s *Store) Acquire(ctx context.Context, req outbox.LeaseRequest) (outbox.Lease, error) {
	if err := s.ready(ctx); err != nil {
		return nil, s.explain("acquire", err)
	}
	l := &lease{store: s, owner: uuid.NewString(), ttl: req.TTL}
	err := s.write(ctx, l.patience(), func(ctx context.Context, tx *sql.Tx) error { return l.take(ctx, tx, req.Instance) })
	if err == nil {
		err = l.look(ctx)
	}
	if err != nil {
		l.giveBack(ctx) // the commit may have happened all the same
		return nil, s.explain("acquire", err)
	}
	return l, nil
}

// take takes a lease in a transaction that then is committed. It reads nothing else:
// what the former owner wrote last is seen by transactions that begin later.
func (l *lease) take(ctx context.Context, tx *sql.Tx, instance string) error {
	shard, err := l.find(ctx, tx)
	if err != nil {
		return err
	}
	var free bool
	var previous string
	var draining bool
	i := outbox.LeaseInfo{Shard: shard}
	err = one(ctx, tx, []any{&free, &i.SlotLo, &i.SlotHi, &i.Epoch, &i.Low, &i.Nudge, &previous, &draining, &l.server, &i.Takeover},
		l.store.sql.Lease, shard)
	// Taken or resized while we waited, or somebody writes under it for longer than we do.
	if errors.Is(err, sql.ErrNoRows) || err == nil && !free || number(err) == lockWaitTimeout {
		return outbox.ErrLeaseHeld
	}
	if err != nil {
		return err
	}
	i.Epoch++
	l.info = i
	l.excused = draining || previous == instance
	return exec(ctx, tx, l.store.sql.Acquire, shard, l.owner, instance, l.ttl.Microseconds())
}

// find finds a lease that can be taken. One that somebody has locked at the moment is
// worth waiting for when there is no other.
func (l *lease) find(ctx context.Context, tx *sql.Tx) (shard int, err error) {
	for _, statement := range []string{l.store.sql.Free, l.store.sql.Busy} {
		err = one(ctx, tx, []any{&shard}, statement)
		if !errors.Is(err, sql.ErrNoRows) {
			return shard, err
		}
	}
	return 0, outbox.ErrLeaseHeld
}

// look reads what a new owner needs to know.
func (l *lease) look(ctx context.Context) error {
	return l.store.snapshot(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		if l.uptime, err = l.store.uptime(ctx, tx); err != nil {
			return err
		}
		var now int64
		if err := one(ctx, tx, []any{&l.info.Top, &l.info.Shards, &now}, l.store.sql.Situation); err != nil {
			return err
		}
		l.started = moment(now).Add(-l.uptime.value)
		l.info.Paused, l.info.PausedRoutes, err = l.store.stopped(ctx, tx)
		return err
	})
}

// giveBack frees a lease that nobody will use, so that the next need not wait for it to
// expire. It may fail: then it does.
func (l *lease) giveBack(ctx context.Context) {
	if l.info.Epoch == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), detachedTimeout)
	defer cancel()
	_ = l.store.write(ctx, time.Second, func(ctx context.Context, tx *sql.Tx) error {
		return exec(ctx, tx, l.store.sql.GiveBack, l.info.Shard, l.owner)
	})
}

// Info describes the lease.
func (l *lease) Info() outbox.LeaseInfo { return l.info }

// patience is a third of the lease, for waits inside the server.
func (l *lease) patience() time.Duration { return l.ttl / 3 }

// held is what the fence found.
type held struct {
	now time.Time
	// floor is later than any batch of the shard was recorded: clocks may be coarse or
	// step back.
	floor time.Time
}

// fenced runs fn in a transaction that holds the lease row.
func (l *lease) fenced(ctx context.Context, fn func(context.Context, *sql.Tx, held) error) error {
	return l.store.write(ctx, l.patience(), func(ctx context.Context, tx *sql.Tx) error {
		var mine bool
		var now, recorded, server int64
		err := one(ctx, tx, []any{&mine, &now, &recorded, &server}, l.store.sql.Fence, l.info.Shard, l.owner, l.info.Epoch)
		switch {
		case errors.Is(err, sql.ErrNoRows) || err == nil && !mine:
			return outbox.ErrLeaseLost
		case err != nil:
			return err
		case server != l.server:
			return l.otherServer()
		}
		return fn(ctx, tx, held{now: moment(now), floor: moment(recorded + 1)})
	})
}

// otherServer is the error for a failover: numbers may be given out again there.
func (l *lease) otherServer() error {
	return outbox.ErrLeaseLost.With("", "another database server answers; what this lease knew may not be true there")
}

// Renew extends the lease.
func (l *lease) Renew(ctx context.Context, r outbox.Renewal) (outbox.Renewed, error) {
	var renewed outbox.Renewed
	var restarted bool
	s := l.store
	err := l.fenced(ctx, func(ctx context.Context, tx *sql.Tx, _ held) error {
		up, err := s.uptime(ctx, tx)
		if err != nil {
			return err
		}
		if restarted = up.restartedSince(l.uptime); restarted {
			return exec(ctx, tx, s.sql.GiveBack, l.info.Shard, l.owner)
		}
		if err := exec(ctx, tx, s.sql.Renew, l.info.Shard, l.ttl.Microseconds(), r.Low, r.Draining); err != nil {
			return err
		}
		l.uptime = up
		if err := one(ctx, tx, []any{&renewed.Nudge}, s.sql.Renewed, l.info.Shard); err != nil {
			return err
		}
		renewed.Paused, renewed.PausedRoutes, err = s.stopped(ctx, tx)
		return err
	})
	if err == nil && restarted {
		err = outbox.ErrLeaseLost.With("", "the database server was restarted; what this lease knew may not be true any more")
	}
	return renewed, s.explain("renew", err)
}

// Release gives the lease back.
func (l *lease) Release(ctx context.Context, low int64) error {
	err := l.fenced(ctx, func(ctx context.Context, tx *sql.Tx, _ held) error {
		return exec(ctx, tx, l.store.sql.Release, l.info.Shard, low)
	})
	return l.store.explain("release", err)
}

// uptime is how long a server has been running, and when we asked.
type uptime struct {
	value time.Duration
	asked time.Time
}

func (s *Store) uptime(ctx context.Context, q querier) (uptime, error) {
	var name string
	var seconds int64
	err := one(ctx, q, []any{&name, &seconds}, s.sql.Uptime)
	return uptime{time.Duration(seconds) * time.Second, time.Now()}, err
}

// restartedSince reports whether the server has not been running all the time since. The
// server counts whole seconds.
func (u uptime) restartedSince(then uptime) bool {
	return u.value+2*time.Second < then.value+u.asked.Sub(then.asked)
}

// stopped reports what an operator has paused: the table, or some routes.
func (s *Store) stopped(ctx context.Context, q querier) (table bool, routes []string, err error) {
	paused, err := s.paused(ctx, q)
	for _, p := range paused {
		if p.Route == "" {
			table = true
		} else {
			routes = append(routes, p.Route)
		}
	}
	return table, routes, err
}

func (s *Store) paused(ctx context.Context, q querier) ([]outbox.PausedRoute, error) {
	var paused []outbox.PausedRoute
	err := each(ctx, q, func(rows *sql.Rows) error {
		var p outbox.PausedRoute
		var at int64
		err := rows.Scan(&p.Route, &at, &p.By, &p.Reason)
		p.At = moment(at)
		paused = append(paused, p)
		return err
	}, s.sql.Paused)
	return paused, err
}
