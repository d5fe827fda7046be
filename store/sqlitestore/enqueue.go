package sqlitestore

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

// A Tx is a transaction of the caller: *sql.Tx, *sqlx.Tx and what wraps them. A
// *sql.DB is none, so that a message cannot be committed on its own by mistake.
type Tx interface {
	querier
	Commit() error
	Rollback() error
}

type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Enqueue writes msg in the caller's transaction and returns its sequence. The
// message exists once tx is committed. It is one INSERT, and one SELECT more only
// when the event id exists already: with the same content that is not an error and
// the existing sequence is returned; with other content it is ErrEventIDConflict.
//
// A message that is refused is refused before any SQL, and tx stays usable. An error
// of the database leaves tx as SQLite does; SQLITE_BUSY in particular means that the
// caller has to repeat the transaction (see the package comment).
func (s *Store) Enqueue(ctx context.Context, tx Tx, msg outbox.Message) (int64, error) {
	return s.enqueueOne(ctx, tx, msg)
}

// EnqueueConn is Enqueue for a transaction that the caller has begun with SQL on a
// connection, such as BEGIN IMMEDIATE. Without one it commits by itself.
func (s *Store) EnqueueConn(ctx context.Context, conn *sql.Conn, msg outbox.Message) (int64, error) {
	return s.enqueueOne(ctx, conn, msg)
}

// EnqueueMany is Enqueue for several messages, with one statement for up to a hundred
// of them. When a message is refused, none is written.
func (s *Store) EnqueueMany(ctx context.Context, tx Tx, msgs []outbox.Message) ([]int64, error) {
	admitted := make([]outbox.Message, len(msgs))
	for i, msg := range msgs {
		var err error
		if admitted[i], err = s.cfg.Gate.Admit(ctx, s.cfg.Table, msg); err != nil {
			return nil, fmt.Errorf("enqueue message %d: %w", i, err)
		}
	}
	sequences, err := s.insertMany(ctx, tx, admitted)
	if err != nil {
		return nil, fmt.Errorf("enqueue %d messages: %w", len(msgs), err)
	}
	return sequences, nil
}

