package gormstore_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/relay"
	"github.com/go-outbox/outbox/store/gormstore"
)

func TestTheModelReadsWhatTheInspectorReads(t *testing.T) {
	for name, open := range backends {
		t.Run(name, func(t *testing.T) {
			b := open(t, gorm.Config{})
			full := outbox.Message{
				Topic: "shop.order.placed.v2", Payload: []byte(`{"n": 1}`), Key: "order/1 ünïcode", EventID: uuid.New(), TenantID: "t1",
				Headers: map[string]string{"x-shop": "berlin", "quote": `"`}, ContentType: "application/json; charset=utf-8",
				AggregateType: "Order", AggregateID: "1", EventType: "OrderPlaced", AvailableAt: time.Now().Add(time.Hour),
				TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", TraceState: "a=b",
			}
			b.commit(t, full, message("dies"), message("works"))
			b.relay(t)

			var models []gormstore.Message
			ok(t, b.db.Table(b.table).Order("sequence").Find(&models).Error)

			if len(models) != 3 {
				t.Fatalf("%d messages, want 3", len(models))
			}
			for _, m := range models {
				want, err := b.store.Get(t.Context(), m.EventID)
				ok(t, err)
				want.Due = false // not in the row
				got := m.Record()
				normalise(got)
				normalise(want)
				if !reflect.DeepEqual(got, want) {
					t.Errorf("got  %+v\nwant %+v", got, want)
				}
			}
			if dead := models[1].Record(); dead.Status(time.Now()) != outbox.StatusDead || dead.LastError == "" {
				t.Errorf("the second message is %s with the error %q", dead.Status(time.Now()), dead.LastError)
			}
			if models[2].PublishedAt.IsZero() || models[2].PublishedAt.Location() != time.UTC {
				t.Errorf("published at %v", models[2].PublishedAt)
			}
		})
	}
}

// normalise makes nil and empty the same.
func normalise(r *outbox.Record) {
	if len(r.Headers) == 0 {
		r.Headers = nil
	}
	if len(r.RoutesDone) == 0 {
		r.RoutesDone = nil
	}
}

func (b *backend) commit(t *testing.T, msgs ...outbox.Message) {
	t.Helper()
	ok(t, b.db.Transaction(func(tx *gorm.DB) error {
		for _, msg := range msgs {
			if _, err := b.enqueue(t.Context(), tx, msg); err != nil {
				return err
			}
		}
		return nil
	}))
}

// relay publishes what is due, except for what has the key "dies".
func (b *backend) relay(t *testing.T) {
	t.Helper()
	r, err := relay.New(b.store, outbox.DispatcherFunc(func(_ context.Context, msg outbox.DispatchedMessage) error {
		if msg.Meta.Key == "dies" {
			return outbox.Permanent(errBusiness)
		}
		return nil
	}), relay.Config{})
	ok(t, err)
	_, err = r.PublishPending(t.Context())
	ok(t, err)
}

func TestConditionsOnTimesWorkOnEveryDatabase(t *testing.T) {
	for name, open := range backends {
		t.Run(name, func(t *testing.T) {
			b := open(t, gorm.Config{})
			b.commit(t, message("a"))
			count := func(condition string, args ...any) (n int64) {
				ok(t, b.db.Table(b.table).Model(&gormstore.Message{}).Where(condition, args...).Count(&n).Error)
				return n
			}
			hour := time.Hour
			if n := count("created_at BETWEEN ? AND ?", gormstore.At(time.Now().Add(-hour)), gormstore.At(time.Now().Add(hour))); n != 1 {
				t.Errorf("%d messages of this hour, want 1", n)
			}
			if n := count("created_at < ?", gormstore.At(time.Now().Add(-hour))); n != 0 {
				t.Errorf("%d messages are older than an hour, want 0", n)
			}
			if n := count("published_at IS NULL"); n != 1 {
				t.Errorf("%d messages are not published, want 1", n)
			}
		})
	}
}

