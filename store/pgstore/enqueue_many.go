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
	b, err := s.admitMany(ctx, msgs, func() (*layout, error) { return s.layout(ctx, tx) })
	if err != nil || len(msgs) == 0 {
		return nil, err
	}
	if err := s.insertMany(ctx, tx, b); err != nil {
		return nil, s.explain("enqueue", err)
	}
	return b.sequences, nil
}

// A bundle is the messages of one call of EnqueueMany, and the sequences that they get.
type bundle struct {
	*layout
	entries   []entry
	statement string
	sequences []int64
	next      int // of entries: the first that no row has come back for
}

// admitMany passes all messages through the gate.
func (s *Store) admitMany(ctx context.Context, msgs []outbox.Message, look func() (*layout, error)) (*bundle, error) {
	if len(msgs) == 0 {
		return nil, nil
	}
	b := &bundle{entries: make([]entry, len(msgs)), sequences: make([]int64, len(msgs))}
	given := false
	for i, msg := range msgs {
		var err error
		if b.entries[i], err = s.admit(ctx, msg, look); err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		given = given || b.entries[i].given
	}
	b.layout = b.entries[0].layout
	b.statement = b.sql.InsertMany
	if given {
		b.statement = b.sql.InsertManyUnique
		return b, repeated(b.layout, b.entries)
	}
	return b, nil
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

func (s *Store) insertMany(ctx context.Context, tx pgx.Tx, b *bundle) error {
	rows, err := tx.Query(ctx, b.statement, append([]any{s.mode}, b.arrays(b.entries)...)...)
	if err != nil {
		return err
	}
	var sequence int64
	var id pgtype.UUID
	_, err = pgx.ForEachRow(rows, []any{&sequence, &id}, func() error { return b.wrote(sequence, id.Bytes) })
	if err != nil {
		return err
	}
	missing, at := b.missing()
	if len(missing) == 0 {
		return nil
	}
	found, err := s.duplicates(ctx, tx, b.layout, missing)
	if err != nil {
		return err
	}
	return b.fill(at, found)
}

// wrote notes a row that was inserted. Rows come back in the order they went in; those
// that existed are missing.
func (b *bundle) wrote(sequence int64, id uuid.UUID) error {
	for ; b.next < len(b.entries); b.next++ {
		if b.entries[b.next].msg.EventID == id {
			b.sequences[b.next] = sequence
			b.next++
			return nil
		}
	}
	return fmt.Errorf("unexpected event id %s", id)
}

// missing are the messages that were not inserted, and where they are.
func (b *bundle) missing() (msgs []*outbox.Message, at []int) {
	for i, sequence := range b.sequences {
		if sequence == 0 {
			msgs, at = append(msgs, &b.entries[i].msg), append(at, i)
		}
	}
	return msgs, at
}

// fill notes the sequences of messages that existed.
func (b *bundle) fill(at []int, found map[int64]int64) error {
	for n, i := range at {
		sequence, ok := found[int64(n)]
		if !ok {
			return fmt.Errorf("message %d: event id %s vanished while it was enqueued: %w", i, b.entries[i].msg.EventID, pgx.ErrNoRows)
		}
		b.sequences[i] = sequence
	}
	return nil
}

// duplicates looks up messages by event id and returns the sequences by index, or
// ErrEventIDConflict when one of them says something else.
func (s *Store) duplicates(ctx context.Context, q querier, l *layout, msgs []*outbox.Message) (map[int64]int64, error) {
	rows, err := q.Query(ctx, l.sql.Duplicates, append([]any{s.mode}, l.contents(msgs)...)...)
	if err != nil {
		return nil, err
	}
	found := make(map[int64]int64, len(msgs))
	var n, sequence int64
	var same bool
	var conflict error
	_, err = pgx.ForEachRow(rows, []any{&n, &sequence, &same}, func() error {
		if !same {
			conflict = exists(msgs[n].EventID, sequence)
		}
		found[n] = sequence
		return nil
	})
	return found, errors.Join(err, conflict)
}

func exists(id uuid.UUID, sequence int64) error {
	return outbox.ErrEventIDConflict.With("event_id", fmt.Sprintf("%s exists as sequence %d with other content", id, sequence))
}

// contents are the parameters of duplicates.sql.
func (l *layout) contents(msgs []*outbox.Message) []any {
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
	return []any{numbers, ids, topics, keys, tenants, payloads.value()}
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
