package pgstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/go-outbox/outbox"
)

// EnqueueMany is Enqueue for any number of messages in one statement; sequences
// ascend in the order given. When one is refused, none is written. (Except that
// after ErrEventIDConflict with a transaction that committed at the same moment the
// others may be in tx: roll back.)
func (s *Store) EnqueueMany(ctx context.Context, tx pgx.Tx, msgs []outbox.Message) ([]int64, error) {
	if len(msgs) == 0 {
		return nil, nil
	}
	entries := make([]entry, len(msgs))
	given := false
	for i, msg := range msgs {
		var err error
		if entries[i], err = s.admit(ctx, msg, func() (*layout, error) { return s.layout(ctx, tx) }); err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		given = given || entries[i].given
	}
	l := entries[0].layout
	statement := l.sql.InsertMany
	if given {
		if err := repeated(l, entries); err != nil {
			return nil, err
		}
		statement = l.sql.InsertManyUnique
	}
	sequences, err := s.insertMany(ctx, tx, l, statement, entries)
	return sequences, s.explain("enqueue", err)
}

// repeated refuses two messages of one call with the same id and other content.
// Equal content is fine: both get the same sequence.
func repeated(l *layout, entries []entry) error {
	first := make(map[uuid.UUID]*outbox.Message, len(entries))
	for i := range entries {
		m := &entries[i].msg
		f, seen := first[m.EventID]
		if !seen {
			first[m.EventID] = m
			continue
		}
		// jsonb decides for itself what is equal, in duplicates.sql.
		if f.Topic != m.Topic || f.Key != m.Key || f.TenantID != m.TenantID ||
			(l.payload != JSONB && !bytes.Equal(f.Payload, m.Payload)) {
			return outbox.ErrEventIDConflict.With("event_id", fmt.Sprintf("%s occurs twice in one call with different content", m.EventID))
		}
	}
	return nil
}

func (s *Store) insertMany(ctx context.Context, tx pgx.Tx, l *layout, statement string, entries []entry) ([]int64, error) {
	rows, err := tx.Query(ctx, statement, append([]any{s.mode}, l.arrays(entries)...)...)
	if err != nil {
		return nil, err
	}
	// Rows come back in the order they went in; those that existed are missing.
	sequences := make([]int64, len(entries))
	next := 0
	var sequence int64
	var id pgtype.UUID
	_, err = pgx.ForEachRow(rows, []any{&sequence, &id}, func() error {
		for ; next < len(entries); next++ {
			if entries[next].msg.EventID == uuid.UUID(id.Bytes) {
				sequences[next] = sequence
				next++
				return nil
			}
		}
		return fmt.Errorf("unexpected event id %s", uuid.UUID(id.Bytes))
	})
	if err != nil {
		return nil, err
	}
	return sequences, s.fillDuplicates(ctx, tx, l, entries, sequences)
}

// fillDuplicates looks up the messages that were not inserted.
func (s *Store) fillDuplicates(ctx context.Context, q querier, l *layout, entries []entry, sequences []int64) error {
	var missing []*outbox.Message
	var at []int
	for i, sequence := range sequences {
		if sequence == 0 {
			missing, at = append(missing, &entries[i].msg), append(at, i)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	found, err := s.duplicates(ctx, q, l, missing)
	if err != nil {
		return err
	}
	for n, i := range at {
		sequence, ok := found[int64(n)]
		if !ok {
			return fmt.Errorf("message %d: event id %s vanished while it was enqueued: %w", i, entries[i].msg.EventID, pgx.ErrNoRows)
		}
		sequences[i] = sequence
	}
	return nil
}

// duplicates looks up messages by event id and returns the sequences by index, or
// ErrEventIDConflict when one of them says something else.
func (s *Store) duplicates(ctx context.Context, q querier, l *layout, msgs []*outbox.Message) (map[int64]int64, error) {
	var (
		numbers               = make([]int64, len(msgs))
		ids                   = make([]pgtype.UUID, len(msgs))
		topics, keys, tenants = make([]string, len(msgs)), make([]string, len(msgs)), make([]string, len(msgs))
		payloads              = l.payloads(len(msgs))
	)
	for i, m := range msgs {
		numbers[i], ids[i] = int64(i), pgUUID(m.EventID)
		topics[i], keys[i], tenants[i] = m.Topic, m.Key, m.TenantID
		payloads.set(i, m.Payload)
	}
	rows, err := q.Query(ctx, l.sql.Duplicates, s.mode, numbers, ids, topics, keys, tenants, payloads.value())
	if err != nil {
		return nil, err
	}
	found := make(map[int64]int64, len(msgs))
	var n, sequence int64
	var same bool
	var conflict error
	_, err = pgx.ForEachRow(rows, []any{&n, &sequence, &same}, func() error {
		if !same {
			conflict = outbox.ErrEventIDConflict.With("event_id", fmt.Sprintf("%s exists as sequence %d with other content", msgs[n].EventID, sequence))
		}
		found[n] = sequence
		return nil
	})
	return found, errors.Join(err, conflict)
}

// payloads is an array parameter of payloads.
type payloads struct {
	text  []string
	bytes [][]byte
}

func (l *layout) payloads(n int) payloads {
	if l.payload == Bytea {
		return payloads{bytes: make([][]byte, n)}
	}
	return payloads{text: make([]string, n)}
}

func (p payloads) set(i int, payload []byte) {
	if p.bytes != nil {
		p.bytes[i] = payload
		return
	}
	p.text[i] = unsafe.String(unsafe.SliceData(payload), len(payload))
}

func (p payloads) value() any {
	if p.bytes != nil {
		return p.bytes
	}
	return p.text
}

// arrays are the parameters of insert_many.sql.
func (l *layout) arrays(entries []entry) []any {
	n := len(entries)
	headers := make([]string, n)
	ids, times, versions := make([]pgtype.UUID, n), make([]pgtype.Timestamptz, n), make([]int32, n)
	bodies := l.payloads(n)
	text := make([][]string, 9)
	for i := range text {
		text[i] = make([]string, n)
	}
	for i := range entries {
		m := &entries[i].msg
		headers[i] = entries[i].headers
		ids[i], times[i], versions[i] = pgUUID(m.EventID), nullTime(m.AvailableAt), int32(m.EventVersion)
		bodies.set(i, m.Payload)
		for j, v := range [...]string{
			m.Topic, m.Key, m.TenantID, m.ContentType, m.AggregateType, m.AggregateID, m.EventType, m.TraceParent, m.TraceState,
		} {
			text[j][i] = v
		}
	}
	if l.verbatim {
		args := []any{ids, text[0], text[2], bodies.value(), times}
		if l.trace {
			args = append(args, text[7], text[8])
		}
		return args
	}
	return []any{
		ids, text[0], text[1], text[2], bodies.value(), times, headers, text[3], text[4], text[5], text[6], versions, text[7], text[8],
	}
}
