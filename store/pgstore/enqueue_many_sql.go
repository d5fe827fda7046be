package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/go-outbox/outbox"
)

// EnqueueManySQL is EnqueueMany for a transaction of database/sql: one statement for
// any number of messages, and all of them or none.
func (s *Store) EnqueueManySQL(ctx context.Context, tx SQLTx, msgs []outbox.Message) ([]int64, error) {
	b, err := s.admitMany(ctx, msgs, func() (*layout, error) { return s.layout(ctx, s.pool) })
	if err != nil || len(msgs) == 0 {
		return nil, err
	}
	if err := insertManySQL(ctx, tx, b); err != nil {
		return nil, s.explain("enqueue", err)
	}
	return b.sequences, nil
}

func insertManySQL(ctx context.Context, tx SQLTx, b *bundle) error {
	err := eachSQL(ctx, tx, b.statement, b.arrays(b.entries), func(rows *sql.Rows) error {
		var sequence int64
		var id uuid.UUID
		if err := rows.Scan(&sequence, &id); err != nil {
			return err
		}
		return b.wrote(sequence, id)
	})
	if err != nil {
		return err
	}
	missing, at := b.missing()
	if len(missing) == 0 {
		return nil
	}
	found, err := duplicatesSQL(ctx, tx, b.layout, missing)
	if err != nil {
		return err
	}
	return b.fill(at, found)
}

func duplicatesSQL(ctx context.Context, tx SQLTx, l *layout, msgs []*outbox.Message) (map[int64]int64, error) {
	found := make(map[int64]int64, len(msgs))
	var conflict error
	err := eachSQL(ctx, tx, l.sql.Duplicates, l.contents(msgs), func(rows *sql.Rows) error {
		var n, sequence int64
		var same bool
		if err := rows.Scan(&n, &sequence, &same); err != nil {
			return err
		}
		if !same {
			conflict = exists(msgs[n].EventID, sequence)
		}
		found[n] = sequence
		return nil
	})
	return found, errors.Join(err, conflict)
}

// eachSQL runs a statement whose parameters are arrays and hands its rows to scan.
func eachSQL(ctx context.Context, tx SQLTx, statement string, arrays []any, scan func(*sql.Rows) error) error {
	args, err := arrayTexts(arrays)
	if err != nil {
		return err
	}
	rows, err := tx.QueryContext(ctx, statement, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// arrayTexts writes arrays as the server reads them: every driver knows text, and not
// every one knows arrays.
func arrayTexts(arrays []any) ([]any, error) {
	m := pgtype.NewMap()
	texts := make([]any, len(arrays))
	for i, array := range arrays {
		text, err := m.Encode(arrayType(array), pgtype.TextFormatCode, array, nil)
		if err != nil {
			return nil, fmt.Errorf("parameter %d: %w", i+1, err)
		}
		texts[i] = string(text)
	}
	return texts, nil
}

func arrayType(array any) uint32 {
	switch array.(type) {
	case []pgtype.UUID:
		return pgtype.UUIDArrayOID
	case []pgtype.Timestamptz:
		return pgtype.TimestamptzArrayOID
	case [][]byte:
		return pgtype.ByteaArrayOID
	case []int32:
		return pgtype.Int4ArrayOID
	case []int64:
		return pgtype.Int8ArrayOID
	default:
		return pgtype.TextArrayOID
	}
}
