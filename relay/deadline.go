package relay

import (
	"context"
	"sync"
	"time"
)

// A deadline is a context that ends at a time, or with its parent. It has no timer
// until somebody waits for it: most dispatches end long before, and at a hundred
// thousand of them a second the timers were a tenth of the relay's own work.
type deadline struct {
	context.Context

	at time.Time

	mu       sync.Mutex
	armed    context.Context
	cancel   context.CancelFunc
	released bool
}

var closed = func() <-chan struct{} {
	ch := make(chan struct{})
	close(ch)
	return ch
}()

func withDeadline(parent context.Context, at time.Time) *deadline {
	return &deadline{Context: parent, at: at}
}

// release ends the context. It must be called.
func (d *deadline) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.released = true
	if d.cancel != nil {
		d.cancel()
	}
}

func (d *deadline) Deadline() (time.Time, bool) {
	if at, ok := d.Context.Deadline(); ok && at.Before(d.at) {
		return at, true
	}
	return d.at, true
}

func (d *deadline) Done() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.armed == nil {
		if d.released {
			return closed
		}
		d.armed, d.cancel = context.WithDeadline(d.Context, d.at)
	}
	return d.armed.Done()
}

func (d *deadline) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.armed != nil:
		return d.armed.Err()
	case d.Context.Err() != nil:
		return d.Context.Err()
	case !time.Now().Before(d.at):
		return context.DeadlineExceeded
	case d.released:
		return context.Canceled
	}
	return nil
}

// Value asks the armed context, so that contexts derived from this one are linked to
// it without a goroutine.
func (d *deadline) Value(key any) any {
	d.mu.Lock()
	armed := d.armed
	d.mu.Unlock()
	if armed != nil {
		return armed.Value(key)
	}
	return d.Context.Value(key)
}
