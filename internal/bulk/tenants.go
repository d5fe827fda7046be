package bulk

import (
	"cmp"
	"database/sql"
	"slices"
	"time"

	"github.com/go-outbox/outbox"
)

// Tenants adds up counts by tenant. Make it with NewTenants.
type Tenants struct {
	countCap int
	looked   map[string]int // messages, by part of the table
	counts   map[string]outbox.TenantCount
}

// NewTenants adds up what was counted by looking at no more than countCap messages of
// each part of a table.
func NewTenants(countCap int) *Tenants {
	return &Tenants{countCap: countCap, looked: map[string]int{}, counts: map[string]outbox.TenantCount{}}
}

// Add adds what one part of the table has of a tenant. looked is at how many messages.
func (t *Tenants) Add(part string, looked int, c outbox.TenantCount) {
	t.looked[part] += looked
	if c.Pending == 0 && c.Dead == 0 {
		return
	}
	sum := t.counts[c.TenantID]
	sum.TenantID = c.TenantID
	sum.Pending += c.Pending
	sum.Dead += c.Dead
	sum.OldestPending = max(sum.OldestPending, c.OldestPending)
	t.counts[c.TenantID] = sum
}

// Scan adds a row of database/sql: a tenant, at how many messages was looked, how many
// are pending and dead, and the age of the oldest.
func (t *Tenants) Scan(part string, rows *sql.Rows) error {
	var c outbox.TenantCount
	var looked int
	var age int64
	err := rows.Scan(&c.TenantID, &looked, &c.Pending, &c.Dead, &age)
	c.OldestPending = Age(age)
	t.Add(part, looked, c)
	return err
}

// Top are the tenants with the most messages.
func (t *Tenants) Top(limit int) outbox.Tenants {
	var top outbox.Tenants
	for _, c := range t.counts {
		top.Tenants = append(top.Tenants, c)
	}
	slices.SortFunc(top.Tenants, func(a, b outbox.TenantCount) int {
		return cmp.Or(cmp.Compare(b.Pending+b.Dead, a.Pending+a.Dead), cmp.Compare(a.TenantID, b.TenantID))
	})
	size := min(outbox.Filter{Limit: limit}.PageSize(), len(top.Tenants))
	top.Others = len(top.Tenants) - size
	top.Tenants = top.Tenants[:size:size]
	for _, n := range t.looked {
		top.Capped = top.Capped || n >= t.countCap
	}
	return top
}

// Age is how long ago a message was created, in the unit that databases count in.
func Age(micros int64) time.Duration { return max(time.Duration(micros)*time.Microsecond, 0) }
