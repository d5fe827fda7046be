package pgstore

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/go-outbox/outbox"
)

// binaryResults asks for every column in the binary format that scanner reads.
var binaryResults = pgx.QueryResultFormats{pgx.BinaryFormatCode}

// Positions of the columns a scanner reads; see layout.go.
const (
	colPart = iota
	colSequence
	colEventID
	colTenant
	colTopic
	colKey
	colPayload
	colAggregateType
	colAggregateID
	colEventType
	colContentType
	colHeaders
	colTraceParent
	colTraceState
	colLastError
	colVersion
	colAttempts
	colCrashes
	colReplays
	colCreatedAt
	colAvailableAt
	colRoutesDone
	colDue
	// Only an inspector reads what follows.
	colPublishedAt
	colDeadAt
	colDeadReason
	colInFlight
	colNow
)

// A scanner turns rows into records. It reads the wire format itself, because the
// relay does little else than this: values that repeat from row to row (topics,
// types, tenants) share one string, and records are allocated in blocks.
type scanner struct {
	last  [colDue]string
	block []outbox.Record
	slab  []byte
}

const (
	blockSize = 64
	slabSize  = 16 << 10
)

func (s *scanner) record() *outbox.Record {
	if len(s.block) == 0 {
		s.block = make([]outbox.Record, blockSize)
	}
	r := &s.block[0]
	s.block = s.block[1:]
	return r
}

// text returns column c, sharing the string of the row before when it is equal.
func (s *scanner) text(values [][]byte, c int) string {
	if v := values[c]; string(v) != s.last[c] {
		s.last[c] = string(v)
	}
	return s.last[c]
}

// scan reads one row. Only a broken protocol is an error; a row that is no message
// is a record that says so.
func (s *scanner) scan(values [][]byte, payloadType uint32) (*outbox.Record, error) {
	if len(values) <= colDue || len(values[colSequence]) != 8 || len(values[colEventID]) != 16 ||
		len(values[colCreatedAt]) != 8 {
		return nil, errors.New("row has an unexpected shape")
	}
	available := values[colAvailableAt]
	if available == nil {
		available = values[colCreatedAt]
	}
	r := s.record()
	r.Sequence = int64(binary.BigEndian.Uint64(values[colSequence]))
	copy(r.EventID[:], values[colEventID])
	r.TenantID = s.text(values, colTenant)
	r.Topic = s.text(values, colTopic)
	r.Key = string(values[colKey])
	r.Payload = s.payload(values[colPayload], payloadType)
	r.AggregateType = s.text(values, colAggregateType)
	r.AggregateID = string(values[colAggregateID])
	r.EventType = s.text(values, colEventType)
	r.ContentType = s.text(values, colContentType)
	r.TraceParent = string(values[colTraceParent])
	r.TraceState = s.text(values, colTraceState)
	r.LastError = string(values[colLastError])
	r.EventVersion = integer(values[colVersion])
	r.Attempts = integer(values[colAttempts])
	r.Crashes = integer(values[colCrashes])
	r.Replays = integer(values[colReplays])
	r.CreatedAt = timestamp(values[colCreatedAt])
	r.AvailableAt = timestamp(available)
	r.Due = due(values[colDue], available)
	if v := values[colHeaders]; v != nil {
		if err := json.Unmarshal(v, &r.Headers); err != nil {
			r.Headers, r.Corrupt = nil, "headers are not an object of strings"
		}
	}
	if v := values[colRoutesDone]; v != nil {
		if err := textArray(v, &r.RoutesDone); err != nil {
			r.Corrupt = "routes_done cannot be read"
		}
	}
	return r, nil
}

// scanShown reads one row of an inspector and the clock of its snapshot.
func (s *scanner) scanShown(values [][]byte, payloadType uint32) (*outbox.Record, time.Time, error) {
	r, err := s.scan(values, payloadType)
	if err != nil {
		return nil, time.Time{}, err
	}
	if len(values) <= colNow {
		return nil, time.Time{}, errors.New("row has an unexpected shape")
	}
	r.PublishedAt = timestamp(values[colPublishedAt])
	r.DeadAt = timestamp(values[colDeadAt])
	r.DeadReason = string(values[colDeadReason])
	r.InFlight = boolean(values[colInFlight])
	return r, timestamp(values[colNow]), nil
}

// payload copies a payload out of the driver's buffer. On the wire jsonb is text
// behind a version byte. Small ones share a slab: an allocation per message costs more
// than what a message that stays behind keeps of it.
func (s *scanner) payload(v []byte, kind uint32) json.RawMessage {
	if kind == pgtype.JSONBOID && len(v) > 0 {
		v = v[1:]
	}
	if len(v) > slabSize/8 {
		return bytes.Clone(v)
	}
	if len(v) > cap(s.slab)-len(s.slab) {
		s.slab = make([]byte, 0, slabSize)
	}
	from := len(s.slab)
	s.slab = append(s.slab, v...)
	return s.slab[from:len(s.slab):len(s.slab)]
}

// due reads whether a message is available: the database says it, or its clock.
func due(v, available []byte) bool {
	if len(v) == 8 && len(available) == 8 {
		return int64(binary.BigEndian.Uint64(available)) <= int64(binary.BigEndian.Uint64(v))
	}
	return boolean(v)
}

func boolean(v []byte) bool { return len(v) == 1 && v[0] != 0 }

func integer(v []byte) int {
	switch len(v) {
	case 2:
		return int(int16(binary.BigEndian.Uint16(v)))
	case 4:
		return int(int32(binary.BigEndian.Uint32(v)))
	case 8:
		return int(int64(binary.BigEndian.Uint64(v)))
	}
	return 0
}

// epoch is the zero of PostgreSQL's timestamps.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

// timestamp reads a timestamptz; NULL is the zero time. The infinities, which only
// another program can have written, become times nobody reaches.
func timestamp(v []byte) time.Time {
	if len(v) != 8 {
		return time.Time{}
	}
	micros := int64(binary.BigEndian.Uint64(v))
	const most = 1 << 62
	micros = min(max(micros, -most), most)
	return time.UnixMicro(epoch + micros).UTC()
}

var typeMap = pgtype.NewMap()

func textArray(v []byte, into *[]string) error {
	if err := typeMap.Scan(pgtype.TextArrayOID, pgx.BinaryFormatCode, v, into); err != nil {
		return fmt.Errorf("read text[]: %w", err)
	}
	return nil
}
