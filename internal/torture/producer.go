package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

// A Producer is an application: it writes a business row and its events in one
// transaction, again and again, until it is told to stop.
type Producer struct {
	// Keys is how many keys all producers share. One event in ten has none.
	Keys int
	// Think is the longest wait between two transactions.
	Think time.Duration
	// Hold is the longest time a transaction stays open after its events were
	// written. On a server that makes late commits; on SQLite it keeps others
	// from writing.
	Hold time.Duration
}

const (
	rollbackShare = 0.15
	holdShare     = 0.15
	keylessShare  = 0.1
	maxEvents     = 3
	// txTimeout bounds a transaction on a database that does not answer.
	txTimeout = 10 * time.Second
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
	for wait(ctx, between(w.dice, 0, p.Think)) {
		if err := w.once(ctx); err != nil {
			return err
		}
	}
	return nil
}

// once makes one transaction. Only a mistake of ours is an error; what the database
// does to us is an outcome.
func (w *producing) once(ctx context.Context) error {
	// A stop lets the transaction end: its outcome is to be known.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), txTimeout)
	defer cancel()
	w.made++
	id := fmt.Sprintf("%s-%d", w.name, w.made)
	events, msgs, err := w.events(id)
	if err != nil {
		return err
	}
	w.journal.record(Note{Transaction: id, Mark: Intent, At: now(), Events: events})
	note := Note{Transaction: id}
	note.Mark, err = w.transact(ctx, id, msgs, &note.Begun)
	if err != nil {
		note.Error = err.Error()
	}
	note.At = now()
	w.journal.record(note)
	return nil
}

// transact writes the row and its events. An error before COMMIT was sent is a failure,
// because nobody else can commit for us; after that nothing is known.
func (w *producing) transact(ctx context.Context, id string, msgs []outbox.Message, begun *int64) (Mark, error) {
	tx, err := w.db.Begin(ctx)
	if err != nil {
		*begun = now()
		return Fail, err
	}
	defer func() { _ = tx.Rollback(ctx) }() // after a commit it does nothing
	*begun = now()
	if err := tx.Business(ctx, id); err != nil {
		return Fail, err
	}
	for _, msg := range msgs {
		if err := tx.Enqueue(ctx, msg); err != nil {
			return Fail, err
		}
	}
	if w.dice.Float64() < holdShare {
		wait(ctx, between(w.dice, 0, w.Hold))
	}
	if w.dice.Float64() < rollbackShare {
		return Fail, tx.Rollback(ctx)
	}
	if err := tx.Commit(ctx); err != nil {
		return Unknown, err
	}
	return OK, nil
}

// events makes the events of one transaction.
func (w *producing) events(id string) ([]Event, []outbox.Message, error) {
	n := 1 + w.dice.IntN(maxEvents)
	events, msgs := make([]Event, n), make([]outbox.Message, n)
	for i := range n {
		key := ""
		if w.dice.Float64() >= keylessShare {
			key = fmt.Sprintf("key-%d", w.dice.IntN(w.Keys))
		}
		w.counts[key]++
		b := body{
			Transaction: id, Event: uuid.New(), Key: key, N: w.counts[key],
			Pad: strings.Repeat("é ", w.dice.IntN(100)),
		}
		var err error
		if events[i], msgs[i], err = b.message(); err != nil {
			return nil, nil, err
		}
	}
	return events, msgs, nil
}

// message is the body as it is enqueued, and what the producer writes down about it.
func (b *body) message() (Event, outbox.Message, error) {
	payload, err := b.seal()
	return Event{ID: b.Event, Key: b.Key, N: b.N, Sum: sum(payload)},
		outbox.Message{Topic: topic, Key: b.Key, EventID: b.Event, Payload: payload}, err
}
