package pgstore_test

import (
	"os"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/store/pgstore"
)

// Five million messages, of which a hundred thousand are dead, thousands wait and the
// rest is published: whatever an operator looks at answers in less than 200 ms.
func TestFiveMillionMessagesAreLookedAtQuickly(t *testing.T) {
	if os.Getenv("OUTBOX_SOAK") == "" {
		t.Skip("needs minutes and gigabytes: set OUTBOX_SOAK=1")
	}
	pool := testenv.Postgres(t).Pool(t)
	store := newStore(t, pool, pgstore.Config{Table: "large_outbox"})
	for _, statement := range []string{
		`INSERT INTO large_outbox (topic, msg_key, payload, created_at, available_at, published_at, attempts, dead_at, dead_reason, last_error)
		 SELECT 'shop.order.placed.v' || (i % 3 + 1), 'k' || i % 10000, '{"n":1}', at, CASE WHEN i % 500 = 2 THEN at + interval '1 year' ELSE at END,
		   CASE WHEN i <= 4900000 AND i % 50 <> 1 AND i % 500 <> 2 THEN at END, CASE WHEN i % 50 = 1 THEN 5 WHEN i % 1000 = 2 THEN 1 ELSE 0 END,
		   CASE WHEN i <= 4900000 AND i % 50 = 1 THEN at END, CASE WHEN i <= 4900000 AND i % 50 = 1 THEN 'attempts' END,
		   CASE WHEN i % 50 = 1 THEN 'status ' || i % 7 * 100 || ' after ' || i || 'ms' END
		 FROM (SELECT i, now() - interval '1 day' + i * interval '10 milliseconds' AS at FROM generate_series(1, 5000000) i) m`,
		`INSERT INTO large_outbox_attempt (sequence, attempt, route, outcome, error)
		 SELECT sequence, n, 'main', CASE WHEN n = 5 THEN 'dead' ELSE 'retry' END, last_error FROM large_outbox, generate_series(1, 5) n WHERE dead_at IS NOT NULL`,
		`UPDATE large_outbox_lease SET low = 4900000`,
	} {
		exec(t, pool, statement)
	}
	exec(t, pool, `VACUUM ANALYZE large_outbox`)
	exec(t, pool, `VACUUM ANALYZE large_outbox_attempt`)
	var sample uuid.UUID
	for _, look := range []struct {
		name string
		at   func() error
	}{
		{"stats", func() error { _, err := store.Stats(t.Context()); return err }},
		{"list", func() error { _, err := store.List(t.Context(), outbox.Filter{}); return err }},
		{"list dead", func() error {
			list, err := store.List(t.Context(), outbox.Filter{Status: outbox.StatusDead})
			if err == nil {
				sample = list.Records[0].EventID
			}
			return err
		}},
		{"list dead of a route and an error", func() error {
			_, err := store.List(t.Context(), outbox.Filter{Status: outbox.StatusDead, Route: "main", Error: "status # after #", Since: time.Now().Add(-20 * time.Hour)})
			return err
		}},
		{"list retrying", func() error {
			_, err := store.List(t.Context(), outbox.Filter{Status: outbox.StatusRetrying})
			return err
		}},
		{"list what nothing matches", func() error { _, err := store.List(t.Context(), outbox.Filter{TenantID: "none"}); return err }},
		{"get", func() error { _, err := store.Get(t.Context(), sample); return err }},
		{"groups", func() error { _, err := store.Groups(t.Context(), outbox.Filter{}); return err }},
		{"keys", func() error { _, err := store.Keys(t.Context(), 0, 50); return err }},
		{"ahead", func() error { _, err := store.Ahead(t.Context(), "k1", 5_000_000, true); return err }},
		{"preview of a trigger", func() error {
			_, err := store.Preview(t.Context(), outbox.Action{Verb: outbox.VerbTrigger, Actor: "ada", Reason: "a test"})
			return err
		}},
	} {
		best := time.Hour
		for range 5 {
			began := time.Now()
			if err := look.at(); err != nil {
				t.Fatalf("%s: %v", look.name, err)
			}
			best = min(best, time.Since(began))
		}
		t.Logf("%-36s %s", look.name, best.Round(100*time.Microsecond))
		if best > 200*time.Millisecond {
			t.Errorf("%s takes %s, want at most 200 ms", look.name, best)
		}
	}
	began := time.Now()
	preview, err := store.PreviewJob(t.Context(), outbox.JobRequest{
		Verb: outbox.VerbReplay, Filter: outbox.Filter{Status: outbox.StatusDead}, Actor: "ada", Reason: "a test",
	})
	t.Logf("preview of a job: %d messages, %d conflicts, %s (%v)", preview.Count, preview.KeyConflicts, time.Since(began), err)
}
