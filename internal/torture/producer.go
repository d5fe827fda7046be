package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

// A Producer is an application: it writes a business row and its events in one
// transaction, again and again, until it is told to stop. Some transactions are rolled
// back, some in part, some by a panic, some because their context ends.
type Producer struct {
	// Keys is how many keys all producers share. One event in ten has none.
	Keys int
	// Think is the longest wait between two transactions.
	Think time.Duration
	// Hold is the longest time a transaction stays open after its events were
	// written. On a server that makes late commits; on SQLite it keeps others
	// from writing. One transaction in a hundred is held up to ten times as long.
	Hold time.Duration
	// Bulk is the most events of the one transaction in ten that has many.
	Bulk int
}

const (
	rollbackShare  = 0.10
	savepointShare = 0.05
	panicShare     = 0.02
	cancelShare    = 0.03
	holdShare      = 0.15
	longShare      = 0.01
	bulkShare      = 0.10
	keylessShare   = 0.1
	maxEvents      = 5
	// txTimeout bounds a transaction on a database that does not answer.
	txTimeout       = 10 * time.Second
	rollbackTimeout = 2 * time.Second
	reconnectEvery  = 100 * time.Millisecond
)

// topic is what all events are about.
const topic = "torture.order.placed.v1"

// producing is a Producer at work.
type producing struct {
	*Producer
	name    string
	db      Database
	journal *journal
	dice    *rand.Rand
	made    int
	counts  map[string]int // events by key
}

func (p *Producer) run(ctx context.Context, spec *Spec, db Database, j *journal) error {
	w := &producing{
		Producer: p, name: spec.Name, db: db, journal: j,
		dice: dice(spec.Seed, spec.Name), counts: make(map[string]int),
	}
	sky := weather{path: spec.Weather}
	for wait(ctx, between(w.dice, 0, p.Think)) {
		if sky.now().Crowded {
			wait(ctx, reconnectEvery)
			continue
		}
		connected, err := w.once(ctx)
		if err != nil {
			return err
		}
		if !connected {
			wait(ctx, reconnectEvery)
		}
	}
	return nil
}

// A plan is what one transaction will do. It is made and written down before.
type plan struct {
	id     string
	events []Event
	msgs   []outbox.Message
	end    ending
	hold   time.Duration
	many   bool
}

type ending int

const (
	commits ending = iota
	rollsBack
	panics
	isCancelled
)

// once makes one transaction. Only a mistake of ours is an error; what the database
// does to us is an outcome.
func (w *producing) once(ctx context.Context) (connected bool, err error) {
	// A stop lets the transaction end: its outcome is to be known.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), txTimeout)
	defer cancel()
	p, err := w.plan()
	if err != nil {
		return false, err
	}
	w.journal.record(Note{Transaction: p.id, Mark: Intent, At: now(), Events: p.events})
	note := Note{Transaction: p.id}
	note.Mark, err = w.transact(ctx, cancel, p, &note.Begun)
	if err != nil {
		note.Error = err.Error()
	}
	note.At = now()
	w.journal.record(note)
	return note.Begun != 0, nil
}

var errPanic = errors.New("the application panicked on purpose")

// transact writes the row and its events. An error before COMMIT was sent is a failure,
// because nobody else can commit for us; after that nothing is known.
func (w *producing) transact(ctx context.Context, cancel func(), p *plan, begun *int64) (mark Mark, err error) {
	tx, err := w.db.Begin(ctx)
	if err != nil {
		return Fail, err
	}
	defer func() { // after a commit it does nothing
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		_ = tx.Rollback(ctx)
	}()
	defer func() {
		if recover() != nil {
			mark, err = Fail, errPanic
		}
	}()
	*begun = now()
	if err := tx.Business(ctx, p.id); err != nil {
		return Fail, err
	}
	if err := w.enqueue(ctx, tx, p); err != nil {
		return Fail, err
	}
	if p.hold > 0 {
		wait(ctx, p.hold)
	}
	switch p.end {
	case rollsBack:
		return Fail, tx.Rollback(ctx)
	case panics:
		panic(errPanic)
	case isCancelled:
		cancel() // the driver may refuse, or have sent COMMIT already
	}
	if err := tx.Commit(ctx); err != nil {
		return Unknown, err
	}
	return OK, nil
}

// enqueue writes the events, those that will be undone inside a savepoint.
func (w *producing) enqueue(ctx context.Context, tx Tx, p *plan) error {
	if p.many {
		return tx.EnqueueMany(ctx, p.msgs)
	}
	saved := false
	for i, msg := range p.msgs {
		if p.events[i].Undone && !saved {
			saved = true
			if err := tx.Savepoint(ctx); err != nil {
				return err
			}
		}
		if err := tx.Enqueue(ctx, msg); err != nil {
			return err
		}
	}
	if saved {
		return tx.RollbackTo(ctx)
	}
	return nil
}

// plan decides about one transaction and makes its events.
func (w *producing) plan() (*plan, error) {
	w.made++
	p := &plan{id: fmt.Sprintf("%s-%d", w.name, w.made)}
	n := 1 + w.dice.IntN(maxEvents)
	if p.many = w.Bulk > 0 && w.dice.Float64() < bulkShare; p.many {
		n = 1 + w.dice.IntN(w.Bulk)
	}
	kept := n
	if !p.many && w.dice.Float64() < savepointShare {
		kept = w.dice.IntN(n) // the others are undone
	}
	switch x := w.dice.Float64(); {
	case x < rollbackShare:
		p.end = rollsBack
	case x < rollbackShare+panicShare:
		p.end = panics
	case x < rollbackShare+panicShare+cancelShare:
		p.end = isCancelled
	}
	switch x := w.dice.Float64(); {
	case w.Hold == 0:
	case x < longShare:
		p.hold = between(w.dice, 0, 10*w.Hold)
	case x < holdShare:
		p.hold = between(w.dice, 0, w.Hold)
	}
	p.events, p.msgs = make([]Event, n), make([]outbox.Message, n)
	for i := range n {
		b := w.body(p.id)
		var err error
		if p.events[i], p.msgs[i], err = b.message(); err != nil {
			return nil, err
		}
		p.events[i].Undone = i >= kept
	}
	return p, nil
}

func (w *producing) body(transaction string) *body {
	key := ""
	if w.dice.Float64() >= keylessShare {
		key = fmt.Sprintf("key-%d", w.dice.IntN(w.Keys))
	}
	w.counts[key]++
	return &body{
		Transaction: transaction, Event: uuid.New(), Key: key, N: w.counts[key],
		Pad: strings.Repeat("é ", w.dice.IntN(100)),
	}
}

// message is the body as it is enqueued, and what the producer writes down about it.
func (b *body) message() (Event, outbox.Message, error) {
	payload, err := b.seal()
	return Event{ID: b.Event, Key: b.Key, N: b.N, Sum: sum(payload)},
		outbox.Message{Topic: topic, Key: b.Key, EventID: b.Event, Payload: payload}, err
}
