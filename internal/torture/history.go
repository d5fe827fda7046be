package torture

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

// A History is everything that was observed about a run. It is all the checker needs:
// saved, it can be checked again anywhere.
type History struct {
	Seed   uint64
	Driver Driver
	// Calm: nothing was broken, so that nothing excuses a duplicate.
	Calm   bool `json:",omitempty"`
	Limits Limits
	// Began is one moment on the machine's monotonic clock, BeganAt the same one on the
	// wall clock.
	Began   int64
	BeganAt time.Time

	Transactions  []Transaction
	Deliveries    []Delivery
	Transitions   []Transition // in the order the database made them
	Handovers     []Handover   // in the order the database made them
	Faults        []Fault
	Ends          []End // of relays, in the order of time
	Replays       []Replay
	Interventions []Intervention
	Final         Final
	Drain         Drain
	Outages       []Outage
	LogLines      []LogLine
	Resources     []Resource
}

// Limits are what the run was configured to keep to.
type Limits struct {
	Lease, Poll time.Duration
	Shards      int
	MaxAttempts int
	// MaxBackoff is the longest wait before a refused message is tried again.
	MaxBackoff time.Duration
	// Retention is how long published messages are kept; 0 is for ever.
	Retention time.Duration
	// Connections is how many each relay may have to the database.
	Connections int
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
	// Undone: it was enqueued after a savepoint that was rolled back.
	Undone bool `json:",omitempty"`
}

// A Delivery is one line of the sink's journal, written before the answer.
type Delivery struct {
	No       int // counts the deliveries of a process
	Event    uuid.UUID
	Key      string
	N        int
	Sequence int64
	Attempt  int
	Replay   int `json:",omitempty"`
	Relay    string
	Pid      int
	At       int64
	Sum      string
	// Damage says what was wrong with the payload by its own account.
	Damage string `json:",omitempty"`
	// Final: the answer is a refusal for good.
	Final bool `json:",omitempty"`
	// Accepted: the answer is a success. Otherwise it is an error, and Kept says that
	// the sink has the message all the same: the answer is ambiguous.
	Accepted bool
	Kept     bool `json:",omitempty"`
	// Cut, of a line of its own: delivery No was to be accepted, and ended with an
	// error because its context did.
	Cut bool `json:",omitempty"`
}

// A Transition is one change of a message row, as the trigger saw it.
type Transition struct {
	No                        int64
	Sequence                  int64
	Event                     uuid.UUID
	Deleted                   bool
	WasPublished, IsPublished bool
	WasDead, IsDead           bool
	WasAttempts, IsAttempts   int
	WasReplays, IsReplays     int
	// Writer changed the row; Holder had the lease of its shard in this epoch.
	Writer, Holder string
	Shard          int
	Epoch          int64
	At             time.Time // the database's clock
	// Age is how long a deleted row had been published.
	Age time.Duration
}

// A Handover is one change of a lease, as the trigger saw it.
type Handover struct {
	No       int64
	Shard    int
	Instance string // who holds it now, or held it when it was released
	Held     bool
	Epoch    int64
	At       time.Time
}

// A Fault is something that the nemesis did.
type Fault struct {
	Kind string
	// Targets are the processes it was done to. None means everybody.
	Targets  []string `json:",omitempty"`
	From, To int64
	// Hit: it met something that it could break.
	Hit    bool
	Detail string
}

// A Replay is an operator's request to send an event again. Done is when it was
// answered.
type Replay struct {
	Event    uuid.UUID
	At, Done int64
	Error    string `json:",omitempty"`
}

// Final is the database when everything has stopped.
type Final struct {
	Business map[string]bool // transactions whose business row exists
	Rows     []Row
	Held     []Held
	Batches  int // recorded and not finished
	// Leftovers are other things that should not be there: advisory locks, prepared
	// transactions, sessions idle in a transaction.
	Leftovers []string
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
	Reason, Error   string
	Attempts        int
	Replays         int
}

// Drain is how the run came to rest after the last fault.
type Drain struct {
	Backlog int // messages waiting when producers had stopped
	Took    time.Duration
	Done    bool
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

// A Resource is what a relay process used.
type Resource struct {
	Relay string
	// Goroutines before the engine started and after it had stopped.
	Before, After int
	MaxRSS        int64 // bytes
	Connections   int   // the most that were seen at once
}

// mono converts a time of the wall clock. The two drift apart by less than anything
// that is judged here, unless somebody sets the clock.
func (h *History) mono(t time.Time) int64 { return h.Began + int64(t.Sub(h.BeganAt)) }

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

// readJournal reads the whole lines of a journal. A line without its end was being
// written when the process was killed: what it says had not happened yet.
func readJournal[T any](path string) (list []T, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	defer f.Close()
	lines := bufio.NewReaderSize(f, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		var v T
		if err == nil {
			err = json.Unmarshal(line, &v)
		}
		if err != nil {
			return nil, fmt.Errorf("read journal %s line %d: %w", path, len(list)+1, err)
		}
		list = append(list, v)
	}
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
		tx.Outcome, tx.Ended = n.Mark, n.At
		if n.Begun != 0 { // else there was no transaction
			tx.Begun = n.Begun
		}
	}
	return list
}

// deliveries makes one Delivery of each line and what was added to it.
func deliveries(lines []Delivery) []Delivery {
	list := make([]Delivery, 0, len(lines))
	index := make(map[int]int)
	for _, d := range lines {
		if d.Cut {
			list[index[d.No]].Accepted, list[index[d.No]].Kept = false, true
			continue
		}
		share(&d.Relay, &d.Key)
		index[d.No] = len(list)
		list = append(list, d)
	}
	return list
}
