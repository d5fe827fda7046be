package relay

import (
	"sync"
	"sync/atomic"
)

// A gate lets a suspect message be dispatched alone in the process: across tables,
// shards and relays, nothing else is in flight meanwhile. Ordinary dispatches pass
// it at the cost of two atomic additions.
type gate struct {
	active atomic.Int64
	closed atomic.Bool // somebody is alone, or waits to be

	mu   sync.Mutex
	cond *sync.Cond
	solo bool
}

// processGate is shared by every relay of the process: what a poison message kills
// is the process.
var processGate = newGate()

func newGate() *gate {
	g := &gate{}
	g.cond = sync.NewCond(&g.mu)
	return g
}

func (g *gate) enter() {
	for {
		g.active.Add(1)
		if !g.closed.Load() {
			return
		}
		g.leave()
		g.mu.Lock()
		for g.closed.Load() {
			g.cond.Wait()
		}
		g.mu.Unlock()
	}
}

func (g *gate) leave() {
	if g.active.Add(-1) == 0 && g.closed.Load() {
		g.mu.Lock()
		g.cond.Broadcast()
		g.mu.Unlock()
	}
}

func (g *gate) enterAlone() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.solo {
		g.cond.Wait()
	}
	g.solo = true
	g.closed.Store(true)
	for g.active.Load() > 0 {
		g.cond.Wait()
	}
}

func (g *gate) leaveAlone() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.solo = false
	g.closed.Store(false)
	g.cond.Broadcast()
}
