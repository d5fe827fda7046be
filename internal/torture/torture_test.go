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

func TestMain(m *testing.M) {
	Child()
	goleak.VerifyTestMain(m)
}

// How long relays are tormented, and by which plan.
const (
	secondsVariable = "OUTBOX_TORTURE_SECONDS"
	seedVariable    = "OUTBOX_TORTURE_SEED"
)

// patience is far more than any start or drain takes: a machine under load is no
// failure.
const patience = 90 * time.Second

func TestRelaysOnOneSQLiteFileSurviveBeingKilled(t *testing.T) {
	long(t)
	t.Parallel()
	r := NewRun(t, sqliteFile(t), seed(t))
	config := Relay{
		Lease: time.Second, Batch: 64, MaxAttempts: 25,
		Sink: answers(300 * time.Millisecond),
	}
	r.Relay(config)
	r.Relay(config)
	r.Produce(2, Producer{Keys: 20, Think: 20 * time.Millisecond, Hold: 20 * time.Millisecond})
	r.AwaitWork(patience)

	r.Torment(Nemesis{Faults: []Fault{r.KillRelay}, Calm: [2]time.Duration{time.Second, 3 * time.Second}}, seconds(t, 8))

	h := r.Finish(patience)
	Report(t, h)
	notVacuous(t, h)
}

func TestRelaysOnPostgresSurviveKillsPausesAndServerCrashes(t *testing.T) {
	long(t)
	t.Parallel()
	server := testenv.PrivatePostgres(t)
	r := NewRun(t, Place{Driver: Postgres, DSN: server.DSN()}, seed(t))
	config := Relay{
		Lease: 1500 * time.Millisecond, Batch: 32, MaxAttempts: 25, Shards: 1 + int(r.Seed%2),
		Sink: answers(time.Second),
	}
	r.Relay(config)
	r.Relay(config)
	r.Produce(8, Producer{Keys: 40, Think: 50 * time.Millisecond, Hold: 300 * time.Millisecond})
	r.AwaitWork(patience)

	r.Torment(Nemesis{
		Faults: []Fault{r.KillRelay, r.PauseRelay, r.PauseBackends, r.TerminateBackends, r.CrashServer(server, 4*time.Second)},
		Calm:   [2]time.Duration{500 * time.Millisecond, 1500 * time.Millisecond},
	}, seconds(t, 12))

	h := r.Finish(patience)
	Report(t, h)
	notVacuous(t, h)
}

// A message that ends its process costs at most three processes, and nobody else.
func TestAMessageThatEndsItsProcessDiesAlone(t *testing.T) {
	long(t)
	places := map[string]func(*testing.T) Place{
		"sqlite":   sqliteFile,
		"postgres": func(t *testing.T) Place { return Place{Driver: Postgres, DSN: testenv.Postgres(t).DSN()} },
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
	r := NewRun(t, place, seed(t))
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

// answers are those of a sink with its bad moments.
func answers(heavy time.Duration) Sink {
	return Sink{Errors: 0.05, Slow: 0.1, Delay: 50 * time.Millisecond, Heavy: heavy, Later: 3 * time.Second}
}

// notVacuous fails a run that had nothing to show.
func notVacuous(t *testing.T, h *History) {
	t.Helper()
	if s := Summarize(h); s.OK == 0 || s.Fail == 0 || s.Refused == 0 || s.Takeovers == 0 {
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

// seed is what the environment says, or new for each test. It is always printed.
func seed(t *testing.T) uint64 {
	t.Helper()
	s := rand.Uint64()
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		if s, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", seedVariable, err)
		}
	}
	t.Logf("%s=%d repeats this plan", seedVariable, s)
	return s
}
