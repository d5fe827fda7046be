package pgstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/go-outbox/outbox"
)

// Enqueue writes msg in tx, the caller's own transaction, and returns its sequence.
// It never begins, commits or rolls back. Input that is refused is refused before
// any SQL, so tx stays usable; after an error of the database it is aborted, as
// after any other.
//
// An event id that exists with the same topic, tenant, key and payload returns the
// existing sequence and writes nothing; with other content it is ErrEventIDConflict.
//
// The statement is sent as the caller's connection sends its own: prepared once and
// kept, unless default_query_exec_mode says otherwise.
func (s *Store) Enqueue(ctx context.Context, tx pgx.Tx, msg outbox.Message) (int64, error) {
	return s.enqueue(ctx, tx, msg)
}

// EnqueueAutocommit writes msg in a transaction of its own: for events that belong
// to no business change. A failure may have written it all the same; give the
// message an EventID to be able to try again.
func (s *Store) EnqueueAutocommit(ctx context.Context, msg outbox.Message) (int64, error) {
	return s.enqueue(ctx, s.pool, msg, s.mode)
}

// enqueue writes msg with the options of the driver, if any.
func (s *Store) enqueue(ctx context.Context, q querier, msg outbox.Message, options ...any) (int64, error) {
	e, err := s.admit(ctx, msg, func() (*layout, error) { return s.layout(ctx, q) })
	if err != nil {
		return 0, err
	}
	// A row that caused a conflict may be purged before it is looked at; then
	// the id is free after all.
	for range 3 {
		sequence, err := insert(ctx, q, e.statement(), append(options, e.args()...))
		if e.given && errors.Is(err, pgx.ErrNoRows) {
			sequence, err = s.duplicate(ctx, q, e)
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return sequence, s.explain("enqueue", err)
		}
	}
	return 0, s.explain("enqueue", errors.New("the event id keeps appearing and disappearing"))
}

// An entry is a message that may be written.
type entry struct {
	*layout
	msg     outbox.Message
	headers string
	given   bool // the caller chose the event id, so it may exist
}

// admit passes msg through the gate and refuses what the table cannot hold, before
// it could abort the caller's transaction.
func (s *Store) admit(ctx context.Context, msg outbox.Message, look func() (*layout, error)) (entry, error) {
	e := entry{given: msg.EventID != uuid.Nil}
	var err error
	if e.msg, err = s.cfg.Gate.Admit(ctx, s.cfg.Table, msg); err != nil {
		return e, err
	}
	if e.layout, err = look(); err != nil {
		return e, s.explain("enqueue", err)
	}
	if err := e.storable(&e.msg); err != nil {
		return e, err
	}
	e.headers, err = headerText(e.msg.Headers)
	return e, err
}

func (e *entry) statement() string {
	if e.given {
		return e.sql.InsertUnique
	}
	return e.sql.Insert
}

// storable reports what the payload column would refuse, before it aborts the
// caller's transaction.
func (l *layout) storable(msg *outbox.Message) error {
	if err := l.fits(msg); err != nil {
		return err
	}
	switch {
	case l.payload == Bytea:
	case !outbox.IsJSON(msg.ContentType) && (!utf8.Valid(msg.Payload) || !json.Valid(msg.Payload)):
		return outbox.ErrInvalidPayload.With("payload", fmt.Sprintf("is not JSON, and the payload column is %s: use a bytea column", l.payload))
	case l.payload == JSONB && bytes.Contains(msg.Payload, []byte(`\u0000`)):
		return outbox.ErrInvalidPayload.With("payload", "holds \\u0000, which jsonb cannot store; use a json column")
	}
	return nil
}

func insert(ctx context.Context, q querier, statement string, args []any) (int64, error) {
	rows, err := q.Query(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowTo[int64])
}

// duplicate returns the sequence of the message that has e's event id already.
func (s *Store) duplicate(ctx context.Context, q querier, e entry) (int64, error) {
	found, err := s.duplicates(ctx, q, e.layout, []*outbox.Message{&e.msg})
	if err != nil {
		return 0, err
	}
	sequence, ok := found[0]
	if !ok {
		return 0, pgx.ErrNoRows
	}
	return sequence, nil
}

// QueueEnqueue adds msg to batch, so that business writes, events and even the
// COMMIT can go to the server in one round trip. done, when not nil, receives the
// sequence once the batch has been read. The batch must run inside a transaction of
// the caller.
//
// Event ids that exist are treated as Enqueue does, except that one which another
// transaction commits at the same moment is ErrEventIDConflict whatever its content:
// a batch cannot look again. The table is taken for what an earlier use of the store
// found, or for a full one.
func (s *Store) QueueEnqueue(ctx context.Context, batch *pgx.Batch, msg outbox.Message, done func(sequence int64)) error {
	e, err := s.admit(ctx, msg, func() (*layout, error) { return s.known(), nil })
	if err != nil {
		return err
	}
	statement := e.sql.Insert
	if e.given {
		statement = e.sql.InsertOrFind
	}
	batch.Queue(statement, e.args()...).QueryRow(func(row pgx.Row) error {
		var sequence int64
		err := row.Scan(&sequence)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return outbox.ErrEventIDConflict.With("event_id", e.msg.EventID.String()+" was committed by another transaction meanwhile")
		case err != nil:
			return s.explain("enqueue", err)
		case sequence < 0:
			return outbox.ErrEventIDConflict.With("event_id", fmt.Sprintf("%s exists as sequence %d with other content", e.msg.EventID, -sequence))
		}
		if done != nil {
			done(sequence)
		}
		return nil
	})
	return nil
}

// args are the parameters of insert.sql. They encode the same in every query mode
// of the driver; a []byte would become bytea in some.
func (e *entry) args() []any {
	m := &e.msg
	if e.verbatim {
		args := []any{pgUUID(m.EventID), m.Topic, m.TenantID, e.value(m.Payload), nullTime(m.AvailableAt)}
		if e.trace {
			args = append(args, m.TraceParent, m.TraceState)
		}
		return args
	}
	return []any{
		pgUUID(m.EventID), m.Topic, m.Key, m.TenantID, e.value(m.Payload), nullTime(m.AvailableAt), e.headers, m.ContentType,
		m.AggregateType, m.AggregateID, m.EventType, int32(m.EventVersion), m.TraceParent, m.TraceState,
	}
}

// value is a payload as a parameter: text for json and jsonb. The string shares
// the payload's memory, which nobody writes while the statement is sent.
func (l *layout) value(payload []byte) any {
	if l.payload == Bytea {
		return payload
	}
	return unsafe.String(unsafe.SliceData(payload), len(payload))
}

// headerText is the JSON of the headers, or "".
func headerText(headers map[string]string) (string, error) {
	if len(headers) == 0 {
		return "", nil
	}
	text, err := json.Marshal(headers)
	if err != nil {
		return "", outbox.ErrInvalidHeader.Wrap(err)
	}
	return string(text), nil
}

func pgUUID(id uuid.UUID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }

func nullTime(t time.Time) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: t, Valid: !t.IsZero()}
}
