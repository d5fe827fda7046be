package pgstore_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/store/pgstore"
	"github.com/go-outbox/outbox/store/storetest"
)

// verbatim creates the table of R-A7 to R-A9 as its own tool would.
func verbatim(t testing.TB, pool *pgxpool.Pool, table, more string) {
	t.Helper()
	for _, statement := range []string{
		`CREATE TABLE %[1]s (
			id UUID NOT NULL DEFAULT gen_random_uuid(), tenant_id UUID NOT NULL, topic TEXT NOT NULL, payload JSONB NOT NULL,
			event_id UUID NOT NULL, sequence BIGSERIAL NOT NULL, created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
			published_at TIMESTAMPTZ NULL, attempts INT NOT NULL DEFAULT 0, available_at TIMESTAMPTZ NOT NULL DEFAULT now(),
			locked_at TIMESTAMPTZ NULL, last_error TEXT NULL` + more + `,
			CONSTRAINT %[1]s_pkey PRIMARY KEY (id), CONSTRAINT %[1]s_event_id_key UNIQUE (event_id),
			CONSTRAINT %[1]s_attempts_nonnegative CHECK (attempts >= 0))`,
		`CREATE INDEX %[1]s_pending_by_available ON %[1]s (available_at, sequence) WHERE published_at IS NULL`,
		`CREATE INDEX %[1]s_published_by_time ON %[1]s (published_at, sequence) WHERE published_at IS NOT NULL`,
		`CREATE INDEX %[1]s_tenant_published ON %[1]s (tenant_id, published_at, sequence)`,
	} {
		exec(t, pool, fmt.Sprintf(statement, table))
	}
}

func plain(tenant string) outbox.Message {
	return outbox.Message{Topic: topic, TenantID: tenant, Payload: json.RawMessage(`{"n": 1}`), EventID: uuid.New()}
}

