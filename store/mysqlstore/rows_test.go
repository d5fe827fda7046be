package mysqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/store/mysqlstore"
)

func TestBadTableNamesAreRefusedBeforeAnySQL(t *testing.T) {
	db := new(sql.DB)
	for _, name := range []string{
		"a`; DROP TABLE x; --", "Outbox", "1outbox", "a b", "öutbox", "a.b.c", "outbox_audit", strings.Repeat("a", 41),
	} {
		if _, err := mysqlstore.New(db, mysqlstore.Config{Table: name}); !errors.Is(err, outbox.ErrInvalidTable) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := mysqlstore.New(nil, mysqlstore.Config{}); !errors.Is(err, outbox.ErrInvalidConfig) {
		t.Errorf("no database: %v", err)
	}
}

func TestOnlyATransactionIsATx(t *testing.T) {
	tx := reflect.TypeFor[mysqlstore.Tx]()
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
	store, db := newMigrated(t, "time_zone=%27-11%3A00%27")
	sequence := insertRaw(t, db, "a.b.c.v1", "k", `{}`)

	page := read(t, acquire(t, store, "one"), outbox.ReadRequest{Limit: 10})

	rec := page.Fresh[0]
	if rec.Sequence != sequence || rec.EventID == uuid.Nil || rec.Corrupt != "" {
		t.Errorf("sequence %d, event id %s, corrupt %q", rec.Sequence, rec.EventID, rec.Corrupt)
	}
	if !rec.Due || !rec.AvailableAt.Equal(rec.CreatedAt) || time.Since(rec.CreatedAt).Abs() > time.Minute {
		t.Errorf("due %t, created %s, available %s", rec.Due, rec.CreatedAt, rec.AvailableAt)
	}
}

func TestAHostileRowIsCorruptAndTheOthersAreReadable(t *testing.T) {
	store, db := newMigrated(t)
	mustExec(t, db, "ALTER TABLE "+table+" DROP CONSTRAINT "+table+"_times") // as if another tool had made it
	const insert = "INSERT INTO " + table + " (topic, payload, headers, routes_done, event_id) VALUES ('a.b', '{}', ?, ?, ?)"
	mustExec(t, db, insert, "not json", nil, uuid.NewString())
	mustExec(t, db, insert, `{"n":1}`, nil, uuid.NewString())
	mustExec(t, db, insert, nil, `{}`, uuid.NewString())
	mustExec(t, db, insert, nil, nil, strings.Repeat("z", 36))
	mustExec(t, db, "INSERT INTO "+table+" (topic, payload, created_at) VALUES ('a.b', '{}', '0000-00-00')")
	mustExec(t, db, insert, nil, nil, uuid.NewString())

	lease := acquire(t, store, "one")
	page := read(t, lease, outbox.ReadRequest{Limit: 10, Due: 10})

	var corrupt []string
	for _, rec := range append(page.Fresh, page.Others...) {
		if rec.Corrupt != "" {
			corrupt = append(corrupt, rec.Corrupt)
		}
		if err := lease.Step(t.Context(), outbox.Step{Outcomes: []outbox.Outcome{
			{Sequence: rec.Sequence, Kind: outbox.Dead, Reason: outbox.DeadCorrupt, Error: rec.Corrupt},
		}}); err != nil {
			t.Errorf("%d cannot be given up: %v", rec.Sequence, err)
		}
	}
	if len(page.Fresh) != 6 || len(corrupt) != 5 || !strings.Contains(corrupt[4], "zero date") {
		t.Errorf("%d messages, corrupt %q", len(page.Fresh), corrupt)
	}
}

func TestTheSchemaRefusesWhatNoProgramMayWrite(t *testing.T) {
	for _, mode := range []string{"STRICT_TRANS_TABLES", ""} {
		_, db := newMigrated(t, "sql_mode=%27"+mode+"%27")
		for _, insert := range []string{
			`(topic, payload) VALUES ('', '{}')`,
			`(topic, payload) VALUES (NULL, '{}')`,
			`(topic, payload) VALUES ('a.b', NULL)`,
			`(topic, payload, attempts) VALUES ('a.b', '{}', -1)`,
			`(topic, payload, created_at) VALUES ('a.b', '{}', '0000-00-00 00:00:00')`,
			`(topic, payload, available_at) VALUES ('a.b', '{}', '0000-00-00')`,
			`(topic, payload, event_id) VALUES ('a.b', '{}', 'short')`,
			`(topic, payload, event_id) VALUES ('a.b', '{}', 'F47AC10B-58CC-4372-A567-0E02B2C3D479')`,
		} {
			if _, err := db.ExecContext(t.Context(), "INSERT INTO "+table+" "+insert); err == nil {
				t.Errorf("%q accepts: %s", mode, insert)
			}
		}
	}
}

// The connection of a producer may have any character set; a relay's is checked.
func TestTextsArriveWhateverTheCharacterSetOfTheProducer(t *testing.T) {
	m := testenv.MySQL(t)
	store := newStore(t, m.Open(t))
	migrated(t, store)
	msg := message("größer 😀 Ω")
	msg.TenantID, msg.Headers = "ünï", map[string]string{"x-shop": "Köln 😀"}
	msg.Payload = []byte(`{"text":"äöü 😀"}`)
	var params []string
	for _, charset := range []string{"utf8mb4", "utf8", "latin1", "ascii"} {
		for _, interpolate := range []string{"false", "true"} {
			params = append(params, "charset="+charset+"&interpolateParams="+interpolate)
		}
	}
	for _, p := range params {
		db := m.Open(t, p)
		inTx(t, db, func(ctx context.Context, tx *sql.Tx) {
			if _, err := newStore(t, db).EnqueueMany(ctx, tx, []outbox.Message{msg, msg}); err != nil {
				t.Errorf("%s: %v", p, err)
			}
		})
	}

	page := read(t, acquire(t, store, "one"), outbox.ReadRequest{Limit: 100})

	if len(page.Fresh) != 2*len(params) {
		t.Fatalf("%d messages", len(page.Fresh))
	}
	for i, rec := range page.Fresh {
		if rec.Key != msg.Key || rec.TenantID != msg.TenantID || rec.Headers["x-shop"] != "Köln 😀" || string(rec.Payload) != string(msg.Payload) {
			t.Errorf("%s: %q %q %v %s", params[i/2], rec.Key, rec.TenantID, rec.Headers, rec.Payload)
		}
	}
}

func TestTimesAreTheServersInUTCWhateverTheConnectionSays(t *testing.T) {
	m := testenv.MySQL(t)
	migrated(t, newStore(t, m.Open(t)))
	for _, zone := range []string{"%2B00%3A00", "%2B13%3A00", "-11%3A00", "%2B05%3A30"} {
		for _, loc := range []string{"UTC", "Local", "America%2FNew_York", "Asia%2FKathmandu"} {
			for _, parse := range []string{"true", "false"} {
				params := fmt.Sprintf("time_zone=%%27%s%%27&loc=%s&parseTime=%s", zone, loc, parse)
				db := m.Open(t, params)
				checkTimes(t, params, db)
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// checkTimes looks at one message that is due now, and at others on days when some
// clocks have no such hour or have it twice.
func checkTimes(t *testing.T, params string, db *sql.DB) {
	t.Helper()
	store := newStore(t, db)
	for _, at := range []time.Time{
		{},
		time.Date(2045, 3, 26, 2, 30, 0, 123456000, time.UTC),
		time.Date(2045, 3, 12, 2, 30, 0, 0, time.UTC),
		time.Date(2045, 10, 29, 2, 30, 0, 0, time.UTC),
		time.Date(2045, 11, 5, 1, 30, 0, 0, time.FixedZone("", -4*3600)),
	} {
		msg := message("a")
		msg.EventID, msg.AvailableAt = uuid.New(), at
		if _, err := store.EnqueueAutocommit(t.Context(), msg); err != nil {
			t.Fatalf("%s: %v", params, err)
		}
		rec, err := store.Get(t.Context(), msg.EventID)
		if err != nil {
			t.Fatalf("%s: %v", params, err)
		}
		if time.Since(rec.CreatedAt).Abs() > time.Minute || rec.Due != at.IsZero() {
			t.Errorf("%s: created at %s, due %t", params, rec.CreatedAt, rec.Due)
		}
		if !at.IsZero() && !rec.AvailableAt.Equal(at) {
			t.Errorf("%s: available at %s, want %s", params, rec.AvailableAt, at)
		}
	}
}

func TestSequencesOfAServerThatSkipsNumbersAreRight(t *testing.T) {
	store, db := newMigrated(t, "auto_increment_increment=3", "auto_increment_offset=2")
	msgs := make([]outbox.Message, 123)
	for i := range msgs {
		msgs[i] = message(fmt.Sprint("key-", i))
		msgs[i].EventID = uuid.New()
	}
	var ids []int64
	inTx(t, db, func(ctx context.Context, tx *sql.Tx) {
		var err error
		if ids, err = store.EnqueueMany(ctx, tx, msgs); err != nil {
			t.Fatal(err)
		}
	})

	for i, rec := range read(t, acquire(t, store, "one"), outbox.ReadRequest{Limit: 200}).Fresh {
		if rec.Sequence != ids[i] || rec.EventID != msgs[i].EventID {
			t.Fatalf("message %d has sequence %d, want %d", i, rec.Sequence, ids[i])
		}
	}
}

func TestLargePayloadsArriveUnchanged(t *testing.T) {
	m := testenv.MySQL(t)
	db := m.Open(t)
	store, err := mysqlstore.New(db, mysqlstore.Config{Table: table, Gate: outbox.Gate{MaxPayload: 8 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	migrated(t, store)
	msgs := make([]outbox.Message, 12)
	for i := range msgs {
		msgs[i] = message("a")
		msgs[i].ContentType = "application/octet-stream"
		msgs[i].Payload = []byte(strings.Repeat("\x00\xff'\\?", 1<<18)) // more than a packet together
	}
	msgs[3].Payload = []byte(strings.Repeat("\xfe", 7<<20))

	inTx(t, db, func(ctx context.Context, tx *sql.Tx) {
		if _, err := store.EnqueueMany(ctx, tx, msgs); err != nil {
			t.Fatal(err)
		}
	})

	page := read(t, acquire(t, store, "one"), outbox.ReadRequest{Limit: 100, MaxBytes: 100 << 20})
	for i, rec := range page.Fresh {
		if string(rec.Payload) != string(msgs[i].Payload) {
			t.Errorf("message %d has %d bytes, want %d", i, len(rec.Payload), len(msgs[i].Payload))
		}
	}
	if len(page.Fresh) != len(msgs) {
		t.Errorf("%d messages", len(page.Fresh))
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
		for _, statement := range []string{"START TRANSACTION", end} {
			if statement == end {
				if _, err := store.EnqueueConn(t.Context(), conn, message(end)); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := conn.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
	}

	page := read(t, acquire(t, store, "one"), outbox.ReadRequest{Limit: 10})
	if len(page.Fresh) != 1 || page.Fresh[0].Key != "COMMIT" {
		t.Errorf("got %d messages", len(page.Fresh))
	}
}

func TestAPublisherWritesIntoTheTableThatIsNamed(t *testing.T) {
	store, db := newMigrated(t)
	p := mysqlstore.NewPublisher(mysqlstore.PublisherConfig{})
	var id int64
	inTx(t, db, func(ctx context.Context, tx *sql.Tx) {
		var err error
		if id, err = p.Enqueue(ctx, tx, table, message("a")); err != nil {
			t.Error(err)
		}
		for _, bad := range []string{"", "a`b", "Upper"} {
			if _, err := p.Enqueue(ctx, tx, bad, message("a")); !errors.Is(err, outbox.ErrInvalidTable) {
				t.Errorf("%q: %v", bad, err)
			}
		}
		if _, err := p.Enqueue(ctx, tx, "nowhere", message("a")); !errors.Is(err, outbox.ErrSchema) {
			t.Errorf("a table that does not exist: %v", err)
		}
	})

	if page := read(t, acquire(t, store, "one"), outbox.ReadRequest{Limit: 10}); page.Last != id {
		t.Errorf("read up to %d, want %d", page.Last, id)
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
	if err := acquire(t, store, "one").Step(t.Context(), outbox.Step{
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

func TestHistoryOfDeletedMessagesIsPurged(t *testing.T) {
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

	if _, err := store.Purge(t.Context(), outbox.PurgeRequest{Published: time.Hour, Limit: 10}); err != nil {
		t.Fatal(err)
	}

	if left := count(t, db, "SELECT COUNT(*) FROM "+table+"_attempt"); left != 0 {
		t.Errorf("%d attempts are left", left)
	}
}

func TestAPausedTableIsReported(t *testing.T) {
	store, db := newMigrated(t)
	lease := acquire(t, store, "one")
	mustExec(t, db, "INSERT INTO outbox_route (table_name, route, paused_at) VALUES (?, '', UTC_TIMESTAMP(6))", table)

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

func count(t testing.TB, db *sql.DB, query string, args ...any) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
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
