package relay

import "github.com/go-outbox/outbox/internal/failpoint"

// The places where internal/torture ends or stops the process.
const (
	atStepped    = failpoint.Stepped
	atDispatched = failpoint.Dispatched
	atSettling   = failpoint.Settling
	atRecovered  = failpoint.Recovered
	atPurged     = failpoint.Purged
)

// hit is nothing in an ordinary build.
func hit(place string) { failpoint.Hit(place) }
