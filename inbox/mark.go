package inbox

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/inbox/internal/mark"
)

// mark records one event and reports whether it is new.
func (b *Inbox) mark(ctx context.Context, tx Tx, consumer string, event uuid.UUID) (bool, error) {
	args := []any{consumer, b.id(event)}
	if b.dialect == MySQL {
		args = append(args, mark.Stripe(consumer, event))
	}
	res, err := tx.ExecContext(ctx, b.sql.Mark, args...)
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	if err == nil && n == 0 && b.dialect == MySQL {
		err = b.noStripe() // not to be taken for a duplicate
	}
	return n == 1, err
}

// noStripe says that a row is missing that the migration made.
func (b *Inbox) noStripe() error {
	return outbox.ErrSchema.With("table", b.table+"_stripe has lost rows; its migration inserts them")
}

// id is an event id as a parameter.
func (b *Inbox) id(event uuid.UUID) any {
	if b.dialect == MySQL {
		return event[:]
	}
	return event.String()
}

// markMany records events, which are sorted, and returns the new ones.
func (b *Inbox) markMany(ctx context.Context, tx Tx, consumer string, events []uuid.UUID) ([]uuid.UUID, error) {
	switch {
	case len(events) == 0:
		return nil, nil
	case b.dialect == MySQL:
		return b.markChunks(ctx, tx, consumer, events)
	case b.dialect == PostgreSQL:
		return b.query(ctx, tx, b.sql.MarkMany, consumer, mark.Array(events))
	}
	list, err := json.Marshal(events)
	if err != nil {
		return nil, err
	}
	return b.query(ctx, tx, b.sql.MarkMany, consumer, string(list))
}

// mysqlChunk bounds the parameters of a statement.
const mysqlChunk = 1000

// markChunks is markMany for MySQL, which has no RETURNING and whose duplicates lock more
// than themselves: one statement locks the stripes of all, one looks for the marks there
// are, and one makes those that are missing.
func (b *Inbox) markChunks(ctx context.Context, tx Tx, consumer string, events []uuid.UUID) ([]uuid.UUID, error) {
	if err := b.lock(ctx, tx, consumer, events); err != nil {
		return nil, err
	}
	var fresh []uuid.UUID
	for chunk := range slices.Chunk(events, mysqlChunk) {
		found, err := b.markChunk(ctx, tx, consumer, chunk)
		if err != nil {
			return nil, err
		}
		fresh = append(fresh, found...)
	}
	return fresh, nil
}

// lock takes the stripes of events.
func (b *Inbox) lock(ctx context.Context, tx Tx, consumer string, events []uuid.UUID) error {
	seen := make(map[int]bool, len(events))
	var stripes []any
	for _, event := range events {
		if stripe := mark.Stripe(consumer, event); !seen[stripe] {
			seen[stripe] = true
			stripes = append(stripes, stripe)
		}
	}
	rows, err := tx.QueryContext(ctx, repeat(b.mysql.Lock, "?", len(stripes)), stripes...)
	if err != nil {
		return err
	}
	defer rows.Close()
	locked := 0
	for rows.Next() {
		locked++
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if locked != len(stripes) {
		return b.noStripe()
	}
	return nil
}

func (b *Inbox) markChunk(ctx context.Context, tx Tx, consumer string, events []uuid.UUID) ([]uuid.UUID, error) {
	known, err := b.query(ctx, tx, repeat(b.mysql.Known, "?", len(events)), b.ids(consumer, events)...)
	if err != nil {
		return nil, err
	}
	events = without(events, known)
	if len(events) == 0 {
		return nil, nil
	}
	pairs := make([]any, 0, 2*len(events))
	for _, event := range events {
		pairs = append(pairs, consumer, b.id(event))
	}
	res, err := tx.ExecContext(ctx, repeat(b.sql.MarkMany, "(?, ?)", len(events)), pairs...)
	if err != nil {
		return nil, err
	}
	affected, err := res.RowsAffected()
	if err != nil || affected == int64(len(events)) {
		return events, err
	}
	return b.query(ctx, tx, repeat(b.mysql.Fresh, "?", len(events)), b.ids(consumer, events)...)
}

// ids are the parameters of a statement about several events.
func (b *Inbox) ids(consumer string, events []uuid.UUID) []any {
	args := make([]any, 0, 1+len(events))
	args = append(args, consumer)
	for _, event := range events {
		args = append(args, b.id(event))
	}
	return args
}

func without(events, known []uuid.UUID) []uuid.UUID {
	if len(known) == 0 {
		return events
	}
	return slices.DeleteFunc(slices.Clone(events), func(id uuid.UUID) bool { return slices.Contains(known, id) })
}

// repeat makes a statement with a list of one a statement with a list of n. The list is
// its last parameter.
func repeat(statement, one string, n int) string {
	at := strings.LastIndex(statement, one)
	return statement[:at] + one + strings.Repeat(", "+one, n-1) + statement[at+len(one):]
}

// query returns the ids that a statement returns.
func (b *Inbox) query(ctx context.Context, tx Tx, statement string, args ...any) ([]uuid.UUID, error) {
	rows, err := tx.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []uuid.UUID
	for rows.Next() {
		var id uuid.UUID
		if err := rows.Scan(&id); err != nil { // takes the 16 bytes of MySQL as well as text
			return nil, err
		}
		list = append(list, id)
	}
	return list, rows.Err()
}
