package outbox

import "time"

// Status is the derived state of a message. It is never stored.
type Status string

const (
	// StatusPending means: waiting for its first dispatch.
	StatusPending Status = "pending"
	// StatusScheduled means: not due yet, never tried.
	StatusScheduled Status = "scheduled"
	// StatusInFlight means: recorded in a relay's batch.
	StatusInFlight Status = "in_flight"
	// StatusRetrying means: failed at least once, will be tried again.
	StatusRetrying Status = "retrying"
	// StatusPublished means: acknowledged.
	StatusPublished Status = "published"
	// StatusDead means: given up, with a reason.
	StatusDead Status = "dead"
	// StatusDiscarded means: given up by a person.
	StatusDiscarded Status = "discarded"
)

// DeadDiscarded is the dead_reason of a discarded message: an end state of its own,
// outside the dead counts.
const DeadDiscarded = "discarded"

// Statuses lists every status in the order of a message's life.
var Statuses = []Status{
	StatusPending, StatusScheduled, StatusInFlight, StatusRetrying, StatusPublished, StatusDead, StatusDiscarded,
}

// Status derives the state of a record as of now (the database's clock). It is the
// one definition; each store's view computes the same in SQL.
func (r *Record) Status(now time.Time) Status {
	switch {
	case !r.PublishedAt.IsZero():
		return StatusPublished
	case !r.DeadAt.IsZero() && r.DeadReason == DeadDiscarded:
		return StatusDiscarded
	case !r.DeadAt.IsZero():
		return StatusDead
	case r.InFlight:
		return StatusInFlight
	case r.Attempts > 0:
		return StatusRetrying
	case r.AvailableAt.After(now):
		return StatusScheduled
	default:
		return StatusPending
	}
}
