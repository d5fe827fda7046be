//go:build failpoint && steppedclock

package failpoint

import (
	"sync/atomic"
	"time"
	_ "unsafe" // for go:linkname
)

// wallStep is what package time adds to the wall clock, in seconds, in a build with the
// overlay of internal/torture. No other build has the tag.
//
//go:linkname wallStep time.wallStep
var wallStep int64

func stepClock(d time.Duration) error {
	atomic.StoreInt64(&wallStep, int64(d/time.Second))
	return nil
}
