package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

// EnqueueMany is Enqueue for several messages, with one statement for up to a hundred of
// them; sequences ascend in the order given. When a message is refused, none is written.
func (s *Store) EnqueueMany(ctx context.Context, tx Tx, msgs []outbox.Message) ([]int64, error) {
	if len(msgs) == 0 {
		return nil, nil
	}
	admitted := make([]outbox.Message, len(msgs))
	for i, msg := range msgs {
		var err error
		if admitted[i], err = s.cfg.Gate.Admit(ctx, s.cfg.Table, msg); err != nil {
			return nil, fmt.Errorf("enqueue message %d: %w", i, err)
		}
	}
	unique, err := distinct(admitted)
	if err != nil {
		return nil, s.explain("enqueue", err)
	}
	m := manyWriter{store: s, q: tx, sequences: make(map[uuid.UUID]int64, len(unique))}
	if err := m.write(ctx, unique); err != nil {
		return nil, s.explain(fmt.Sprintf("enqueue %d messages", len(msgs)), err)
	}
	sequences := make([]int64, len(msgs))
	for i, msg := range admitted {
		sequences[i] = m.sequences[msg.EventID]
	}
	return sequences, nil
}

// distinct drops repeated messages; an event id with two contents is a conflict before
// anything is written.
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
			return nil, conflictOf(msg.EventID)
		}
	}
	return unique, nil
}

// A manyWriter is one call of EnqueueMany.
type manyWriter struct {
	store     *Store
	q         querier
	increment int64 // how far apart the numbers of one INSERT are; 0 is unknown
	inserted  []int64
	sequences map[uuid.UUID]int64
}

// write inserts messages chunk by chunk and takes all of them back when one is refused.
func (m *manyWriter) write(ctx context.Context, msgs []outbox.Message) error {
	for len(msgs) > 0 {
		c := m.store.fitting(msgs)
		if err := m.chunk(ctx, msgs[:c.rows]); err != nil {
			return errors.Join(err, m.withdraw(ctx))
		}
		msgs = msgs[c.rows:]
	}
	return nil
}

// chunk inserts messages, but for those that exist. Those that the transaction can see
// are looked for first, without a lock; what is left collided with a commit since.
func (m *manyWriter) chunk(ctx context.Context, msgs []outbox.Message) error {
	for _, lookup := range []string{m.store.sql.Visible, m.store.sql.Existing, m.store.sql.Existing, ""} {
		err := m.insert(ctx, msgs)
		if err == nil || number(err) != duplicateEntry || lookup == "" {
			return err
		}
		known, err := m.store.known(ctx, m.q, lookup, msgs)
		if err != nil {
			return err
		}
		var left []outbox.Message
		for _, msg := range msgs {
			sequence, exists := known[msg.EventID]
			if !exists {
				left = append(left, msg)
				continue
			}
			m.sequences[msg.EventID] = sequence
		}
		msgs = left
	}
	return nil
}

// insert writes all of msgs or nothing.
func (m *manyWriter) insert(ctx context.Context, msgs []outbox.Message) error {
	for len(msgs) > 0 {
		c := m.store.fitting(msgs)
		args := make([]any, 0, c.rows*(insertTexts+3))
		for _, msg := range msgs[:c.rows] {
			var err error
			if args, err = appendRow(args, msg); err != nil {
				return err
			}
		}
		res, err := m.q.ExecContext(ctx, c.statement, args...)
		if err != nil {
			return err
		}
		first, err := res.LastInsertId()
		if err != nil {
			return err
		}
		if err := m.number(ctx, msgs[:c.rows], first); err != nil {
			return err
		}
		msgs = msgs[c.rows:]
	}
	return nil
}

// number notes the sequences of an INSERT, which gives out its numbers in one piece.
func (m *manyWriter) number(ctx context.Context, msgs []outbox.Message, first int64) error {
	if m.increment == 0 && len(msgs) > 1 {
		err := eachText(ctx, m.q, func(rows *sql.Rows) error { return rows.Scan(&m.increment) }, m.store.sql.Increment)
		if err != nil {
			return err
		}
	}
	for i, msg := range msgs {
		sequence := first + int64(i)*m.increment
		m.sequences[msg.EventID] = sequence
		m.inserted = append(m.inserted, sequence)
	}
	return nil
}

func (m *manyWriter) withdraw(ctx context.Context) error {
	return inSlices(m.inserted, func(ids []int64) error {
		return exec(context.WithoutCancel(ctx), m.q, m.store.sql.Withdraw, ids)
	})
}

// A chunk is an INSERT of a fixed number of rows. Three sizes keep the statements few and
// the calls too.
type chunk struct {
	rows      int
	statement string
}

// chunkBytes bounds the payloads of one INSERT well below the packets that servers
// accept, 16 MiB by default.
const chunkBytes = 4 << 20

func chunks(single string) []chunk {
	var list []chunk
	for _, n := range []int{100, 10, 1} {
		rows := insertRow + strings.Repeat(",\n  "+insertRow, n-1)
		list = append(list, chunk{n, strings.Replace(single, insertRow, rows, 1)})
	}
	return list
}

// fitting is the largest chunk that the first of msgs fill.
func (s *Store) fitting(msgs []outbox.Message) chunk {
	for _, c := range s.many {
		if c.rows > len(msgs) {
			continue
		}
		size := 0
		for _, msg := range msgs[:c.rows] {
			size += len(msg.Payload)
		}
		if size <= chunkBytes {
			return c
		}
	}
	return s.many[len(s.many)-1]
}

// inList gives a statement with one parameter in a list as many as n.
func inList(statement string, n int) string {
	return strings.Replace(statement, "IN (?)", "IN (?"+strings.Repeat(", ?", n-1)+")", 1)
}
