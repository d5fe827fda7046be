package webhook

import (
	"context"
	"sync"
	"time"
)

// RememberInMemory is a replay guard for [Config].Fresh that keeps the requests of the last
// minutes in the memory of one process: another instance does not know of them. At most
// max are kept; while it is full, it refuses every request, which senders try again.
func RememberInMemory(max int) func(ctx context.Context, request string, until time.Time) (bool, error) {
	m := &memory{max: max, until: map[string]time.Time{}}
	return m.fresh
}

type memory struct {
	mu    sync.Mutex
	max   int
	until map[string]time.Time
	swept time.Time
}

func (m *memory) fresh(_ context.Context, request string, until time.Time) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := time.Now(); len(m.until) >= m.max && now.Sub(m.swept) >= time.Second {
		m.swept = now
		for old, end := range m.until {
			if now.After(end) {
				delete(m.until, old)
			}
		}
	}
	if _, known := m.until[request]; known || len(m.until) >= m.max {
		return false, nil
	}
	m.until[request] = until
	return true, nil
}