func TestTheVerbatimLayoutKeepsItsColumns(t *testing.T) {
	pool := testenv.Postgres(t).Pool(t)
	verbatim(t, pool, "org_outbox", "")
	columns := func() []string {
		rows, err := pool.Query(t.Context(), `SELECT attname || ' ' || format_type(atttypid, -1) FROM pg_attribute
			WHERE attrelid = 'org_outbox'::regclass AND attnum > 0 ORDER BY attnum`, pgx.QueryExecModeExec)
		if err != nil {
			t.Fatal(err)
		}
		list, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	before := columns()
	store := newStore(t, pool, pgstore.Config{Table: "org_outbox"})

	if err := store.CheckSchema(t.Context()); err != nil {
		t.Error(err)
	}
	if after := columns(); !slices.Equal(before, after) {
		t.Errorf("columns changed from %v to %v", before, after)
	}
	if _, err := store.MigrateDown(t.Context(), 0, false); err != nil {
		t.Fatal(err)
	}
	if after := columns(); !slices.Equal(before, after) {
		t.Errorf("columns changed from %v to %v", before, after)
	}
}

func TestAMessageLivesOnTheVerbatimLayout(t *testing.T) {
	pool := testenv.Postgres(t).Pool(t)
	verbatim(t, pool, "org_outbox", ", traceparent TEXT NULL, tracestate TEXT NULL")
	store := newStore(t, pool, pgstore.Config{Table: "org_outbox"})
	tenant := uuid.NewString()
	msg := plain(tenant)
	msg.TraceParent, msg.TraceState = "00-1-2-01", "a=b"
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	first, err := store.EnqueueAutocommit(t.Context(), msg)
	ok(err)
	again, err := store.EnqueueAutocommit(t.Context(), msg)
	ok(err)
	other := msg
	other.Payload = json.RawMessage(`{"n": 2}`)
	if _, err := store.EnqueueAutocommit(t.Context(), other); again != first || !errors.Is(err, outbox.ErrEventIDConflict) {
		t.Errorf("duplicate: %d and %v, want %d and ErrEventIDConflict", again, err, first)
	}
	var many []int64
	ok(pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		many, err = store.EnqueueMany(t.Context(), tx, []outbox.Message{plain(""), msg, plain(tenant)})
		return err
	}))
	if many[1] != first {
		t.Errorf("sequences %v, want %d in the middle", many, first)
	}

	lease := acquireAs(t, store, "first")
	page, err := lease.Read(t.Context(), outbox.ReadRequest{Limit: 100, All: true})
	ok(err)
	if len(page.Fresh) != 3 {
		t.Fatalf("read %d messages, want 3", len(page.Fresh))
	}
	r := page.Fresh[0]
	if r.TenantID != tenant || r.TraceParent != "00-1-2-01" || r.TraceState != "a=b" || string(r.Payload) != `{"n": 1}` || r.EventVersion != 1 || !r.Due {
		t.Errorf("got %+v", r)
	}
	if page.Fresh[1].TenantID != "" {
		t.Errorf("the nil tenant is %q", page.Fresh[1].TenantID)
	}
	ids := []int64{page.Fresh[0].Sequence, page.Fresh[1].Sequence, page.Fresh[2].Sequence}
	ok(lease.Step(t.Context(), outbox.Step{Record: []outbox.Batch{{No: 1, IDs: ids}}}))
	shift(t, pool, "org_outbox", time.Hour)

	second := acquireAs(t, store, "second")
	orphans, err := second.Recover(t.Context())
	ok(err)
	if len(orphans) != 1 || !orphans[0].Lost || len(orphans[0].IDs) != 3 {
		t.Fatalf("orphans %+v", orphans)
	}
	if err := lease.Step(t.Context(), outbox.Step{Outcomes: []outbox.Outcome{{Sequence: ids[0], Spent: 1}}}); !errors.Is(err, outbox.ErrLeaseLost) {
		t.Errorf("the stale owner settles: %v", err)
	}
	ok(second.Step(t.Context(), outbox.Step{Done: []int64{orphans[0].No}, Outcomes: []outbox.Outcome{
		{Sequence: ids[0], Spent: 1},
		{Sequence: ids[1], Kind: outbox.Retry, Spent: 1, Error: "down", Delay: time.Minute},
		{Sequence: ids[2], Kind: outbox.Dead, Spent: 1, Reason: outbox.DeadPermanent, Error: "no", RoutesDone: []string{"x"}},
	}}))

	stats, err := store.Stats(t.Context())
	ok(err)
	if stats.Pending != 1 || stats.Retrying != 1 || stats.Dead != 1 {
		t.Errorf("stats %+v", stats)
	}
	list, err := store.List(t.Context(), outbox.Filter{Status: outbox.StatusDead})
	ok(err)
	if len(list.Records) != 1 || list.Records[0].DeadReason != outbox.DeadPermanent || list.Records[0].Crashes != 1 {
		t.Fatalf("dead: %+v", list.Records)
	}
	effect, err := store.Apply(t.Context(), outbox.Action{Verb: outbox.VerbReplay, EventID: list.Records[0].EventID, Actor: "me", Reason: "test"})
	ok(err)
	if effect.Before != outbox.StatusDead {
		t.Errorf("effect %+v", effect)
	}
	// The generation of before the replay no longer settles.
	ok(second.Step(t.Context(), outbox.Step{Outcomes: []outbox.Outcome{{Sequence: ids[2], Spent: 1}}}))
	shift(t, pool, "org_outbox", 10*time.Minute)
	page, err = second.Read(t.Context(), outbox.ReadRequest{Due: 10})
	ok(err)
	if len(page.Others) != 2 {
		t.Fatalf("%d messages are due, want 2", len(page.Others))
	}
	for _, r := range page.Others {
		ok(second.Step(t.Context(), outbox.Step{Outcomes: []outbox.Outcome{{Sequence: r.Sequence, Spent: 1, Replays: r.Replays}}}))
	}
	shift(t, pool, "org_outbox", time.Hour)
	purged, err := store.Purge(t.Context(), outbox.PurgeRequest{Published: time.Minute, Limit: 100})
	ok(err)
	if left := count(t, pool, `SELECT (SELECT count(*) FROM org_outbox) + (SELECT count(*) FROM org_outbox_state)`); purged.Published != 3 || left != 0 {
		t.Errorf("purged %+v, %d rows are left", purged, left)
	}
}

