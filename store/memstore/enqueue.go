package memstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-outbox/outbox"
)

// A Tx is a transaction. It is used by one goroutine at a time.
type Tx struct {
	store  *Store
	number uint64 // given with the first write, as databases do
	rows   []*row
	done   chan struct{}
	ended  bool
	turn   bool // it holds the store's turn
	waits  *Tx  // the transaction it waits for
}

// Begin starts a transaction. It must be ended with Commit or Rollback.
func (s *Store) Begin() *Tx { return &Tx{store: s, done: make(chan struct{})} }

// Enqueue adds msg to the transaction and returns its sequence. The message exists
// once tx is committed. An event id that another running transaction has enqueued
// makes Enqueue wait for its end, as a unique index would.
func (s *Store) Enqueue(ctx context.Context, tx *Tx, msg outbox.Message) (int64, error) {
	msg, err := s.cfg.Gate.Admit(ctx, s.cfg.Table, msg)
	if err != nil {
		return 0, fmt.Errorf("enqueue: %w", err)
	}
	sequence, err := s.enqueue(ctx, tx, msg)
	if err != nil {
		return 0, fmt.Errorf("enqueue: %w", err)
	}
	return sequence, nil
}

// EnqueueMany is Enqueue for several messages. When it returns an error it has added
// none of them.
func (s *Store) EnqueueMany(ctx context.Context, tx *Tx, msgs []outbox.Message) ([]int64, error) {
	admitted := make([]outbox.Message, len(msgs))
	for i, msg := range msgs {
		var err error
		if admitted[i], err = s.cfg.Gate.Admit(ctx, s.cfg.Table, msg); err != nil {
			return nil, fmt.Errorf("enqueue message %d: %w", i, err)
		}
	}
	mark := tx.Savepoint()
	sequences := make([]int64, len(msgs))
	for i, msg := range admitted {
		var err error
		if sequences[i], err = s.enqueue(ctx, tx, msg); err != nil {
			return nil, fmt.Errorf("enqueue message %d: %w", i, errors.Join(err, tx.RollbackTo(mark)))
		}
	}
	return sequences, nil
}

// EnqueueAutocommit is Enqueue in a transaction of its own.
func (s *Store) EnqueueAutocommit(ctx context.Context, msg outbox.Message) (int64, error) {
	tx := s.Begin()
	sequence, err := s.Enqueue(ctx, tx, msg)
	if err != nil {
		return 0, errors.Join(err, tx.Rollback())
	}
	return sequence, tx.Commit()
}

func (s *Store) enqueue(ctx context.Context, tx *Tx, msg outbox.Message) (int64, error) {
	if err := tx.takeTurn(ctx); err != nil {
		return 0, err
	}
	for {
		sequence, other, err := s.insert(ctx, tx, msg)
		if other == nil || err != nil {
			return sequence, err
		}
		select {
		case <-other.done:
		case <-ctx.Done():
			tx.waitNoMore()
			return 0, context.Cause(ctx)
		}
	}
}

// insert adds a row to tx, finds the one that exists already, or names the
// transaction that has to end before either can be told.
func (s *Store) insert(ctx context.Context, tx *Tx, msg outbox.Message) (int64, *Tx, error) {
	if err := s.enter(ctx); err != nil {
		return 0, nil, err
	}
	defer s.mu.Unlock()
	tx.waits = nil
	if tx.ended {
		return 0, nil, errTxDone
	}
	if old := s.events[msg.EventID]; old != nil {
		if old.tx != nil && old.tx != tx {
			return 0, old.tx, tx.waitFor(old.tx)
		}
		if !old.sameContent(msg) {
			return 0, nil, outbox.ErrEventIDConflict.With("event_id", msg.EventID.String()+" exists with other content")
		}
		return old.Sequence, nil, nil
	}
	if tx.number == 0 {
		tx.number = s.next
		s.next++
		s.running[tx.number] = tx
	}
	s.sequence++
	r := newRow(msg, s.clock.now())
	r.Sequence, r.tx = s.sequence, tx
	s.events[r.EventID] = r
	tx.rows = append(tx.rows, r)
	return r.Sequence, nil, nil
}

// waitFor notes that tx waits for other, unless that would be for ever.
func (tx *Tx) waitFor(other *Tx) error {
	for t := other; t != nil; t = t.waits {
		if t == tx {
			return errors.New("deadlock: two transactions wait for each other's event ids")
		}
	}
	tx.waits = other
	return nil
}

func (tx *Tx) waitNoMore() {
	tx.store.mu.Lock()
	defer tx.store.mu.Unlock()
	tx.waits = nil
}

func (tx *Tx) takeTurn(ctx context.Context) error {
	if !tx.store.cfg.Gapless || tx.turn {
		return nil
	}
	select {
	case tx.store.turn <- struct{}{}:
		tx.turn = true
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Commit makes the messages of the transaction visible, all at once.
func (tx *Tx) Commit() error {
	return tx.end(func(r *row) {
		r.tx = nil
		tx.store.reindex(r)
	})
}

// Rollback forgets the messages of the transaction. Their sequences are not given
// out again. After Commit it does nothing and returns an error, so it can be
// deferred.
func (tx *Tx) Rollback() error {
	return tx.end(func(r *row) { delete(tx.store.events, r.EventID) })
}

func (tx *Tx) end(each func(*row)) error {
	s := tx.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if tx.ended {
		return errTxDone
	}
	tx.ended = true
	for _, r := range tx.rows {
		each(r)
	}
	tx.rows = nil
	delete(s.running, tx.number)
	close(tx.done)
	if tx.turn {
		<-s.turn
	}
	return nil
}

// Savepoint marks the present state of the transaction for RollbackTo.
func (tx *Tx) Savepoint() int { return len(tx.rows) }

// RollbackTo forgets what was enqueued since the savepoint.
func (tx *Tx) RollbackTo(savepoint int) error {
	s := tx.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if tx.ended {
		return errTxDone
	}
	if savepoint < 0 || savepoint > len(tx.rows) {
		return fmt.Errorf("no savepoint %d", savepoint)
	}
	for _, r := range tx.rows[savepoint:] {
		delete(s.events, r.EventID)
	}
	tx.rows = tx.rows[:savepoint]
	return nil
}
