package outbox_test

import (
	"testing"
	"time"

	"github.com/go-outbox/outbox"
)

// Whatever a policy that is accepted says, a wait is never negative, never shorter than
// one after fewer failures, and never longer than the longest plus the jitter.
func FuzzRetryDelay(f *testing.F) {
	f.Add(25, int64(time.Second), int64(time.Minute), int64(200*time.Millisecond), 3, 0.5)
	f.Add(1, int64(1<<62), int64(1<<62+1), int64(1<<62), 1<<30, 0.999)
	f.Add(0, int64(0), int64(0), int64(-1), 0, 0.0)
	f.Fuzz(func(t *testing.T, attempts int, base, longest, jitter int64, failures int, random float64) {
		p := outbox.RetryPolicy{MaxAttempts: attempts, Base: time.Duration(base), Max: time.Duration(longest), Jitter: time.Duration(jitter)}
		if p.Validate() != nil || !(random >= 0 && random < 1) || failures < 0 || failures > 1<<30 {
			t.Skip("refused")
		}
		d := p.Delay(failures, random)
		if d < 0 {
			t.Fatalf("%+v waits %s after %d failures", p, d, failures)
		}
		if more := p.Delay(failures+1, random); more < d {
			t.Errorf("%+v waits %s after %d failures and %s after one more", p, d, failures, more)
		}
		if limit := max(p.Max, outbox.DefaultRetry.Max, p.Base); d-limit > max(p.Jitter, outbox.DefaultRetry.Jitter) {
			t.Errorf("%+v waits %s after %d failures", p, d, failures)
		}
	})
}
