package torture

import (
	"cmp"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-outbox/outbox/internal/testenv"
)

// Options choose a run.
type Options struct {
	Driver Driver
	Seed   uint64
	// Torment is how long the nemesis works.
	Torment time.Duration
	// Calm leaves the nemesis, the operator and ambiguous answers out: then nothing
	// may be delivered twice.
	Calm bool
	// Think is the producers' longest wait between two transactions. Zero is what
	// suits the database.
	Think time.Duration
	// Backlog is how much may wait before producers pause. Zero is 20,000.
	Backlog int
	// Relays is what relays: this program's engine, the shipped program, or, if it is
	// empty, one or the other as the seed decides.
	Relays Relays
	// Only leaves the nemesis the faults whose kind contains this.
	Only string
}

// Relays is a kind of relay process.
type Relays string

// The kinds. The shipped program needs PostgreSQL: only there the witness knows who
// writes without its help.
const (
	Engine  Relays = "engine"
	Shipped Relays = "shipped"
)

// shipped decides by the seed what the options leave open.
func (o *Options) shipped() bool {
	return o.Driver == Postgres && (o.Relays == Shipped || o.Relays == "" && o.Seed%2 == 1)
}

// patience is far more than any start or drain takes: a machine under load is no
// failure.
const patience = 60 * time.Second

// Torture runs producers and relays on a database of their own, lets the nemesis work,
// and returns what everybody saw when all has come to rest. The seed decides about the
// number of relays and shards, how they are configured, what producers do and what
// breaks when.
func Torture(t testing.TB, o Options) *History {
	t.Helper()
	place := Place{Driver: o.Driver}
	attacks := func(*Run) []attack { return nil }
	switch o.Driver {
	case Postgres:
		server := testenv.PrivatePostgres(t)
		place.DSN = server.DSN()
		attacks = func(r *Run) []attack { return r.postgresAttacks(server) }
	case MySQL:
		server := testenv.PrivateMySQL(t, mysqlSettings...)
		place.DSN = server.DSN()
		attacks = func(r *Run) []attack { return r.mysqlAttacks(server) }
	case SQLite:
		place.DSN = filepath.Join(t.TempDir(), "torture.db")
	}
	r := NewRun(t, place, o.Seed)
	r.history.Calm = o.Calm
	r.cast(o)
	r.AwaitWork(patience)
	stop := r.Watch(cmp.Or(o.Backlog, 20_000))
	if o.Calm {
		wait(t.Context(), o.Torment)
	} else {
		done := r.Operate(400 * time.Millisecond)
		r.Torment(r.Nemesis(attacks(r)...).Only(o.Only), o.Torment)
		done()
	}
	stop()
	return r.Finish(patience)
}

// cast starts the processes of a run, as the seed decides.
func (r *Run) cast(o Options) {
	d := dice(o.Seed, "cast")
	relay := Relay{
		Lease: between(d, 400*time.Millisecond, 900*time.Millisecond), Batch: []int{24, 96, 256}[d.IntN(3)], MaxAttempts: 25,
		Retention: between(d, time.Second, 4*time.Second), Batched: d.IntN(3) == 0,
		Sink: Sink{
			Errors: 0.02, Slow: 0.03, Delay: 20 * time.Millisecond, Heavy: 300 * time.Millisecond, Later: time.Second, Ambiguous: 0.005,
			Unwanted: 300,
		},
	}
	relays, producers := 2+d.IntN(2), 12
	producer := Producer{Keys: 2000, Think: 8 * time.Millisecond, Hold: 200 * time.Millisecond, Bulk: 400}
	if r.Place.Driver.remote() {
		relay.Shards = 1 + d.IntN(4)
	} else {
		producers, producer.Hold = 3, 10*time.Millisecond
	}
	if r.Place.Driver == MySQL {
		relay.Lease *= 2 // every step waits for the disk, and others wait for it too
	}
	if o.Calm {
		relay.Sink.Ambiguous, relay.Batched = 0, false // a garbled answer is ambiguous
		relay.Lease = 15 * time.Second                 // a busy machine must not cost anybody its lease
		relay.Batch = 500
	}
	if o.Think > 0 {
		producer.Think = o.Think
	}
	if o.shipped() {
		r.ship(&relay)
	}
	for range relays {
		r.Relay(relay)
	}
	r.Produce(producers, producer)
}

// ship makes a relay one of the shipped program.
func (r *Run) ship(relay *Relay) {
	program := buildProgram(r.t)
	r.hook = r.newHook(relay.Sink)
	program.Hook, program.Secret = "http://"+r.hook.address, r.hook.secret
	relay.Program, relay.Batched = &program, false // a webhook takes one at a time
}
