package sqlitestore

import (
	"database/sql"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

// scanRecord reads the columns of a Record. What another program has written into a
// row can make it unreadable as a message, but must not make the table unreadable:
// such a row comes back with Corrupt set.
func scanRecord(rows *sql.Rows, now int64) (*outbox.Record, error) {
	var (
		r                                     outbox.Record
		id                                    string
		headers, routes                       sql.NullString
		created, available, publishedAt, dead int64
	)
	err := rows.Scan(&r.Sequence, &id, &r.TenantID, &r.Topic, &r.Key,
		&r.AggregateType, &r.AggregateID, &r.EventType, &r.EventVersion, &r.ContentType, &headers,
		&r.TraceParent, &r.TraceState,
		&created, &available, &publishedAt, &dead,
		&r.DeadReason, &r.LastError, &r.Attempts, &r.Crashes, &r.Replays, &routes,
		(*[]byte)(&r.Payload), &r.InFlight)
	if err != nil {
		return nil, err
	}
	r.CreatedAt, r.AvailableAt = moment(created), moment(available)
	r.PublishedAt, r.DeadAt = moment(publishedAt), moment(dead)
	r.Due = available <= now
	r.Corrupt = decode(&r, id, headers, routes)
	return &r, nil
}

// decode fills in what needs parsing and says what is wrong with the row, or "".
func decode(r *outbox.Record, id string, headers, routes sql.NullString) string {
	var wrong []string
	var err error
	if r.EventID, err = uuid.Parse(id); err != nil {
		wrong = append(wrong, "event_id is not a UUID")
	}
	if headers.Valid && json.Unmarshal([]byte(headers.String), &r.Headers) != nil {
		wrong = append(wrong, "headers are not a JSON object of strings")
	}
	if routes.Valid && json.Unmarshal([]byte(routes.String), &r.RoutesDone) != nil {
		wrong = append(wrong, "routes_done is not a JSON array of strings")
	}
	if !utf8.ValidString(r.Topic) || !utf8.ValidString(r.Key) {
		wrong = append(wrong, "topic or msg_key is not valid UTF-8")
	}
	return strings.Join(wrong, "; ")
}

// moment is a stored time; 0 stands for NULL.
func moment(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// micros is a time as it is stored.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}
