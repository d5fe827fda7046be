package sqlitestore

import (
	"testing"

	"github.com/go-outbox/outbox"
)

func TestInspectingLooksAtABoundedNumberOfRows(t *testing.T) {
	s := planned(t)
	s.countCap = 100
	err := exec(t.Context(), s.db, `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO ob (topic, msg_key, payload) SELECT 'a.b', CASE i WHEN 1 THEN 'rare' ELSE '' END, '{}' FROM n`, s.countCap+10)
	if err != nil {
		t.Fatal(err)
	}

	first, err := s.List(t.Context(), outbox.Filter{Key: "rare"})
	if err != nil || len(first.Records) != 0 || first.Next != 11 {
		t.Fatal(len(first.Records), first.Next, err)
	}
	second, err := s.List(t.Context(), outbox.Filter{Key: "rare", Before: first.Next})
	if err != nil || len(second.Records) != 1 || second.Next != 0 {
		t.Error(len(second.Records), second.Next, err)
	}
	stats, err := s.Stats(t.Context())
	if err != nil || stats.Pending != s.countCap || !stats.Capped {
		t.Error(stats.Pending, stats.Capped, err)
	}
	tenants, err := s.Tenants(t.Context(), 1)
	if err != nil || len(tenants.Tenants) != 1 || tenants.Tenants[0].Pending != s.countCap || !tenants.Capped {
		t.Error(tenants, err)
	}
}
