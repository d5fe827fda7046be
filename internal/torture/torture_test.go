package torture

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
)

// A link whose other end goes away in the middle of a chunk leaves toxiproxy's own
// goroutines behind: they wait for somebody to take the chunk.
func TestMain(m *testing.M) {
	Child()
	const toxiproxy = "github.com/Shopify/toxiproxy/v2"
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction(toxiproxy+"/toxics.(*ToxicStub).Run"),
		goleak.IgnoreAnyFunction(toxiproxy+".(*ToxicLink).read"))
}

// How long relays are tormented, and by which plan.
const (
	secondsVariable = "OUTBOX_TORTURE_SECONDS"
	seedVariable    = "OUTBOX_TORTURE_SEED"
)

// fixedSeed is a plan that every run of the tests repeats.
const fixedSeed = 20261115

func TestRelaysOnOneSQLiteFileSurviveBeingKilled(t *testing.T) {
	survive(t, SQLite, 6)
}

func TestRelaysOnPostgresSurviveKillsPausesAndServerCrashes(t *testing.T) {
	survive(t, Postgres, 12)
}

func TestRelaysOnMariaDBSurviveKillsPausesAndServerCrashes(t *testing.T) {
	survive(t, MySQL, 8)
}

// survive tortures with a plan that is always the same and with a new one, or with the
// one that the environment asks for.
func survive(t *testing.T, driver Driver, n int) {
	t.Helper()
	long(t)
	t.Parallel()
	plans := map[string]uint64{"the same plan": fixedSeed, "a new plan": rand.Uint64()}
	if text := os.Getenv(seedVariable); text != "" {
		s, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", seedVariable, err)
		}
		plans = map[string]uint64{"the plan of the environment": s}
	}
	for name, seed := range plans {
		t.Run(name, func(t *testing.T) {
			t.Logf("%s=%d repeats this plan", seedVariable, seed)
			h := Torture(t, Options{Driver: driver, Seed: seed, Torment: seconds(t, n), Think: 50 * time.Millisecond, Backlog: 4000})
			Report(t, h)
			notVacuous(t, h)
		})
	}
}

// A message that ends its process costs at most three processes, and nobody else.
func TestAMessageThatEndsItsProcessDiesAlone(t *testing.T) {
	long(t)
	places := map[string]func(*testing.T) Place{
		"sqlite":   sqliteFile,
		"postgres": func(t *testing.T) Place { return Place{Driver: Postgres, DSN: testenv.Postgres(t).DSN()} },
		"mysql":    func(t *testing.T) Place { return Place{Driver: MySQL, DSN: testenv.MySQL(t).DSN()} },
	}
	for name, place := range places {
		for _, maxAttempts := range []int{1, 25} {
			t.Run(fmt.Sprintf("%s/max_attempts=%d", name, maxAttempts), func(t *testing.T) {
				t.Parallel()
				poisoned(t, place(t), maxAttempts)
			})
		}
	}
}

func poisoned(t *testing.T, place Place, maxAttempts int) {
	const messages, poisonAt, maxDeaths = 500, 250, 3
	r := NewRun(t, place, fixedSeed)
	bodies := make([]body, messages)
	for i := range bodies {
		bodies[i] = body{Transaction: fmt.Sprint("tx-", i), Event: uuid.New(), Key: fmt.Sprint("key-", i%100), N: i}
	}
	poison := &bodies[poisonAt]
	poison.Poison, poison.Key = true, "poison"
	r.Enqueue(bodies)

	p := r.Relay(Relay{Lease: 500 * time.Millisecond, Batch: 100, MaxAttempts: maxAttempts})
	deaths := superviseUntilDrained(t, r, p, maxDeaths+1)

	h := r.Finish(patience)
	Report(t, h)
	if deaths == 0 || deaths > maxDeaths {
		t.Errorf("the message ended %d processes, want 1 to %d", deaths, maxDeaths)
	}
	for _, row := range h.Final.Rows {
		switch {
		case row.Event == poison.Event && (!row.Dead || row.Reason != outbox.DeadCrash):
			t.Errorf("the poison message: %+v", row)
		case row.Event != poison.Event && !row.Published:
			t.Errorf("an innocent message: %+v", row)
		}
	}
}

// superviseUntilDrained restarts the relay whenever a poison message ends it, as a
// service manager does, and counts.
func superviseUntilDrained(t *testing.T, r *Run, p *Position, maxDeaths int) (deaths int) {
	t.Helper()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	enough := time.NewTimer(patience)
	defer enough.Stop()
	for {
		select {
		case <-p.process.Done():
			if p.process.Status() != poisonExit {
				t.Fatal(p.process.explain())
			}
			if deaths++; deaths > maxDeaths {
				t.Fatalf("%d processes died", deaths)
			}
			at := now()
			r.history.Faults = append(r.history.Faults, Fault{Kind: "poison", Targets: []string{p.Name()}, From: at, To: at, Hit: true})
			p.Start()
		case <-look.C:
			n, err := r.Pending()
			if err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				return deaths
			}
		case <-enough.C:
			return deaths
		}
	}
}

// notVacuous fails a run that had nothing to show.
func notVacuous(t *testing.T, h *History) {
	t.Helper()
	if s := Summarize(h); s.OK == 0 || s.Fail == 0 || s.Refused == 0 || s.Takeovers == 0 || s.Faults == 0 {
		t.Errorf("the run shows nothing: %+v", s)
	}
}

func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs for many seconds; run without -short")
	}
}

func sqliteFile(t *testing.T) Place {
	t.Helper()
	return Place{Driver: SQLite, DSN: filepath.Join(t.TempDir(), "torture.db")}
}

// seconds is how long to torment: as long as the environment says, or n seconds.
func seconds(t *testing.T, n int) time.Duration {
	t.Helper()
	if text := os.Getenv(secondsVariable); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s: %v", secondsVariable, err)
		}
	}
	return time.Duration(n) * time.Second
}
