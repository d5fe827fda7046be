package sqlitestore_test

import (
	"context"
	"database/sql"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/store/sqlitestore"
)

func TestBadTableNamesAreRefusedBeforeAnySQL(t *testing.T) {
	db := open(t, newFile(t))
	for _, name := range []string{
		`a"; DROP TABLE x; --`, "Outbox", "1outbox", "a b", "öutbox", "main.outbox", "outbox_audit", strings.Repeat("a", 41),
	} {
		if _, err := sqlitestore.New(db, sqlitestore.Config{Table: name}); !errors.Is(err, outbox.ErrInvalidTable) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := sqlitestore.New(nil, sqlitestore.Config{}); !errors.Is(err, outbox.ErrInvalidConfig) {
		t.Errorf("no database: %v", err)
	}
}

func TestOnlyATransactionIsATx(t *testing.T) {
	tx := reflect.TypeFor[sqlitestore.Tx]()
	if !reflect.TypeFor[*sql.Tx]().Implements(tx) {
		t.Error("*sql.Tx is none")
	}
	for _, other := range []reflect.Type{reflect.TypeFor[*sql.DB](), reflect.TypeFor[*sql.Conn]()} {
		if other.Implements(tx) {
			t.Errorf("%s is one", other)
		}
	}
}

func TestAPlainInsertHasSensibleDefaults(t *testing.T) {
	store, db := newMigrated(t)
	before := time.Now().Add(-time.Second)
	sequence := insertRaw(t, db, "a.b.c.v1", "k", `{}`)

	page := read(t, acquire(t, store, "one"), outbox.ReadRequest{Limit: 10})

	rec := page.Fresh[0]
	if rec.Sequence != sequence || rec.EventID.Version() != 4 || rec.EventID.Variant() != uuid.RFC4122 {
		t.Errorf("sequence %d, event id %s", rec.Sequence, rec.EventID)
	}
	if !rec.Due || !rec.AvailableAt.Equal(rec.CreatedAt) || rec.CreatedAt.Before(before) || rec.CreatedAt.After(time.Now().Add(time.Second)) {
		t.Errorf("due %t, created %s, available %s", rec.Due, rec.CreatedAt, rec.AvailableAt)
	}
}

func read(t *testing.T, lease outbox.Lease, req outbox.ReadRequest) outbox.Page {
	t.Helper()
	page, err := lease.Read(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

func TestAHostileRowIsCorruptAndTheOthersAreReadable(t *testing.T) {
	store, db := newMigrated(t)
	const insert = "INSERT INTO " + table + " (topic, payload, headers, event_id) VALUES (?, ?, ?, ?)"
	mustExec(t, db, insert, "a.b", "{}", "not json", uuid.NewString())
	mustExec(t, db, insert, "a.b", "{}", `{"n":1}`, uuid.NewString())
	mustExec(t, db, insert, "a.b", "{}", nil, strings.Repeat("z", 36))
	mustExec(t, db, insert, "a.\xff", "{}", nil, uuid.NewString())
	mustExec(t, db, insert, "a.b", 42, nil, uuid.NewString())

	page := read(t, acquire(t, store, "one"), outbox.ReadRequest{Limit: 10})

	for i, rec := range page.Fresh {
		if corrupt := rec.Corrupt != ""; corrupt != (i < 4) {
			t.Errorf("row %d: corrupt %q", i, rec.Corrupt)
		}
	}
	if got := string(page.Fresh[4].Payload); got != "42" {
		t.Errorf("payload %s", got)
	}
}

func TestTheSchemaRefusesWhatNoProgramMayWrite(t *testing.T) {
	_, db := newMigrated(t)
	for _, insert := range []string{
		`(topic, payload) VALUES ('', '{}')`,
		`(topic, payload) VALUES (NULL, '{}')`,
		`(topic, payload) VALUES ('a.b', NULL)`,
		`(topic, payload, attempts) VALUES ('a.b', '{}', -1)`,
		`(topic, payload, created_at) VALUES ('a.b', '{}', '2026-01-01')`,
		`(topic, payload, event_id) VALUES ('a.b', '{}', 'short')`,
		`(topic, payload, event_id) VALUES ('a.b', '{}', 'F47AC10B-58CC-4372-A567-0E02B2C3D479')`,
	} {
		if _, err := db.ExecContext(t.Context(), "INSERT INTO "+table+" "+insert); err == nil {
			t.Errorf("accepted: %s", insert)
		}
	}
}

func TestSequencesAreNotGivenOutAgain(t *testing.T) {
	store, db := newMigrated(t)
	first, err := store.EnqueueAutocommit(t.Context(), message("a"))
	if err != nil {
		t.Fatal(err)
	}
	mustExec(t, db, "DELETE FROM "+table)

	second, err := store.EnqueueAutocommit(t.Context(), message("a"))

	if err != nil || second <= first {
		t.Errorf("%d after %d: %v", second, first, err)
	}
}

func TestEnqueueConnJoinsATransactionBegunWithSQL(t *testing.T) {
	store, db := newMigrated(t)
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	for _, end := range []string{"ROLLBACK", "COMMIT"} {
		if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
			t.Fatal(err)
		}
		if _, err := store.EnqueueConn(t.Context(), conn, message(end)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.ExecContext(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}

	page := read(t, acquire(t, store, "one"), outbox.ReadRequest{Limit: 10})
	if len(page.Fresh) != 1 || page.Fresh[0].Key != "COMMIT" {
		t.Errorf("got %d messages", len(page.Fresh))
	}
}

// A frozen clock is the coarsest there is.
func TestWhatWasPutBackIsNotInFlightEvenOnAFrozenClock(t *testing.T) {
	_, db := newMigrated(t)
	now := time.Now()
	store, err := sqlitestore.New(db, sqlitestore.Config{Table: table, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	var ids []int64
	for range 2 {
		id, err := store.EnqueueAutocommit(t.Context(), message("a"))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	lease := acquire(t, store, "one")
	for _, step := range []outbox.Step{
		{Record: []outbox.Batch{{No: 1, IDs: ids}}},
		{Outcomes: []outbox.Outcome{{Sequence: ids[0], Kind: outbox.Deferred}}},
	} {
		if err := lease.Step(t.Context(), step); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(time.Hour)

	orphans, err := acquire(t, store, "two").Recover(t.Context())

	if err != nil || len(orphans) != 1 || !slices.Equal(orphans[0].IDs, ids[1:]) || !orphans[0].Lost {
		t.Errorf("%+v %v", orphans, err)
	}
}

func TestTheStatusViewAgreesWithTheRecord(t *testing.T) {
	store, db := newMigrated(t)
	var ids []int64
	for range 7 {
		id, err := store.EnqueueAutocommit(t.Context(), message("a"))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	lease := acquire(t, store, "one")
	if err := lease.Step(t.Context(), outbox.Step{
		Outcomes: []outbox.Outcome{
			{Sequence: ids[1], Kind: outbox.Deferred, Delay: time.Hour},
			{Sequence: ids[3], Kind: outbox.Retry, Spent: 1, Delay: time.Hour, Error: "refused"},
			{Sequence: ids[4], Kind: outbox.Published, Spent: 1},
			{Sequence: ids[5], Kind: outbox.Dead, Reason: outbox.DeadPermanent},
			{Sequence: ids[6], Kind: outbox.Dead, Reason: outbox.DeadDiscarded},
		},
		Record: []outbox.Batch{{No: 1, IDs: ids[2:3]}},
	}); err != nil {
		t.Fatal(err)
	}

	list, err := store.List(t.Context(), outbox.Filter{OldestFirst: true})
	if err != nil {
		t.Fatal(err)
	}
	var got []outbox.Status
	for _, rec := range list.Records {
		var view outbox.Status
		err := db.QueryRowContext(t.Context(), "SELECT status FROM "+table+"_status WHERE sequence = ?", rec.Sequence).Scan(&view)
		if err != nil {
			t.Fatal(err)
		}
		if want := rec.Status(list.Now); view != want {
			t.Errorf("%d: the view says %s, the record %s", rec.Sequence, view, want)
		}
		got = append(got, view)
	}
	if !slices.Equal(got, outbox.Statuses) {
		t.Errorf("got %v, want %v", got, outbox.Statuses)
	}
}

func TestHistoryGoesWithItsMessage(t *testing.T) {
	store, db := newMigrated(t)
	id, err := store.EnqueueAutocommit(t.Context(), message("a"))
	if err != nil {
		t.Fatal(err)
	}
	lease := acquire(t, store, "one")
	for _, step := range []outbox.Step{
		{Outcomes: []outbox.Outcome{{Sequence: id, Kind: outbox.Retry, Spent: 1, Error: "refused"}}},
		{Outcomes: []outbox.Outcome{{Sequence: id, Attempts: 1, Spent: 1}}, Delete: true},
	} {
		if err := lease.Step(t.Context(), step); err != nil {
			t.Fatal(err)
		}
	}

	var left int
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table+"_attempt").Scan(&left); err != nil {
		t.Fatal(err)
	}
	if left != 0 {
		t.Errorf("%d attempts are left", left)
	}
}

func TestAPausedTableIsReported(t *testing.T) {
	store, db := newMigrated(t)
	lease := acquire(t, store, "one")
	mustExec(t, db, "INSERT INTO outbox_route (table_name, route, paused_at) VALUES (?, '', 1)", table)

	renewed, err := lease.Renew(t.Context(), outbox.Renewal{})
	if err != nil || !renewed.Paused {
		t.Errorf("%+v %v", renewed, err)
	}
	if err := lease.Release(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if !acquire(t, store, "two").Info().Paused {
		t.Error("a new lease does not know")
	}
}

func TestACallersTransactionStaysUsableAfterAConflict(t *testing.T) {
	store, db := newMigrated(t)
	taken := message("a")
	taken.EventID = uuid.New()
	if _, err := store.EnqueueAutocommit(t.Context(), taken); err != nil {
		t.Fatal(err)
	}
	other := taken
	other.Payload = []byte(`{"n":2}`)

	inTx(t, db, func(ctx context.Context, tx *sql.Tx) {
		_, err := store.EnqueueMany(ctx, tx, []outbox.Message{message("b"), other, message("c")})
		if !errors.Is(err, outbox.ErrEventIDConflict) {
			t.Errorf("conflict: %v", err)
		}
		if _, err := store.Enqueue(ctx, tx, message("d")); err != nil {
			t.Error(err)
		}
	})

	page := read(t, acquire(t, store, "one"), outbox.ReadRequest{Limit: 10})
	if len(page.Fresh) != 2 || page.Fresh[1].Key != "d" {
		t.Errorf("got %d messages", len(page.Fresh))
	}
}

func inTx(t *testing.T, db *sql.DB, fn func(context.Context, *sql.Tx)) {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	fn(t.Context(), tx)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}
