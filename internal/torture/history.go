package torture

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

// A History is everything that was observed about a run.
type History struct {
	Transactions []Transaction
	Deliveries   []Delivery
	Transitions  []Transition // in the order the database made them
	Final        Final
	Outages      []Outage
	LogLines     []LogLine
}

// A Mark is what a producer wrote about a transaction.
type Mark string

// The marks. A transaction of which only the intent is known is unknown: its producer
// was killed.
const (
	Intent  Mark = "intent"
	OK      Mark = "ok"      // COMMIT returned without an error
	Fail    Mark = "fail"    // it was rolled back, or failed before COMMIT was sent
	Unknown Mark = "unknown" // COMMIT was sent and its answer was an error, or none
)

// A Note is one line of a producer's journal.
type Note struct {
	Transaction string
	Mark        Mark
	// Begun is when the first enqueue began; At when the line was written.
	Begun, At int64   `json:",omitempty"`
	Events    []Event `json:",omitempty"`
	Error     string  `json:",omitempty"`
}

// A Transaction is what its producer knows about it. Times are nanoseconds of the
// machine's monotonic clock, which all processes share.
type Transaction struct {
	ID      string
	Outcome Mark // never Intent
	Begun   int64
	Ended   int64
	Events  []Event // in the order they were enqueued
}

// An Event is one enqueued message. N counts the producer's events of the key, for
// whoever reads a violation.
type Event struct {
	ID  uuid.UUID
	Key string
	N   int
	Sum string // of the payload
}

// A Delivery is one line of the sink's journal, written before the answer.
type Delivery struct {
	Event    uuid.UUID
	Key      string
	N        int
	Sequence int64
	Attempt  int
	Relay    string
	Pid      int
	At       int64
	Sum      string
	// Damage says what was wrong with the payload by its own account.
	Damage string `json:",omitempty"`
	// Accepted: the answer is a success. Otherwise it is an error.
	Accepted bool
}

// A Transition is one change of a message row, as the trigger saw it.
type Transition struct {
	No                        int64
	Sequence                  int64
	Deleted                   bool
	WasPublished, IsPublished bool
	WasDead, IsDead           bool
	WasAttempts, IsAttempts   int
	WasReplays, IsReplays     int
	// Writer changed the row; Holder had the lease of its shard in this epoch.
	Writer, Holder string
	Shard          int
	Epoch          int64
}

// Final is the database when everything has stopped.
type Final struct {
	Business map[string]bool // transactions whose business row exists
	Rows     []Row
	Held     []Held
	Batches  int // recorded and not finished
}

// Held is a lease that has an owner.
type Held struct {
	Shard int
	By    string
}

// A Row is a message at the end.
type Row struct {
	Sequence        int64
	Event           uuid.UUID
	Key             string
	Published, Dead bool
	Reason          string
	Attempts        int
}

// An Outage is a time when the database did not run.
type Outage struct{ From, To time.Time }

// A LogLine is something that a relay said. Alien: not through its logger, as a panic or
// the race detector does; then it has the time of the line before it.
type LogLine struct {
	Relay string
	At    time.Time
	Text  string
	Alien bool
}

// now is CLOCK_MONOTONIC: one clock for all processes of the machine, which nobody can
// set. The monotonic reading inside time.Time is the same one, but cannot be written
// down.
func now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // every system we run on has this clock
	}
	return ts.Nano()
}

// A journal is an append-only file of JSON lines. Each line is one write, so that a
// kill leaves whole lines, also of two processes in one file. It survives the death of
// the process and not of the machine: nobody kills the machine.
type journal struct{ *os.File }

func openJournal(path string) (*journal, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	return &journal{f}, nil
}

// record panics when it cannot write: without its journal a run shows nothing.
func (j *journal) record(v any) {
	line, err := json.Marshal(v)
	if err == nil {
		_, err = j.Write(append(line, '\n'))
	}
	if err != nil {
		panic(fmt.Errorf("write journal: %w", err))
	}
}

func readJournal[T any](path string) ([]T, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	defer f.Close()
	var list []T
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var v T
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			return nil, fmt.Errorf("read journal %s line %d: %w", path, len(list)+1, err)
		}
		list = append(list, v)
	}
	return list, lines.Err()
}

// transactions makes one Transaction of each intent and what became of it.
func transactions(notes []Note) []Transaction {
	list := make([]Transaction, 0, len(notes)/2)
	index := make(map[string]int)
	for _, n := range notes {
		if n.Mark == Intent {
			index[n.Transaction] = len(list)
			list = append(list, Transaction{ID: n.Transaction, Outcome: Unknown, Begun: n.At, Events: n.Events})
			continue
		}
		tx := &list[index[n.Transaction]]
		tx.Outcome, tx.Begun, tx.Ended = n.Mark, n.Begun, n.At
	}
	return list
}
