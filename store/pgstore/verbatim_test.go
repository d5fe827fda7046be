package pgstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
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
		exec(t, pool, "DROP VIEW "+table+"_status, "+table+"_audit_actions")
		exec(t, pool, "ALTER TABLE "+table+" ALTER tenant_id DROP DEFAULT, ALTER tenant_id TYPE text, ALTER tenant_id SET DEFAULT ''")
		return harness(t, pool, openStore(t, pool, pgstore.Config{Table: table}), pgstore.JSON)
	})
}

// verbatimStore is a store on a new verbatim table with n plain messages.
func verbatimStore(t *testing.T, n int) (*pgstore.Store, *pgxpool.Pool) {
	t.Helper()
	pool := testenv.Postgres(t).Pool(t)
	verbatim(t, pool, "org_outbox", "")
	store := newStore(t, pool, pgstore.Config{Table: "org_outbox"})
	for range n {
		if _, err := store.EnqueueAutocommit(t.Context(), plain("")); err != nil {
			t.Fatal(err)
		}
	}
	return store, pool
}

// fresh reads and returns the sequences of the fresh part.
func fresh(t *testing.T, lease outbox.Lease, req outbox.ReadRequest) []int64 {
	t.Helper()
	page, err := lease.Read(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	ids := []int64{}
	for _, r := range page.Fresh {
		ids = append(ids, r.Sequence)
	}
	if len(ids) > 0 && (!slices.IsSorted(ids) || page.Last < ids[len(ids)-1]) {
		t.Errorf("page %v ends at %d", ids, page.Last)
	}
	return ids
}

func step(t *testing.T, lease outbox.Lease, s outbox.Step) {
	t.Helper()
	if err := lease.Step(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

func TestTheVerbatimLayoutFindsWhatCommitsLate(t *testing.T) {
	store, pool := verbatimStore(t, 0)
	lease := acquire(t, store)
	// The one that began first commits last, with the lower sequence or the higher.
	var late []int64
	var txs []pgx.Tx
	for range 2 {
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
		if _, err := tx.Exec(t.Context(), `SELECT 1`); err != nil { // fixes its now()
			t.Fatal(err)
		}
		txs = append(txs, tx)
	}
	lower, err := store.Enqueue(t.Context(), txs[0], plain(""))
	if err != nil {
		t.Fatal(err)
	}
	seen, err := store.EnqueueAutocommit(t.Context(), plain(""))
	if err != nil {
		t.Fatal(err)
	}
	higher, err := store.Enqueue(t.Context(), txs[1], plain(""))
	if err != nil {
		t.Fatal(err)
	}
	late = []int64{lower, higher}
	if got := fresh(t, lease, outbox.ReadRequest{Limit: 10}); !slices.Equal(got, []int64{seen}) {
		t.Fatalf("read %v, want %d", got, seen)
	}
	step(t, lease, outbox.Step{Record: []outbox.Batch{{No: 1, IDs: []int64{seen}}}})
	for _, tx := range txs {
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	got := fresh(t, lease, outbox.ReadRequest{After: seen, Limit: 10})

	if !slices.Equal(got, late) {
		t.Errorf("read %v, want %v: not what is in flight", got, late)
	}
}

func TestTheVerbatimLayoutReadsAgainWhatIsNoLongerInFlight(t *testing.T) {
	store, _ := verbatimStore(t, 3)
	lease := acquire(t, store)
	ids := fresh(t, lease, outbox.ReadRequest{Limit: 10})
	step(t, lease, outbox.Step{Record: []outbox.Batch{{No: 1, IDs: ids}}})
	if got := fresh(t, lease, outbox.ReadRequest{Limit: 10}); len(got) != 0 {
		t.Fatalf("read %v, which is in flight", got)
	}

	step(t, lease, outbox.Step{
		Outcomes: []outbox.Outcome{{Sequence: ids[0], Spent: 1}, {Sequence: ids[1], Kind: outbox.Deferred}},
		Done:     []int64{1},
	})

	if got := fresh(t, lease, outbox.ReadRequest{Limit: 10}); !slices.Equal(got, ids[1:]) {
		t.Errorf("read %v, want %v: put back, and let go", got, ids[1:])
	}
}

func TestTheVerbatimLayoutGoesOnAfterWhatThePayloadLimitTook(t *testing.T) {
	store, _ := verbatimStore(t, 5)
	lease := acquire(t, store)
	var all []int64
	for no := int64(1); no <= 5; no++ {
		got := fresh(t, lease, outbox.ReadRequest{Limit: 10, MaxBytes: 1})
		if len(got) != 1 {
			t.Fatalf("read %v, want one", got)
		}
		step(t, lease, outbox.Step{Record: []outbox.Batch{{No: no, IDs: got}}})
		all = append(all, got...)
	}
	if slices.Sort(all); len(slices.Compact(all)) != 5 {
		t.Errorf("read %v, want every message once", all)
	}
}

func TestTheVerbatimLayoutSaysWhatIsDueNext(t *testing.T) {
	store, pool := verbatimStore(t, 1)
	soon := plain("")
	soon.AvailableAt = time.Now().Add(time.Hour)
	id, err := store.EnqueueAutocommit(t.Context(), soon)
	if err != nil {
		t.Fatal(err)
	}
	lease := acquire(t, store)
	page, err := lease.Read(t.Context(), outbox.ReadRequest{Limit: 10, Due: 10})
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Fresh) != 1 || len(page.Others) != 1 || page.Others[0].Sequence != id || page.Others[0].Due {
		t.Errorf("read %v and %v, want the scheduled one as not due", page.Fresh, page.Others)
	}
	step(t, lease, outbox.Step{Record: []outbox.Batch{{No: 1, IDs: []int64{page.Fresh[0].Sequence}}}})

	shift(t, pool, "org_outbox", 2*time.Hour)
	lease = acquire(t, store)

	if got := fresh(t, lease, outbox.ReadRequest{Limit: 10, Due: 10}); !slices.Contains(got, id) {
		t.Errorf("read %v, want %d in its turn", got, id)
	}
}

// The settle takes its snapshot and waits for the replay, whose generation is in
// another table than the row that both write.
func TestAReplayDuringASettleIsNotLostOnTheVerbatimLayout(t *testing.T) {
	for name, s := range map[string]outbox.Step{"keep": {}, "delete": {Delete: true}} {
		t.Run(name, func(t *testing.T) {
			store, pool := verbatimStore(t, 2)
			lease := acquire(t, store)
			page, err := lease.Read(t.Context(), outbox.ReadRequest{Limit: 10})
			if err != nil {
				t.Fatal(err)
			}
			replayed, other := page.Fresh[0], page.Fresh[1]
			// A transaction behind which the replay waits, and behind that the settle.
			first, err := pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = first.Rollback(context.Background()) }()
			if _, err := first.Exec(t.Context(), `SELECT 1 FROM org_outbox_lease FOR UPDATE`); err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			var replayErr, stepErr error
			wg.Go(func() {
				_, replayErr = store.Apply(t.Context(), outbox.Action{Verb: outbox.VerbReplay, EventID: replayed.EventID, Actor: "me", Reason: "test"})
			})
			blocked(t, pool, 1)
			wg.Go(func() {
				s.Outcomes = []outbox.Outcome{{Sequence: replayed.Sequence, Spent: 1}, {Sequence: other.Sequence, Spent: 1}}
				stepErr = lease.Step(t.Context(), s)
			})
			blocked(t, pool, 2)
			if err := first.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			wg.Wait()

			if err := errors.Join(replayErr, stepErr); err != nil {
				t.Fatal(err)
			}
			if n := count(t, pool, `SELECT count(*) FROM org_outbox WHERE published_at IS NULL`); n != 1 {
				t.Errorf("%d messages are unpublished, want the replayed one", n)
			}
			if got := fresh(t, lease, outbox.ReadRequest{Limit: 10}); !slices.Equal(got, []int64{replayed.Sequence}) {
				t.Errorf("read %v, want the replayed %d", got, replayed.Sequence)
			}
		})
	}
}

func TestAStaleOwnerThatWaitedForTheLeaseWritesNothingOnTheVerbatimLayout(t *testing.T) {
	store, pool := verbatimStore(t, 2)
	stale := acquire(t, store)
	ids := fresh(t, stale, outbox.ReadRequest{Limit: 10})
	takeover, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = takeover.Rollback(context.Background()) }()
	if _, err := takeover.Exec(t.Context(), `UPDATE org_outbox_lease SET owner = gen_random_uuid(), epoch = epoch + 1`); err != nil {
		t.Fatal(err)
	}

	var wg sync.WaitGroup
	var stepErr error
	wg.Go(func() {
		stepErr = stale.Step(t.Context(), outbox.Step{
			Outcomes: []outbox.Outcome{{Sequence: ids[0], Spent: 1}, {Sequence: ids[1], Spent: 1}},
			Record:   []outbox.Batch{{No: 1, IDs: ids}},
		})
	})
	blocked(t, pool, 1)
	if err := takeover.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	wg.Wait()

	if !errors.Is(stepErr, outbox.ErrLeaseLost) {
		t.Errorf("step: got %v, want ErrLeaseLost", stepErr)
	}
	if n := count(t, pool, `SELECT (SELECT count(*) FROM org_outbox WHERE published_at IS NOT NULL) + (SELECT count(*) FROM org_outbox_batch)`); n != 0 {
		t.Errorf("the stale owner wrote %d rows", n)
	}
}

func TestReadsOfAVerbatimTableWithoutStatisticsFollowTheirIndex(t *testing.T) {
	store, pool := verbatimStore(t, 0)
	exec(t, pool, `ALTER TABLE org_outbox SET (autovacuum_enabled = false)`)
	insert := func(apart string) {
		exec(t, pool, `INSERT INTO org_outbox (tenant_id, topic, event_id, payload, created_at, available_at)
			SELECT gen_random_uuid(), 'shop.order.placed.v1', gen_random_uuid(), '{"n":1}', at, at
			FROM (SELECT now() - (50001 - i) * $1::text::interval AS at FROM generate_series(1, 50000) i) AS m`, apart)
	}
	lease := acquire(t, store)
	check := func(state string) {
		t.Helper()
		for _, st := range pgstore.VerbatimReads(lease) {
			plan, err := pgstore.Explain(t.Context(), pool, st)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Join(plan, "\n")
			if strings.Contains(text, "Sort") || strings.Contains(text, "Seq Scan on org_outbox m") || strings.Contains(text, "Bitmap") {
				t.Errorf("%s, %s: the read looks at the whole backlog:\n%s", state, st.Name, text)
			}
		}
	}
	insert("1 millisecond")
	fresh(t, lease, outbox.ReadRequest{Limit: 1000})
	check("never analysed")
	exec(t, pool, `ANALYZE org_outbox`)
	check("analysed")
	exec(t, pool, `DELETE FROM org_outbox`)
	exec(t, pool, `VACUUM ANALYZE org_outbox`)
	insert("0")
	check("vacuumed while empty")
}
