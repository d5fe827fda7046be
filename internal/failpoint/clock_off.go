//go:build failpoint && !steppedclock

package failpoint

import (
	"errors"
	"time"
)

func stepClock(time.Duration) error { return errors.New("built without a clock that can be stepped") }
