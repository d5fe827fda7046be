package relay

import (
	"math/rand/v2"
	"time"
)

const backoffBase = 20 * time.Millisecond

// backoff spaces the retries of a database that is down: capped, with full jitter,
// so that a fleet does not return as one.
type backoff struct {
	max time.Duration
	n   int
}

func (b *backoff) next() time.Duration {
	d := backoffBase
	for range b.n {
		if d >= b.max {
			break
		}
		d *= 2
	}
	b.n++
	d = max(min(d, b.max), backoffBase)
	return d/2 + rand.N(d/2)
}

func (b *backoff) reset() { b.n = 0 }
