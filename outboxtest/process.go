package outboxtest

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/store/memstore"
)

var (
	_ outbox.Store      = (*process)(nil)
	_ outbox.Fleet      = (*process)(nil)
	_ outbox.Dispatcher = (*process)(nil)
)

// A process stands between one relay and the world, on both sides. After a crash
// nothing gets through any more: the relay that is left behind can neither record what
// it did nor give its lease back.
type process struct {
	*memstore.Store
	courier *courier
	dead    atomic.Bool
}

func (p *process) crashed() bool { return p.dead.Load() }

// Dispatch hands a message to the courier, unless the process has crashed.
func (p *process) Dispatch(ctx context.Context, msg outbox.DispatchedMessage) error {
	if p.crashed() {
		return errCrash
	}
	crash, err := p.courier.dispatch(ctx, msg)
	if crash {
		p.dead.Store(true)
	}
	return err
}

// Acquire takes a lease that ends with the process.
func (p *process) Acquire(ctx context.Context, req outbox.LeaseRequest) (outbox.Lease, error) {
	lease, err := p.Store.Acquire(ctx, req)
	if err != nil {
		return nil, err
	}
	return &mortalLease{Lease: lease, process: p}, nil
}

type mortalLease struct {
	outbox.Lease
	process *process
}

func (l *mortalLease) Step(ctx context.Context, step outbox.Step) error {
	if l.process.crashed() {
		return outbox.ErrLeaseLost
	}
	return l.Lease.Step(ctx, step)
}

func (l *mortalLease) Renew(ctx context.Context, r outbox.Renewal) (outbox.Renewed, error) {
	if l.process.crashed() {
		return outbox.Renewed{}, outbox.ErrLeaseLost
	}
	return l.Lease.Renew(ctx, r)
}

func (l *mortalLease) Release(ctx context.Context, low int64) error {
	if l.process.crashed() {
		return outbox.ErrLeaseLost
	}
	return l.Lease.Release(ctx, low)
}

// clone copies what belongs to the relay.
func clone(msg outbox.DispatchedMessage) outbox.DispatchedMessage {
	msg.Payload = slices.Clone(msg.Payload)
	msg.Meta.Headers = maps.Clone(msg.Meta.Headers)
	return msg
}
