package mysqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

// A Tx is a transaction of the caller: *sql.Tx, *sqlx.Tx and what wraps them. A *sql.DB
// is none, so that a message cannot be committed on its own by mistake.
type Tx interface {
	querier
	Commit() error
	Rollback() error
}

type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Enqueue writes msg in the caller's transaction and returns its sequence. The message
// exists once tx is committed. It is one INSERT, and one SELECT more only when the event
// id exists already: with the same content that is not an error and the existing sequence
// is returned; with other content it is ErrEventIDConflict. Either way tx stays usable.
//
// A message that is refused is refused before any SQL. An error of the database leaves tx
// as the server does: after a deadlock (1213) all of it is rolled back and only the caller
// can repeat it.
func (s *Store) Enqueue(ctx context.Context, tx Tx, msg outbox.Message) (int64, error) {
	return s.enqueueOne(ctx, tx, msg)
}

// EnqueueConn is Enqueue for a transaction that the caller has begun with SQL on a
// connection. Without one it commits by itself.
func (s *Store) EnqueueConn(ctx context.Context, conn *sql.Conn, msg outbox.Message) (int64, error) {
	return s.enqueueOne(ctx, conn, msg)
}

// EnqueueAutocommit is Enqueue in a transaction of its own, for events that have no
// business row to be atomic with. It repeats after a deadlock. A failure may have written
// the message all the same; give it an EventID to be able to try again.
func (s *Store) EnqueueAutocommit(ctx context.Context, msg outbox.Message) (int64, error) {
	msg, err := s.cfg.Gate.Admit(ctx, s.cfg.Table, msg)
	if err != nil {
		return 0, s.explain("enqueue", err)
	}
	var sequence int64
	err = s.write(ctx, operatorPatience, func(ctx context.Context, tx *sql.Tx) (err error) {
		sequence, err = s.insert(ctx, tx, msg)
		return err
	})
	if err != nil {
		return 0, s.explain("enqueue", err)
	}
	return sequence, nil
}

func (s *Store) enqueueOne(ctx context.Context, q querier, msg outbox.Message) (int64, error) {
	msg, err := s.cfg.Gate.Admit(ctx, s.cfg.Table, msg)
	if err != nil {
		return 0, s.explain("enqueue", err)
	}
	sequence, err := s.insert(ctx, q, msg)
	if err != nil {
		return 0, s.explain("enqueue", err)
	}
	return sequence, nil
}

// insert is a plain INSERT: the server says when the event id exists. INSERT IGNORE would
// hide other mistakes too, and ON DUPLICATE KEY would lock more.
func (s *Store) insert(ctx context.Context, q querier, msg outbox.Message) (int64, error) {
	args, err := appendRow(nil, msg)
	if err != nil {
		return 0, err
	}
	// A row that caused a conflict may be gone before it is looked at; then the id is
	// free after all.
	for range 3 {
		res, err := q.ExecContext(ctx, s.sql.Enqueue, args...)
		if err == nil {
			return res.LastInsertId()
		}
		if number(err) != duplicateEntry {
			return 0, err
		}
		known, err := s.known(ctx, q, s.sql.Existing, []outbox.Message{msg})
		if err != nil {
			return 0, err
		}
		if sequence, ok := known[msg.EventID]; ok {
			return sequence, nil
		}
	}
	return 0, errors.New("the event id keeps appearing and disappearing")
}

// known looks messages up by event id and returns the sequences of those that exist, or
// ErrEventIDConflict when one of them says something else.
func (s *Store) known(ctx context.Context, q querier, statement string, msgs []outbox.Message) (map[uuid.UUID]int64, error) {
	params := make([]any, len(msgs))
	byID := make(map[uuid.UUID]outbox.Message, len(msgs))
	for i, msg := range msgs {
		params[i], byID[msg.EventID] = msg.EventID.String(), msg
	}
	known := make(map[uuid.UUID]int64, len(msgs))
	var conflict error
	err := eachText(ctx, q, func(rows *sql.Rows) error {
		var sequence int64
		var id string
		var old outbox.Message
		if err := rows.Scan(&sequence, &id, &old.Topic, &old.TenantID, &old.Key, (*[]byte)(&old.Payload)); err != nil {
			return err
		}
		event, err := uuid.Parse(id)
		if err != nil {
			return err
		}
		if !sameContent(old, byID[event]) {
			conflict = conflictOf(event)
		}
		known[event] = sequence
		return nil
	}, inList(statement, len(msgs)), params...)
	return known, errors.Join(err, conflict)
}

func sameContent(a, b outbox.Message) bool {
	return a.Topic == b.Topic && a.TenantID == b.TenantID && a.Key == b.Key && bytes.Equal(a.Payload, b.Payload)
}

func conflictOf(id uuid.UUID) error {
	return outbox.ErrEventIDConflict.With("event_id", id.String()+" exists with other content")
}

// appendRow appends the values of insertColumns. Texts are sent as bytes and times as
// text: neither the character set nor loc has a say.
func appendRow(args []any, msg outbox.Message) ([]any, error) {
	var available, version, headers any
	if !msg.AvailableAt.IsZero() {
		available = later(msg.AvailableAt.UTC(), 0).Format(datetime)
	}
	if msg.EventVersion != 0 {
		version = int64(msg.EventVersion)
	}
	if len(msg.Headers) > 0 {
		text, err := json.Marshal(msg.Headers)
		if err != nil {
			return nil, fmt.Errorf("encode headers: %w", err)
		}
		headers = text
	}
	return append(args, available, version, []byte(msg.EventID.String()), []byte(msg.TenantID), []byte(msg.Topic), []byte(msg.Key),
		nullable(msg.AggregateType), nullable(msg.AggregateID), nullable(msg.EventType), nullable(msg.ContentType),
		headers, nullable(msg.TraceParent), nullable(msg.TraceState), []byte(msg.Payload)), nil
}

// nullable stores an empty text as NULL.
func nullable(s string) any {
	if s == "" {
		return nil
	}
	return []byte(s)
}
