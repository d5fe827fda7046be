package doctest_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/store/pgstore"
)

// The SQL of the pages is executed as it stands there.
func TestTheSQLOfThePagesRuns(t *testing.T) {
	pool := testenv.Postgres(t).Pool(t)
	store, err := pgstore.New(pool, pgstore.Config{Table: "shop_outbox"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	dead := outbox.Message{Topic: "shop.order.placed.v1", Key: "order-7", Payload: []byte(`{}`)}
	if err := dead.EventID.UnmarshalText([]byte("0190d3a5-0000-7000-8000-000000000001")); err != nil {
		t.Fatal(err)
	}
	if _, err := store.EnqueueAutocommit(t.Context(), dead); err != nil {
		t.Fatal(err)
	}
	const setup = `CREATE TABLE consumed (consumer text, event_id uuid, PRIMARY KEY (consumer, event_id));
		UPDATE shop_outbox SET dead_at = now(), dead_reason = 'attempts', attempts = 25`
	if _, err := pool.Exec(t.Context(), setup, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}

	for _, name := range []string{"docs/runbook.md", "docs/event-design.md"} {
		blocks := codeBlocks(read(t, name), "sql")
		if len(blocks) == 0 {
			t.Errorf("%s has no SQL", name)
		}
		for _, block := range blocks {
			if _, err := pool.Exec(t.Context(), block, pgx.QueryExecModeSimpleProtocol); err != nil {
				t.Errorf("%s: %v in\n%s", name, err, block)
			}
		}
	}

	// The runbook's replay did what the command does.
	rec, err := store.Get(t.Context(), dead.EventID)
	if err != nil {
		t.Fatal(err)
	}
	if status := rec.Status(rec.AvailableAt); status != outbox.StatusPending || rec.Replays != 1 {
		t.Errorf("the replayed message is %s and was replayed %d times", status, rec.Replays)
	}
}
