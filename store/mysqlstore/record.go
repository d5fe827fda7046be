package mysqlstore

import (
	"database/sql"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

// A scanner reads messages. It remembers short texts, of which a table has few different
// ones, and is not safe for concurrent use.
type scanner struct {
	part, sequence, created, available, due int64
	attempts, crashes, replays, version     int64
	text                                    [textColumns]sql.RawBytes
	payload                                 []byte
	published, dead                         int64
	reason                                  string
	known                                   map[string]string
}

// The texts of a message, in the order of record.
const (
	textEventID = iota
	textTenant
	textTopic
	textKey
	textAggregateType
	textAggregateID
	textEventType
	textContentType
	textHeaders
	textTraceParent
	textTraceState
	textError
	textRoutes
	textColumns
)

// read reads the columns of a part of a page; scan makes a record of them.
func (s *scanner) read(rows *sql.Rows) error { return rows.Scan(s.dest()...) }

// readShown reads the columns of a message for people.
func (s *scanner) readShown(rows *sql.Rows) error {
	return rows.Scan(append(s.dest(), &s.published, &s.dead, &s.reason)...)
}

func (s *scanner) dest() []any {
	s.payload = nil // the last one belongs to its record
	dest := []any{
		&s.part, &s.sequence, &s.created, &s.available, &s.due,
		&s.attempts, &s.crashes, &s.replays, &s.version,
	}
	for i := range s.text {
		dest = append(dest, &s.text[i])
	}
	return append(dest, &s.payload)
}

// record makes a record of what was read last. What another program has written into a
// row can make it unreadable as a message, but must not make the table unreadable: such a
// row comes back with Corrupt set.
func (s *scanner) record() *outbox.Record {
	r := &outbox.Record{
		Sequence: s.sequence, CreatedAt: moment(s.created), AvailableAt: moment(s.available), Due: s.due != 0,
		Attempts: int(s.attempts), Crashes: int(s.crashes), Replays: int(s.replays), EventVersion: int(s.version),
		TenantID: s.short(textTenant), Topic: s.short(textTopic), Key: string(s.text[textKey]),
		AggregateType: s.short(textAggregateType), AggregateID: string(s.text[textAggregateID]),
		EventType: s.short(textEventType), ContentType: s.short(textContentType),
		TraceParent: string(s.text[textTraceParent]), TraceState: string(s.text[textTraceState]),
		LastError: string(s.text[textError]), Payload: s.payload,
		PublishedAt: moment(s.published), DeadAt: moment(s.dead), DeadReason: s.reason,
	}
	r.Corrupt = s.decode(r)
	return r
}

// decode fills in what needs parsing and says what is wrong with the row, or "".
func (s *scanner) decode(r *outbox.Record) string {
	var wrong []string
	var err error
	if r.EventID, err = uuid.ParseBytes(s.text[textEventID]); err != nil {
		wrong = append(wrong, "event_id is not a UUID")
	}
	if h := s.text[textHeaders]; h != nil && json.Unmarshal(h, &r.Headers) != nil {
		wrong = append(wrong, "headers are not a JSON object of strings")
	}
	if d := s.text[textRoutes]; d != nil && json.Unmarshal(d, &r.RoutesDone) != nil {
		wrong = append(wrong, "routes_done is not a JSON array of strings")
	}
	if !utf8.ValidString(r.Topic) || !utf8.ValidString(r.Key) {
		wrong = append(wrong, "topic or msg_key is not valid UTF-8")
	}
	if s.created == 0 || s.available == 0 {
		wrong = append(wrong, "created_at or available_at is a zero date")
	}
	return strings.Join(wrong, "; ")
}

// maxKnown bounds what a scanner remembers.
const maxKnown = 1000

// short is a text that many messages share.
func (s *scanner) short(column int) string {
	raw := s.text[column]
	if len(raw) == 0 {
		return ""
	}
	if text, ok := s.known[string(raw)]; ok {
		return text
	}
	if s.known == nil || len(s.known) >= maxKnown {
		s.known = make(map[string]string)
	}
	text := string(raw)
	s.known[text] = text
	return text
}
