package relay

import (
	"time"

	"github.com/go-outbox/outbox"
)

// Hooks are called as the relay works, for metrics, tracing and tests. Every field
// is optional. A hook runs on the goroutine that did the work and must not block;
// new fields may be added.
type Hooks struct {
	// LeaseAcquired and LeaseLost run when a shard begins and ends to be worked
	// by this relay; the error of LeaseLost is nil when it was given back in order.
	LeaseAcquired func(table string, lease outbox.LeaseInfo)
	LeaseLost     func(table string, lease outbox.LeaseInfo, err error)
	// Read runs after each look at the table that found messages; Stepped after
	// each settle.
	Read    func(table string, messages int, took time.Duration)
	Stepped func(table string, outcomes, recorded int, took time.Duration)
	// Dispatched runs when a dispatch has ended, before its outcome is settled: a
	// crash in between is what makes delivery at least once.
	Dispatched func(meta *outbox.Meta, took time.Duration, err error)
	// Settled runs for each outcome once it is durable.
	Settled func(meta *outbox.Meta, outcome outbox.Outcome)
	// Isolated runs when messages of a crashed relay are dispatched in small
	// groups (crashes 1) or alone (2 and more).
	Isolated func(table string, messages, crashes int)
	// Circuit runs when a route's circuit opens or closes in a shard, and for each
	// that is open when the shard is no longer worked here.
	Circuit func(table, route string, open bool)
	// DatabaseError runs for each failed database call.
	DatabaseError func(table string, op string, err error)
	// Purged runs after each purge that deleted something.
	Purged func(table string, result outbox.PurgeResult)
}

// withDefaults fills the hooks that run rarely with functions that do nothing; the
// per-message ones stay nil and are asked for.
func (h Hooks) withDefaults() Hooks {
	if h.LeaseAcquired == nil {
		h.LeaseAcquired = func(string, outbox.LeaseInfo) {}
	}
	if h.LeaseLost == nil {
		h.LeaseLost = func(string, outbox.LeaseInfo, error) {}
	}
	if h.Read == nil {
		h.Read = func(string, int, time.Duration) {}
	}
	if h.Stepped == nil {
		h.Stepped = func(string, int, int, time.Duration) {}
	}
	if h.Isolated == nil {
		h.Isolated = func(string, int, int) {}
	}
	if h.Circuit == nil {
		h.Circuit = func(string, string, bool) {}
	}
	if h.DatabaseError == nil {
		h.DatabaseError = func(string, string, error) {}
	}
	if h.Purged == nil {
		h.Purged = func(string, outbox.PurgeResult) {}
	}
	return h
}