func TestTheModelCannotBeWritten(t *testing.T) {
	b := sqliteBackend(t, gorm.Config{})
	b.commit(t, message("a"))
	var m gormstore.Message
	ok(t, b.db.Table(b.table).First(&m).Error)
	messages := func() *gorm.DB { return b.db.Table(b.table) }
	for name, err := range map[string]error{
		"create": messages().Create(&gormstore.Message{Topic: "a.b.c.v1", Payload: []byte("{}")}).Error,
		"save":   messages().Save(&m).Error,
		"update": messages().Model(&m).Update("published_at", gormstore.At(time.Now())).Error,
		"many":   messages().Model(&gormstore.Message{}).Where("1 = 1").Updates(map[string]any{"attempts": 7}).Error,
		"delete": messages().Delete(&m).Error,
	} {
		if !errors.Is(err, outbox.ErrNotApplicable) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	var again gormstore.Message
	ok(t, messages().First(&again).Error)
	if !reflect.DeepEqual(m, again) {
		t.Errorf("the message has changed from %+v to %+v", m, again)
	}
}

func TestARecordSurvivesTheModel(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Microsecond)
	for _, r := range []*outbox.Record{
		{},
		{
			Sequence: 7, EventID: uuid.New(), TenantID: "t", Topic: "a.b.c.v1", Key: "k", Payload: []byte(`{}`),
			AggregateType: "A", AggregateID: "1", EventType: "B", EventVersion: 2, ContentType: "text/plain",
			Headers: map[string]string{"a": "b"}, TraceParent: "p", TraceState: "s",
			CreatedAt: now, AvailableAt: now.Add(1), PublishedAt: now.Add(2), DeadAt: now.Add(3),
			DeadReason: "permanent", LastError: "e", Attempts: 3, Crashes: 1, Replays: 2, RoutesDone: []string{"x", "y"},
		},
	} {
		if got := gormstore.FromRecord(r).Record(); !reflect.DeepEqual(got, r) {
			t.Errorf("got  %+v\nwant %+v", got, r)
		}
	}
}

func TestARowThatIsNoMessageIsCorrupt(t *testing.T) {
	m := gormstore.Message{Headers: "[]", RoutesDone: "nonsense"}
	if got := m.Record().Corrupt; got != "headers are not a JSON object of strings; routes_done is not a list of texts" {
		t.Errorf("got %q", got)
	}
}

