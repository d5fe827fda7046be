// Package failpoint lets a harness end or stop the process at named places of the
// engine, in the middle of what it does.
//
// Without the build tag "failpoint" it compiles to nothing: Hit is empty and is
// inlined away. With the tag it does what the environment asks for, once. It is no
// way to make a call fail: a process that is hit is gone or stopped.
package failpoint

// Variable names the environment variable that arms a failpoint:
// "NAME=ACTION@N[+DELAY]" does ACTION (kill or stop) when NAME is hit for the Nth
// time, or DELAY later, so that it happens in the middle of what follows.
const Variable = "OUTBOX_FAILPOINT"

// FileVariable names the environment variable with the path of a file. On SIGUSR1 the
// process reads it and arms what it says; empty, it arms nothing. A process that has
// this variable ends when its standard input does.
const FileVariable = "OUTBOX_FAILPOINT_FILE"

// Clock begins a text that is no failpoint: "clock=DURATION" sets the process's wall
// clock off by so much from the machine's, as if somebody had set it. The monotonic
// clock goes on as it was. It needs the build tag steppedclock too.
const Clock = "clock="

// The places.
const (
	// Stepped: a step is durable, and the engine does not know it yet.
	Stepped = "stepped"
	// Dispatched: a dispatch has ended, and its outcome is not settled.
	Dispatched = "dispatched"
	// Settling: a step is about to be sent. With a delay it is under way.
	Settling = "settling"
	// Recovered: batches were adopted, and nothing has been decided about them.
	Recovered = "recovered"
	// Purged: the cleaner has deleted a batch and goes on.
	Purged = "purged"
)

// Migrating is the place where a statement of a migration has been executed. It is no
// place of a relay.
const Migrating = "migrating"

// Names lists the places of a relay.
var Names = []string{Stepped, Dispatched, Settling, Recovered, Purged}
