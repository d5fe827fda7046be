package main

import (
	"sync/atomic"

	"github.com/go-outbox/outbox/relay"
)

// relays remembers the running relay, so that a closed loop can wake it instead of
// measuring its poll interval.
type relays struct{ running atomic.Pointer[relay.Relay] }

func (r *relays) set(running *relay.Relay) { r.running.Store(running) }

func (r *relays) wake() {
	if running := r.running.Load(); running != nil {
		running.Wake()
	}
}
