package gormstore

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"github.com/go-outbox/outbox"
)

// A Message is a row of an outbox table, for reading. Its table is "outbox"; name
// another one in the query:
//
//	db.Table("shop_outbox").Where("tenant_id = ?", tenant).Find(&messages)
//
// NULL is the zero value. A row that GORM has read has the times in UTC. On MySQL with
// parseTime and a loc that has daylight saving time, times of the hour that the clocks
// skip once a year are an hour off: the driver cannot express them. With loc=UTC, which
// is its default, or without parseTime they are right.
//
// AutoMigrate creates the table for development, with the columns of the versioned
// schema and without its indexes and side tables: producers and readers work on it, a
// relay asks for the store's Migrate. On a table that exists AutoMigrate changes
// nothing, whatever the versioned schema has become since.
type Message struct {
	// GORM compares the columns of an existing table with the model as text and
	// would drop the defaults and unique indexes that no tag can express. So only
	// Sequence takes part in migrations, and its type defines the whole table.
	Sequence      Sequence  `gorm:"column:sequence;primaryKey;precision:19;->"`
	CreatedAt     Time      `gorm:"column:created_at;autoCreateTime:false;-:migration;->"`
	AvailableAt   Time      `gorm:"column:available_at;-:migration;->"`
	PublishedAt   Time      `gorm:"column:published_at;-:migration;->"`
	DeadAt        Time      `gorm:"column:dead_at;-:migration;->"`
	LockedAt      Time      `gorm:"column:locked_at;-:migration;->"`
	Attempts      int       `gorm:"column:attempts;-:migration;->"`
	Crashes       int       `gorm:"column:crashes;-:migration;->"`
	Replays       int       `gorm:"column:replays;-:migration;->"`
	EventVersion  int       `gorm:"column:event_version;-:migration;->"`
	EventID       uuid.UUID `gorm:"column:event_id;-:migration;->"`
	TenantID      string    `gorm:"column:tenant_id;-:migration;->"`
	Topic         string    `gorm:"column:topic;-:migration;->"`
	Key           string    `gorm:"column:msg_key;-:migration;->"`
	AggregateType string    `gorm:"column:aggregate_type;-:migration;->"`
	AggregateID   string    `gorm:"column:aggregate_id;-:migration;->"`
	EventType     string    `gorm:"column:event_type;-:migration;->"`
	ContentType   string    `gorm:"column:content_type;-:migration;->"`
	Headers       string    `gorm:"column:headers;-:migration;->"` // JSON
	TraceParent   string    `gorm:"column:traceparent;-:migration;->"`
	TraceState    string    `gorm:"column:tracestate;-:migration;->"`
	DeadReason    string    `gorm:"column:dead_reason;-:migration;->"`
	LastError     string    `gorm:"column:last_error;-:migration;->"`
	RoutesDone    string    `gorm:"column:routes_done;-:migration;->"` // text[] or JSON
	Payload       []byte    `gorm:"column:payload;-:migration;->"`
}

// TableName is the default name of an outbox.
func (Message) TableName() string { return "outbox" }

// AfterFind turns the times into UTC. Those of MySQL are UTC without saying so, and the
// driver takes them for times of the connection's loc.
func (m *Message) AfterFind(tx *gorm.DB) error {
	for _, t := range []*Time{&m.CreatedAt, &m.AvailableAt, &m.PublishedAt, &m.DeadAt, &m.LockedAt} {
		if tx.Name() == "mysql" {
			t.Time = wallClock(t.Time)
		}
		*t = At(t.Time)
	}
	return nil
}

// BeforeCreate refuses: see Enqueue.
func (*Message) BeforeCreate(*gorm.DB) error { return errReadOnly }

// BeforeUpdate refuses: see outbox.Operator.
func (*Message) BeforeUpdate(*gorm.DB) error { return errReadOnly }

// BeforeDelete refuses: see relay.Cleaner.
func (*Message) BeforeDelete(*gorm.DB) error { return errReadOnly }

var errReadOnly = outbox.ErrNotApplicable.With("gormstore.Message",
	"is for reading: messages are written by Enqueue, changed by an Operator and deleted by a Cleaner")

// Record returns the message as the domain type. A row that cannot be read as a message
// has Corrupt set. InFlight and Due are not known from the row alone: ask an
// outbox.Inspector.
func (m *Message) Record() *outbox.Record {
	r := &outbox.Record{
		Sequence: int64(m.Sequence), EventID: m.EventID, TenantID: m.TenantID, Topic: m.Topic, Key: m.Key, Payload: m.Payload,
		AggregateType: m.AggregateType, AggregateID: m.AggregateID, EventType: m.EventType, EventVersion: m.EventVersion,
		ContentType: m.ContentType, TraceParent: m.TraceParent, TraceState: m.TraceState,
		CreatedAt: m.CreatedAt.Time, AvailableAt: m.AvailableAt.Time, PublishedAt: m.PublishedAt.Time, DeadAt: m.DeadAt.Time,
		DeadReason: m.DeadReason, LastError: m.LastError,
		Attempts: m.Attempts, Crashes: m.Crashes, Replays: m.Replays,
	}
	var wrong []string
	var err error
	if m.Headers != "" && json.Unmarshal([]byte(m.Headers), &r.Headers) != nil {
		r.Headers = nil
		wrong = append(wrong, "headers are not a JSON object of strings")
	}
	if r.RoutesDone, err = parseRoutes(m.RoutesDone); err != nil {
		r.RoutesDone = nil
		wrong = append(wrong, "routes_done is not a list of texts")
	}
	r.Corrupt = strings.Join(wrong, "; ")
	return r
}

// FromRecord returns the model of a record, such as one that an outbox.Inspector found.
func FromRecord(r *outbox.Record) *Message {
	return &Message{
		Sequence: Sequence(r.Sequence), EventID: r.EventID, TenantID: r.TenantID, Topic: r.Topic, Key: r.Key, Payload: r.Payload,
		AggregateType: r.AggregateType, AggregateID: r.AggregateID, EventType: r.EventType, EventVersion: r.EventVersion,
		ContentType: r.ContentType, TraceParent: r.TraceParent, TraceState: r.TraceState,
		CreatedAt: At(r.CreatedAt), AvailableAt: At(r.AvailableAt), PublishedAt: At(r.PublishedAt), DeadAt: At(r.DeadAt),
		DeadReason: r.DeadReason, LastError: r.LastError,
		Attempts: r.Attempts, Crashes: r.Crashes, Replays: r.Replays, Headers: jsonText(r.Headers, len(r.Headers)), RoutesDone: jsonText(r.RoutesDone, len(r.RoutesDone)),
	}
}

// jsonText is the JSON of a map or list of n strings, or "" for none.
func jsonText(v any, n int) string {
	if n == 0 {
		return ""
	}
	text, _ := json.Marshal(v) // strings have always a JSON form
	return string(text)
}

// wallClock is the time that the clock on the wall of t shows, in UTC.
func wallClock(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}
