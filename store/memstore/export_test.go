package memstore

import "time"

// Shift lets time pass by making everything older.
func (s *Store) Shift(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	older := func(t *time.Time) {
		if !t.IsZero() {
			*t = t.Add(-d)
		}
	}
	var rows []*row
	for r := range s.all.after(1, 0) {
		rows = append(rows, r)
	}
	s.indexes = newIndexes()
	for _, r := range rows {
		for _, t := range []*time.Time{&r.CreatedAt, &r.AvailableAt, &r.PublishedAt, &r.DeadAt} {
			older(t)
		}
		r.in = [indexCount]int64{}
		s.reindex(r)
	}
	for _, l := range s.leases {
		older(&l.expiresAt)
	}
	for instance, m := range s.members {
		older(&m.seenAt)
		s.members[instance] = m
	}
	for _, j := range s.jobs {
		for _, t := range []*time.Time{&j.Cut, &j.Next, &j.DrivenAt} {
			older(t)
		}
	}
}