func TestRoutesAreReadInBothForms(t *testing.T) {
	for text, want := range map[string][]string{
		"": nil, `{}`: nil, `[]`: {}, `{a}`: {"a"}, `{a,b}`: {"a", "b"}, `["a","b c"]`: {"a", "b c"},
		`{"b c","","q\"\\",x}`: {"b c", "", `q"\`, "x"}, `{""}`: {""},
	} {
		m := gormstore.Message{RoutesDone: text}
		if got := m.Record(); !slices.Equal(got.RoutesDone, want) || got.Corrupt != "" {
			t.Errorf("%s: got %q (corrupt: %q), want %q", text, got.RoutesDone, got.Corrupt, want)
		}
	}
}

func TestTimesAreReadFromEveryDriver(t *testing.T) {
	want := time.Date(2026, 2, 3, 4, 5, 6, 7000, time.UTC)
	for _, value := range []any{want, want.In(time.FixedZone("", 3600)), want.UnixMicro(), "2026-02-03 04:05:06.000007", []byte("2026-02-03 04:05:06.000007")} {
		var got gormstore.Time
		ok(t, got.Scan(value))
		if !got.Equal(want) {
			t.Errorf("%T: got %v", value, got)
		}
	}
	var got gormstore.Time
	ok(t, got.Scan(nil))
	if !got.IsZero() {
		t.Errorf("NULL is %v", got)
	}
	for _, value := range []any{"yesterday", true} {
		if got.Scan(value) == nil {
			t.Errorf("%v is taken for a time", value)
		}
	}
}

// describe is everything the database says about the columns of a table, in order.
var describe = map[string]string{
	"postgres": `SELECT column_name, udt_name, is_nullable, coalesce(column_default, '-'), is_identity, coalesce(identity_generation, '-'),
		is_generated, coalesce(generation_expression, '-'), coalesce(collation_name, '-')
		FROM information_schema.columns WHERE table_name = $1 ORDER BY ordinal_position`,
	"mysql": `SELECT column_name, column_type, is_nullable, coalesce(column_default, '-'), extra, coalesce(generation_expression, '-'),
		coalesce(character_set_name, '-'), coalesce(collation_name, '-'), ''
		FROM information_schema.columns WHERE table_schema = database() AND table_name = ? ORDER BY ordinal_position`,
	"sqlite": `SELECT name, type, "notnull", replace(replace(coalesce(dflt_value, '-'), ' ', ''), char(10), ''), pk, hidden, '', '', ''
		FROM pragma_table_xinfo(?) ORDER BY cid`,
}

func (b *backend) columns(t *testing.T, table string) []string {
	t.Helper()
	rows, err := b.sql.QueryContext(t.Context(), describe[b.db.Name()], table)
	ok(t, err)
	defer rows.Close()
	var columns []string
	for rows.Next() {
		var c [9]string
		ok(t, rows.Scan(&c[0], &c[1], &c[2], &c[3], &c[4], &c[5], &c[6], &c[7], &c[8]))
		columns = append(columns, fmt.Sprintf("%q", c))
	}
	ok(t, rows.Err())
	return columns
}

func TestAutoMigrateCreatesTheColumnsOfTheVersionedSchema(t *testing.T) {
	for name, open := range backends {
		t.Run(name, func(t *testing.T) {
			b := open(t, gorm.Config{})
			ok(t, b.db.Table("made_by_gorm").AutoMigrate(&gormstore.Message{}))

			got, want := b.columns(t, "made_by_gorm"), b.columns(t, b.table)

			if len(want) < 25 {
				t.Fatalf("found only the columns %s", want)
			}
			if len(got) != len(want) {
				t.Errorf("%d columns, want %d", len(got), len(want))
			}
			for i := range min(len(got), len(want)) {
				if got[i] != want[i] {
					t.Errorf("got  %s\nwant %s", got[i], want[i])
				}
			}
		})
	}
}

func TestTheModelHasEveryColumnThatIsNotComputed(t *testing.T) {
	for name, open := range backends {
		t.Run(name, func(t *testing.T) {
			b := open(t, gorm.Config{})
			stmt := &gorm.Statement{DB: b.db}
			ok(t, stmt.Parse(&gormstore.Message{}))
			types, err := b.db.Table(b.table).Migrator().ColumnTypes(b.table)
			ok(t, err)
			inTable := map[string]bool{}
			for _, c := range types {
				inTable[c.Name()] = true
			}
			delete(inTable, "slot") // the shard, and what an index of MySQL is on:
			delete(inTable, "held") // computed by the server, for the relay
			inModel := map[string]bool{}
			for _, column := range stmt.Schema.DBNames {
				inModel[column] = true
			}
			if name == "sqlite" {
				inTable["event_id"] = true // GORM's parser does not see a column of several lines
			}
			if !maps.Equal(inTable, inModel) {
				t.Errorf("the table has %v, the model %v", inTable, inModel)
			}
		})
	}
}

func TestAutoMigrateLeavesTheVersionedSchemaAlone(t *testing.T) {
	for name, open := range backends {
		t.Run(name, func(t *testing.T) {
			b := open(t, gorm.Config{})
			columns, indexes := b.columns(t, b.table), b.indexes(t)

			ok(t, b.db.Table(b.table).AutoMigrate(&gormstore.Message{}))

			if got := b.columns(t, b.table); !slices.Equal(got, columns) {
				t.Errorf("the columns were %s and are %s", columns, got)
			}
			if got := b.indexes(t); !slices.Equal(got, indexes) || len(got) < 3 {
				t.Errorf("the indexes were %s and are %s", indexes, got)
			}
			ok(t, b.store.CheckSchema(t.Context()))
		})
	}
}

func TestATableMadeByGORMTakesMessagesAndNoRelay(t *testing.T) {
	for name, open := range backends {
		t.Run(name, func(t *testing.T) {
			b := open(t, gorm.Config{})
			const table = "dev_outbox"
			ok(t, b.db.Table(table).AutoMigrate(&gormstore.Message{}))
			enqueue, check := b.producer(t, table)

			ok(t, b.db.Transaction(func(tx *gorm.DB) error { return enqueue(tx, message("a")) }))

			var m gormstore.Message
			ok(t, b.db.Table(table).Take(&m).Error)
			if m.Sequence != 1 || m.Key != "a" || time.Since(m.CreatedAt.Time).Abs() > time.Hour || m.EventID == uuid.Nil {
				t.Errorf("got %+v", m)
			}
			if err := check(t.Context()); !errors.Is(err, outbox.ErrSchema) {
				t.Errorf("CheckSchema: got %v", err)
			}
		})
	}
}

func (b *backend) indexes(t *testing.T) []string {
	t.Helper()
	query := map[string]string{
		"postgres": "SELECT indexdef FROM pg_indexes WHERE tablename = $1 ORDER BY 1",
		"mysql": `SELECT concat_ws(' ', index_name, seq_in_index, column_name, non_unique) FROM information_schema.statistics
			WHERE table_schema = database() AND table_name = ? ORDER BY 1`,
		"sqlite": "SELECT name || coalesce(sql, '') FROM sqlite_master WHERE type = 'index' AND tbl_name = ? ORDER BY 1",
	}[b.db.Name()]
	rows, err := b.sql.QueryContext(t.Context(), query, b.table)
	ok(t, err)
	defer rows.Close()
	var indexes []string
	for rows.Next() {
		var index string
		ok(t, rows.Scan(&index))
		indexes = append(indexes, index)
	}
	ok(t, rows.Err())
	return indexes
}