// EnqueueAutocommit is Enqueue in a transaction of its own, for events that have no
// business row to be atomic with. It waits while the file is busy.
func (s *Store) EnqueueAutocommit(ctx context.Context, msg outbox.Message) (int64, error) {
	msg, err := s.cfg.Gate.Admit(ctx, s.cfg.Table, msg)
	if err != nil {
		return 0, fmt.Errorf("enqueue: %w", err)
	}
	var sequence int64
	err = s.write(ctx, func(ctx context.Context, conn *sql.Conn) error {
		sequence, err = s.insert(ctx, conn, msg)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("enqueue: %w", err)
	}
	return sequence, nil
}

func (s *Store) enqueueOne(ctx context.Context, q querier, msg outbox.Message) (int64, error) {
	msg, err := s.cfg.Gate.Admit(ctx, s.cfg.Table, msg)
	if err != nil {
		return 0, fmt.Errorf("enqueue: %w", err)
	}
	sequence, err := s.insert(ctx, q, msg)
	if err != nil {
		return 0, fmt.Errorf("enqueue: %w", err)
	}
	return sequence, nil
}

func (s *Store) insert(ctx context.Context, q querier, msg outbox.Message) (int64, error) {
	args, err := appendRow(make([]any, 0, 16), msg, s.now())
	if err != nil {
		return 0, err
	}
	res, err := q.ExecContext(ctx, s.sql.Enqueue, args...)
	if err != nil {
		return 0, err
	}
	written, err := res.RowsAffected()
	if err != nil {
		return 0, err
	}
	if written == 0 {
		return s.existing(ctx, q, msg)
	}
	return res.LastInsertId()
}

// existing returns the sequence of an event id that exists, if its content is that
// of msg.
func (s *Store) existing(ctx context.Context, q querier, msg outbox.Message) (int64, error) {
	var sequence int64
	var old outbox.Message
	err := each(ctx, q, func(rows *sql.Rows) error {
		return rows.Scan(&sequence, &old.Topic, &old.TenantID, &old.Key, (*[]byte)(&old.Payload))
	}, s.sql.Existing, msg.EventID.String())
	switch {
	case err != nil:
		return 0, err
	case !sameContent(old, msg):
		return 0, conflict(msg.EventID)
	}
	return sequence, nil
}

func sameContent(a, b outbox.Message) bool {
	return a.Topic == b.Topic && a.TenantID == b.TenantID && a.Key == b.Key && bytes.Equal(a.Payload, b.Payload)
}

func conflict(id uuid.UUID) error {
	return outbox.ErrEventIDConflict.With("event_id", id.String()+" exists with other content")
}

// insertMany writes messages in chunks and returns their sequences in order.
func (s *Store) insertMany(ctx context.Context, q querier, msgs []outbox.Message) ([]int64, error) {
	unique, err := distinct(msgs)
	if err != nil {
		return nil, err
	}
	now := s.now()
	written := make(map[uuid.UUID]int64, len(unique))
	for rest := unique; len(rest) > 0; {
		c := s.fitting(len(rest))
		if err := s.insertChunk(ctx, q, c.statement, rest[:c.rows], now, written); err != nil {
			return nil, err
		}
		rest = rest[c.rows:]
	}
	sequences := make([]int64, len(msgs))
	for i, msg := range msgs {
		sequence, ok := written[msg.EventID]
		if !ok {
			if sequence, err = s.existing(ctx, q, msg); err != nil {
				return nil, errors.Join(err, s.withdraw(ctx, q, written))
			}
		}
		sequences[i] = sequence
	}
	return sequences, nil
}

// distinct drops repeated messages; an event id with two contents is a conflict
// before anything is written.
func distinct(msgs []outbox.Message) ([]outbox.Message, error) {
	first := make(map[uuid.UUID]int, len(msgs))
	unique := make([]outbox.Message, 0, len(msgs))
	for i, msg := range msgs {
		j, seen := first[msg.EventID]
		switch {
		case !seen:
			first[msg.EventID] = i
			unique = append(unique, msg)
		case !sameContent(msgs[j], msg):
			return nil, conflict(msg.EventID)
		}
	}
	return unique, nil
}

func (s *Store) insertChunk(ctx context.Context, q querier, statement string, msgs []outbox.Message, now int64, written map[uuid.UUID]int64) error {
	args := make([]any, 0, 16*len(msgs))
	for _, msg := range msgs {
		var err error
		if args, err = appendRow(args, msg, now); err != nil {
			return err
		}
	}
	return each(ctx, q, func(rows *sql.Rows) error {
		var id string
		var sequence int64
		if err := rows.Scan(&id, &sequence); err != nil {
			return err
		}
		event, err := uuid.Parse(id)
		written[event] = sequence
		return err
	}, statement, args...)
}

func (s *Store) withdraw(ctx context.Context, q querier, written map[uuid.UUID]int64) error {
	ids := make([]int64, 0, len(written))
	for _, sequence := range written {
		ids = append(ids, sequence)
	}
	return exec(context.WithoutCancel(ctx), q, s.sql.Withdraw, jsonList(ids))
}

// A chunk is an INSERT of a fixed number of rows. Three sizes keep the statements
// few and the calls too.
type chunk struct {
	rows      int
	statement string
}

func chunks(single string) []chunk {
	var list []chunk
	for _, n := range []int{100, 10, 1} {
		rows := insertRow + strings.Repeat(",\n  "+insertRow, n-1)
		list = append(list, chunk{n, strings.Replace(single, insertRow, rows, 1)})
	}
	return list
}

// fitting is the largest chunk for n rows or fewer.
func (s *Store) fitting(n int) chunk {
	for _, c := range s.many {
		if c.rows <= n {
			return c
		}
	}
	return s.many[len(s.many)-1]
}

// appendRow appends the values of insertColumns.
func appendRow(args []any, msg outbox.Message, now int64) ([]any, error) {
	available := now
	if !msg.AvailableAt.IsZero() {
		available = max(now, msg.AvailableAt.UnixMicro())
	}
	var headers any
	if len(msg.Headers) > 0 {
		text, err := json.Marshal(msg.Headers)
		if err != nil {
			return nil, fmt.Errorf("encode headers: %w", err)
		}
		headers = string(text)
	}
	var version any
	if msg.EventVersion != 0 {
		version = msg.EventVersion
	}
	return append(args, now, available, version, msg.EventID.String(), msg.TenantID, msg.Topic, msg.Key,
		nullable(msg.AggregateType), nullable(msg.AggregateID), nullable(msg.EventType), nullable(msg.ContentType),
		headers, nullable(msg.TraceParent), nullable(msg.TraceState), payload(msg)), nil
}

// payload is TEXT for JSON, so that people and json functions can read it in place,
// and BLOB for everything else.
func payload(msg outbox.Message) any {
	if outbox.IsJSON(msg.ContentType) {
		return string(msg.Payload)
	}
	return []byte(msg.Payload)
}

// nullable stores an empty text as NULL.
func nullable(s string) any {
	if s == "" {
		return nil
	}
	return s
}
