package console

import (
	"maps"
	"sync"
	"time"
)

// Bounds of failed logins within failWindow.
const (
	failWindow  = time.Minute
	failsEach   = 5   // by one address
	failsAll    = 100 // by all together
	maxFailures = 4096
)

// A limiter counts failed logins. The sixth attempt of an address within a minute is
// refused before its secret is looked at.
type limiter struct {
	mu    sync.Mutex
	began time.Time // of the global window
	total int
	from  map[string]*failures
}

type failures struct {
	began time.Time
	count int
}

func newLimiter() *limiter { return &limiter{from: make(map[string]*failures)} }

func (l *limiter) allow(from string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.began) <= failWindow && l.total >= failsAll {
		return false
	}
	f := l.from[from]
	return f == nil || now.Sub(f.began) > failWindow || f.count < failsEach
}

func (l *limiter) fail(from string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.began) > failWindow {
		l.began, l.total = now, 0
	}
	l.total++
	f := l.from[from]
	if f == nil || now.Sub(f.began) > failWindow {
		l.forget(now)
		f = &failures{began: now}
		l.from[from] = f
	}
	f.count++
}

// forget keeps the map bounded, whoever tries from wherever.
func (l *limiter) forget(now time.Time) {
	if len(l.from) < maxFailures {
		return
	}
	for from, f := range l.from {
		if now.Sub(f.began) > failWindow {
			delete(l.from, from)
		}
	}
	if len(l.from) >= maxFailures {
		clear(l.from) // the global limit still holds
	}
}

// refusals counts refused requests by reason. Reasons are constants of this package.
type refusals struct {
	mu     sync.Mutex
	counts map[string]int64
}

func newRefusals() *refusals { return &refusals{counts: make(map[string]int64)} }

func (r *refusals) add(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[reason]++
}

func (r *refusals) all() map[string]int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.counts)
}