func TestTheVerbatimLayoutRefusesWhatItCannotHold(t *testing.T) {
	pool := testenv.Postgres(t).Pool(t)
	verbatim(t, pool, "org_outbox", "")
	store := newStore(t, pool, pgstore.Config{Table: "org_outbox"})
	for name, change := range map[string]func(*outbox.Message){
		"key":            func(m *outbox.Message) { m.Key = "k" },
		"headers":        func(m *outbox.Message) { m.Headers = map[string]string{"a": "b"} },
		"tenant_id":      func(m *outbox.Message) { m.TenantID = "acme" },
		"aggregate_type": func(m *outbox.Message) { m.AggregateType = "order" },
		"content_type":   func(m *outbox.Message) { m.ContentType = "text/plain" },
	} {
		msg := plain("")
		change(&msg)

		_, err := store.EnqueueAutocommit(t.Context(), msg)

		if err == nil || !strings.HasPrefix(err.Error(), name+":") {
			t.Errorf("%s: got %v, want a refusal that names it", name, err)
		}
	}
	if n := count(t, pool, `SELECT count(*) FROM org_outbox`); n != 0 {
		t.Errorf("%d rows were written", n)
	}
}

func TestMigrateFullKeepsMessagesAndTheirState(t *testing.T) {
	pool := testenv.Postgres(t).Pool(t)
	verbatim(t, pool, "org_outbox", "")
	store := newStore(t, pool, pgstore.Config{Table: "org_outbox"})
	tenant := uuid.NewString()
	var ids []int64
	for range 3 {
		id, err := store.EnqueueAutocommit(t.Context(), plain(tenant))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	lease := acquire(t, store)
	err := lease.Step(t.Context(), outbox.Step{Outcomes: []outbox.Outcome{
		{Sequence: ids[0], Spent: 1}, {Sequence: ids[1], Kind: outbox.Dead, Reason: outbox.DeadPermanent, Spent: 1},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.MigrateFull(t.Context()); !errors.Is(err, outbox.ErrLeaseHeld) {
		t.Fatalf("while a relay works: got %v, want ErrLeaseHeld", err)
	}
	if err := lease.Release(t.Context(), 0); err != nil {
		t.Fatal(err)
	}

	if err := store.MigrateFull(t.Context()); err != nil {
		t.Fatal(err)
	}

	msg := message("k")
	msg.Headers = map[string]string{"a": "b"}
	id, err := store.EnqueueAutocommit(t.Context(), msg)
	if err != nil {
		t.Fatal(err)
	}
	got := read(t, acquire(t, store))
	if len(got) != 2 || got[0].Sequence != ids[2] || got[0].TenantID != tenant || got[1].Sequence != id || got[1].Key != "k" || got[1].TenantID != "" {
		t.Errorf("read %+v", got)
	}
	list, err := store.List(t.Context(), outbox.Filter{Status: outbox.StatusDead, TenantID: tenant})
	if err != nil || len(list.Records) != 1 || list.Records[0].Sequence != ids[1] {
		t.Errorf("dead: %v, %+v", err, list.Records)
	}
	if err := store.MigrateFull(t.Context()); err != nil {
		t.Errorf("again: %v", err)
	}
}

// The suite on a table that was verbatim once, where the slot is an expression. Its
// tenants are not all UUIDs.
func TestStoreOnATableThatWasVerbatim(t *testing.T) {
	t.Parallel()
	pool := testenv.Postgres(t).Pool(t)
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		table := fmt.Sprintf("v%d_outbox", tables.Add(1))
		verbatim(t, pool, table, "")
		exec(t, pool, "ALTER TABLE "+table+" ALTER payload TYPE json")
		if err := openStore(t, pool, pgstore.Config{Table: table}).MigrateFull(t.Context()); err != nil {
			t.Fatal(err)
		}
		exec(t, pool, "DROP VIEW "+table+"_status")
		exec(t, pool, "ALTER TABLE "+table+" ALTER tenant_id DROP DEFAULT, ALTER tenant_id TYPE text, ALTER tenant_id SET DEFAULT ''")
		return harness(t, pool, openStore(t, pool, pgstore.Config{Table: table}), pgstore.JSON)
	})
}
