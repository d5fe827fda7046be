package relay

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/go-outbox/outbox"
)

var errDown = errors.New("database is down")

// faulty is a store whose calls can be made to fail: a fake for injecting faults.
// Killed, it never works again, as the connections of a dead process.
type faulty struct {
	outbox.Store
	down atomic.Bool
	// before, when set, runs before each call and may fail it.
	before func(op string) error
}

func (f *faulty) check(op string) error {
	if f.down.Load() {
		return errDown
	}
	if f.before != nil {
		return f.before(op)
	}
	return nil
}

func (f *faulty) Acquire(ctx context.Context, req outbox.LeaseRequest) (outbox.Lease, error) {
	if err := f.check("acquire"); err != nil {
		return nil, err
	}
	lease, err := f.Store.Acquire(ctx, req)
	if err != nil {
		return nil, err
	}
	return &faultyLease{Lease: lease, f: f}, nil
}

type faultyLease struct {
	outbox.Lease
	f *faulty
}

func (l *faultyLease) Recover(ctx context.Context) ([]outbox.Orphan, error) {
	if err := l.f.check("recover"); err != nil {
		return nil, err
	}
	return l.Lease.Recover(ctx)
}

func (l *faultyLease) Heads(ctx context.Context, after int64, limit int) ([]outbox.Head, error) {
	if err := l.f.check("heads"); err != nil {
		return nil, err
	}
	return l.Lease.Heads(ctx, after, limit)
}

func (l *faultyLease) Read(ctx context.Context, req outbox.ReadRequest) (outbox.Page, error) {
	if err := l.f.check("read"); err != nil {
		return outbox.Page{}, err
	}
	return l.Lease.Read(ctx, req)
}

func (l *faultyLease) Step(ctx context.Context, step outbox.Step) error {
	if err := l.f.check("step"); err != nil {
		return err
	}
	return l.Lease.Step(ctx, step)
}

func (l *faultyLease) Renew(ctx context.Context, r outbox.Renewal) (outbox.Renewed, error) {
	if err := l.f.check("renew"); err != nil {
		return outbox.Renewed{}, err
	}
	return l.Lease.Renew(ctx, r)
}

func (l *faultyLease) Release(ctx context.Context, low int64) error {
	if err := l.f.check("release"); err != nil {
		return err
	}
	return l.Lease.Release(ctx, low)
}

// The memory store is a fleet; so is a faulty one.

func (f *faulty) Heartbeat(ctx context.Context, m outbox.Member) (outbox.FleetView, error) {
	if err := f.check("heartbeat"); err != nil {
		return outbox.FleetView{}, err
	}
	return f.Store.(outbox.Fleet).Heartbeat(ctx, m)
}

func (f *faulty) Leave(ctx context.Context, instance string) error {
	if err := f.check("leave"); err != nil {
		return err
	}
	return f.Store.(outbox.Fleet).Leave(ctx, instance)
}

func (f *faulty) Resize(ctx context.Context, shards int) error {
	if err := f.check("resize"); err != nil {
		return err
	}
	return f.Store.(outbox.Fleet).Resize(ctx, shards)
}
