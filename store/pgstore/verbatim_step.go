package pgstore

import (
	"context"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/go-outbox/outbox"
)

// A flight remembers what a lease has read of a verbatim table and not settled: the
// engine knows messages by sequence, the table has its key on id. Forgetting costs a
// look at the pending index and nothing else. Reads and steps share it.
type flight struct {
	mu      sync.Mutex
	rows    map[int64]*known
	batches map[int64][]int64
	// loose counts rows in no batch: just read, or read and let go.
	loose int
}

// known is what a settle needs to know about a message.
type known struct {
	sequence int64
	batch    int64 // 0 is none
	id       pgtype.UUID
	// plain: neither scheduled nor put back when it was read, so that a replay
	// shows on its own row.
	plain bool
}

// maxLoose bounds the memory of messages that the engine has let go. Those it has
// just read and not recorded are far fewer.
const maxLoose = 1 << 16

func knownFrom(r *outbox.Record, id []byte) known {
	k := known{sequence: r.Sequence, plain: !r.AvailableAt.After(r.CreatedAt)}
	k.id.Valid = copy(k.id.Bytes[:], id) == len(k.id.Bytes)
	return k
}

func newFlight() flight {
	return flight{rows: map[int64]*known{}, batches: map[int64][]int64{}}
}

// learn takes in what a read brought.
func (f *flight) learn(page []known) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.loose+len(page) > maxLoose {
		f.dropLoose()
	}
	for i := range page {
		k := &page[i]
		if old := f.rows[k.sequence]; old != nil {
			old.id, old.plain = k.id, k.plain
			continue
		}
		f.rows[k.sequence] = k
		f.loose++
	}
}

func (f *flight) dropLoose() {
	for sequence, k := range f.rows {
		if k.batch == 0 {
			delete(f.rows, sequence)
		}
	}
	f.loose = 0
}

// sequences lists what is recorded as in flight.
func (f *flight) sequences() []int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]int64, 0, len(f.rows))
	for sequence, k := range f.rows {
		if k.batch != 0 {
			list = append(list, sequence)
		}
	}
	return list
}

// stepped follows a step that has been written.
func (f *flight) stepped(step *outbox.Step) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range step.Outcomes {
		f.forget(f.rows[o.Sequence])
	}
	for _, no := range step.Done {
		for _, sequence := range f.batches[no] {
			if k := f.rows[sequence]; k != nil && k.batch == no {
				f.forget(k)
			}
		}
		delete(f.batches, no)
	}
	for _, b := range step.Record {
		f.batches[b.No] = b.IDs
		for _, sequence := range b.IDs {
			if k := f.rows[sequence]; k != nil {
				if k.batch == 0 {
					f.loose--
				}
				k.batch = b.No
			}
		}
	}
}

func (f *flight) forget(k *known) {
	if k == nil {
		return
	}
	if k.batch == 0 {
		f.loose--
	}
	delete(f.rows, k.sequence)
}

// A settlement is the outcomes of a step by what settles them.
type settlement struct {
	plain   []pgtype.UUID // published in the ordinary way
	rest    []outbox.Outcome
	restIDs []pgtype.UUID
	unknown []outbox.Outcome // of the rest, without an id
}

func (f *flight) settlement(step *outbox.Step) settlement {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := settlement{plain: make([]pgtype.UUID, 0, len(step.Outcomes))}
	for _, o := range step.Outcomes {
		k := f.rows[o.Sequence]
		switch {
		case k == nil || !k.id.Valid:
			s.unknown = append(s.unknown, o)
		case k.plain && ordinary(o, step.Delete):
			s.plain = append(s.plain, k.id)
		default:
			s.rest, s.restIDs = append(s.rest, o), append(s.restIDs, k.id)
		}
	}
	return s
}

// stepVerbatim is Step on a verbatim table: one statement, unless something other than
// plain success is to be written.
func (l *lease) stepVerbatim(ctx context.Context, step *outbox.Step) error {
	s := l.flight.settlement(step)
	var held int
	err := again(func() (err error) {
		if len(s.rest)+len(s.unknown)+len(step.Start)+len(step.Beat) == 0 {
			args := append(l.fenced(batchArgs(step)...), pgtype.FlatArray[pgtype.UUID](s.plain))
			var ignored string
			return l.s.pool.QueryRow(ctx, pick(step.Delete, l.sql.StepDeleteAny, l.sql.StepKeepAny), args...).Scan(&held, &ignored)
		}
		return l.inFence(ctx, func(tx pgx.Tx) error {
			held, err = l.stepMixed(ctx, tx, step, s)
			return err
		})
	})
	if err == nil && held == 0 {
		err = l.lost(ctx)
	}
	if err == nil {
		l.flight.stepped(step)
	}
	return err
}

// stepMixed settles outcomes of every kind. The lease is locked: see
// sql/verbatim/step_keep_mixed.sql.
func (l *lease) stepMixed(ctx context.Context, tx pgx.Tx, step *outbox.Step, s settlement) (held int, err error) {
	if len(s.unknown) > 0 {
		if err := l.findIDs(ctx, tx, &s); err != nil {
			return 0, err
		}
	}
	arrays, err := outcomeArgs(s.rest)
	if err != nil {
		return 0, err
	}
	args := append(l.fenced(batchArgs(step)...), pgtype.FlatArray[pgtype.UUID](s.plain), orEmpty(step.Start), orEmpty(step.Beat))
	args = append(append(args, arrays...), pgtype.FlatArray[pgtype.UUID](orEmpty(s.restIDs)))
	var ignored string
	err = tx.QueryRow(ctx, pick(step.Delete, l.sql.StepDeleteMixed, l.sql.StepKeepMixed), args...).Scan(&held, &ignored)
	return held, err
}

// findIDs adds the unknown messages that are unpublished to the rest. Of the others
// there is nothing to settle.
func (l *lease) findIDs(ctx context.Context, tx pgx.Tx, s *settlement) error {
	sequences := make([]int64, len(s.unknown))
	for i, o := range s.unknown {
		sequences[i] = o.Sequence
	}
	rows, err := tx.Query(ctx, l.sql.FindIDs, l.s.mode, slices.Min(sequences), slices.Max(sequences), sequences)
	if err != nil {
		return err
	}
	ids := make(map[int64]pgtype.UUID, len(sequences))
	var sequence int64
	var id pgtype.UUID
	_, err = pgx.ForEachRow(rows, []any{&sequence, &id}, func() error {
		ids[sequence] = id
		return nil
	})
	for _, o := range s.unknown {
		if id, ok := ids[o.Sequence]; ok {
			s.rest, s.restIDs = append(s.rest, o), append(s.restIDs, id)
		}
	}
	return err
}
