package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
)

func newTestStore(t *testing.T, params ...string) *Store {
	t.Helper()
	return storeOn(t, testenv.MySQL(t).Open(t, params...))
}

func storeOn(t *testing.T, db *sql.DB) *Store {
	t.Helper()
	s, err := New(db, Config{Table: "ob"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *Store) mustAcquire(t *testing.T, instance string, ttl time.Duration) *lease {
	t.Helper()
	l, err := s.Acquire(t.Context(), outbox.LeaseRequest{Instance: instance, TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return l.(*lease)
}

func (s *Store) mustEnqueue(t *testing.T, n int) []int64 {
	t.Helper()
	ids := make([]int64, n)
	for i := range ids {
		var err error
		ids[i], err = s.EnqueueAutocommit(t.Context(), outbox.Message{Topic: "a.b.c.v1", Key: "k", Payload: []byte(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
	}
	return ids
}

func TestWritesLeaveTheSessionAsItWas(t *testing.T) {
	s := newTestStore(t, "innodb_lock_wait_timeout=33", "idle_transaction_timeout=44")
	s.db.SetMaxOpenConns(1)
	s.mustEnqueue(t, 1)
	s.mustAcquire(t, "one", time.Minute)

	var wait, idle int
	var isolation string
	err := s.db.QueryRowContext(t.Context(), "SELECT @@innodb_lock_wait_timeout, @@idle_transaction_timeout, @@tx_isolation").
		Scan(&wait, &idle, &isolation)
	if err != nil || wait != 33 || idle != 44 || isolation != "REPEATABLE-READ" {
		t.Errorf("%d %d %s %v", wait, idle, isolation, err)
	}
}

func TestADeadlockIsRepeatedAsAWhole(t *testing.T) {
	s := newTestStore(t)
	runs := 0
	err := s.write(t.Context(), time.Second, func(ctx context.Context, tx *sql.Tx) error {
		runs++
		if _, err := tx.ExecContext(ctx, "INSERT INTO ob (topic, payload) VALUES ('a.b', '{}')"); err != nil {
			return err
		}
		if runs < 3 {
			return &mysql.MySQLError{Number: deadlock}
		}
		return nil
	})

	if err != nil || runs != 3 {
		t.Errorf("%d runs: %v", runs, err)
	}
	if n := s.count(t); n != 1 {
		t.Errorf("%d rows are left", n)
	}
}

func (s *Store) count(t *testing.T) (n int) {
	t.Helper()
	if err := s.db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM ob").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAnErrorRollsBack(t *testing.T) {
	s := newTestStore(t)
	s.db.SetMaxOpenConns(1)
	failed := errors.New("failed")
	err := s.write(t.Context(), time.Second, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO ob (topic, payload) VALUES ('a.b', '{}')"); err != nil {
			return err
		}
		return failed
	})
	if n := s.count(t); n != 0 || !errors.Is(err, failed) {
		t.Errorf("%d rows are left: %v", n, err)
	}
}

// A lock timeout undoes one statement; all of the transaction must go.
func TestALockTimeoutLeavesNothingHalfDone(t *testing.T) {
	s := newTestStore(t)
	ids := s.mustEnqueue(t, 4)
	l := s.mustAcquire(t, "one", 3*time.Second)
	blocker, err := s.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := blocker.ExecContext(t.Context(), "UPDATE ob SET locked_at = created_at WHERE sequence = ?", ids[3]); err != nil {
		t.Fatal(err)
	}
	step := outbox.Step{Record: []outbox.Batch{{No: 1, IDs: ids}}}
	for _, id := range ids {
		step.Outcomes = append(step.Outcomes, outbox.Outcome{Sequence: id, Spent: 1})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
	defer cancel()

	if err := l.Step(ctx, step); err == nil {
		t.Error("the step did not fail")
	}
	if err := blocker.Rollback(); err != nil {
		t.Fatal(err)
	}

	stats, err := s.Stats(t.Context())
	if err != nil || stats.Pending != 4 || stats.InFlight != 0 {
		t.Errorf("%+v %v", stats, err)
	}
	if err := l.Step(t.Context(), step); err != nil {
		t.Errorf("sent again: %v", err)
	}
}

func TestReadsSeeOnlyWhatIsCommittedWhateverTheSessionSays(t *testing.T) {
	s := newTestStore(t, "tx_isolation=%27READ-UNCOMMITTED%27")
	l := s.mustAcquire(t, "one", time.Minute)
	tx, err := s.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	id, err := s.Enqueue(t.Context(), tx, outbox.Message{Topic: "a.b.c.v1", Payload: []byte(`{}`)})
	if err != nil {
		t.Fatal(err)
	}

	page, err := l.Read(t.Context(), outbox.ReadRequest{Limit: 10, All: true, IDs: []int64{id}})

	if err != nil || len(page.Fresh)+len(page.Others)+len(page.Seen) != 0 {
		t.Errorf("%d fresh, %d others, %d seen: %v", len(page.Fresh), len(page.Others), len(page.Seen), err)
	}
}

// Nothing the relay or the cleaner does may wait for a producer that is slow to commit.
func TestTheRelayDoesNotWaitForProducers(t *testing.T) {
	s := newTestStore(t)
	ids := s.mustEnqueue(t, 12)
	tx, err := s.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	for range 3 { // on both sides of what follows
		if _, err := s.Enqueue(t.Context(), tx, outbox.Message{Topic: "a.b.c.v1", Payload: []byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, s.mustEnqueue(t, 2)...)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()

	l := s.mustAcquire(t, "one", time.Minute)
	for i, step := range []outbox.Step{
		{Outcomes: outcomes(outbox.Published, ids[0], ids[2], ids[12], ids[14])},
		{Outcomes: outcomes(outbox.Published, ids[1], ids[3], ids[13]), Delete: true},
		{Outcomes: outcomes(outbox.Retry, ids[4], ids[15])},
		{Outcomes: outcomes(outbox.Dead, ids[5], ids[16])},
		{Record: []outbox.Batch{{No: 1, IDs: ids[6:]}}},
		{Done: []int64{1}},
	} {
		if err := l.Step(ctx, step); err != nil {
			t.Errorf("step %d: %v", i, err)
		}
	}
	if _, err := l.Heads(ctx, 0, 10); err != nil {
		t.Error(err)
	}
	result, err := s.Purge(ctx, outbox.PurgeRequest{Dead: time.Microsecond, Limit: 100})
	if err != nil || result.Published != 4 || result.Dead != 2 {
		t.Errorf("purge: %+v %v", result, err)
	}
}

func outcomes(kind outbox.OutcomeKind, ids ...int64) []outbox.Outcome {
	list := make([]outbox.Outcome, len(ids))
	for i, id := range ids {
		list[i] = outbox.Outcome{Sequence: id, Kind: kind, Spent: 1, Error: "refused", Reason: outbox.DeadPermanent}
	}
	return list
}

// And producers do not wait for a relay that is in the middle of a step.
func TestProducersDoNotWaitForTheRelay(t *testing.T) {
	s := newTestStore(t)
	ids := s.mustEnqueue(t, 10)
	l := s.mustAcquire(t, "one", time.Minute)
	err := l.fenced(t.Context(), func(ctx context.Context, tx *sql.Tx, h held) error {
		w := &stepWriter{lease: l, sql: &s.sql, tx: tx, held: h}
		if err := w.write(ctx, &outbox.Step{
			Outcomes: append(outcomes(outbox.Retry, ids[3], ids[9]), outcomes(outbox.Published, ids[0], ids[2], ids[8])...),
			Record:   []outbox.Batch{{No: 1, IDs: ids}},
		}); err != nil {
			return err
		}
		enqueue, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		for range 5 {
			tx, err := s.db.BeginTx(enqueue, nil) // at the default isolation
			if err != nil {
				return err
			}
			if _, err := s.Enqueue(enqueue, tx, outbox.Message{Topic: "a.b.c.v1", Payload: []byte(`{}`), AvailableAt: h.now.Add(time.Hour)}); err != nil {
				return errors.Join(err, tx.Rollback())
			}
			if err := tx.Commit(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A relay that is frozen inside of a transaction keeps its lease for no longer than it
// lasts. MySQL has no such setting.
func TestAFrozenRelayDoesNotKeepItsLease(t *testing.T) {
	s := newTestStore(t)
	l := s.mustAcquire(t, "one", 3*time.Second)
	frozen, taken := make(chan struct{}), make(chan struct{})
	ended := make(chan error)
	go func() {
		ended <- l.fenced(t.Context(), func(context.Context, *sql.Tx, held) error {
			close(frozen)
			<-taken
			return nil
		})
	}()
	<-frozen
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()

	var err error
	for {
		if _, err = s.Acquire(ctx, outbox.LeaseRequest{Instance: "two", TTL: time.Minute}); !errors.Is(err, outbox.ErrLeaseHeld) {
			break
		}
	}
	close(taken)

	if err != nil {
		t.Errorf("not taken over: %v", err)
	}
	if err := <-ended; err == nil {
		t.Error("the frozen one has committed")
	}
}

func TestARestartOfTheServerEndsTheLeaseAndExcusesIt(t *testing.T) {
	server := testenv.PrivateMySQL(t)
	s := storeOn(t, server.Open(t))
	ids := s.mustEnqueue(t, 3)
	l := s.mustAcquire(t, "one", time.Minute)
	l.uptime.value += 10 * time.Second // as if it had been running for a while
	l.started = l.started.Add(-10 * time.Second)
	if err := l.Step(t.Context(), outbox.Step{Record: []outbox.Batch{{No: 1, IDs: ids}}}); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	server.Start()

	_, err := l.Renew(t.Context(), outbox.Renewal{})
	if !errors.Is(err, outbox.ErrLeaseLost) {
		t.Fatalf("got %v, want ErrLeaseLost", err)
	}
	orphans, err := s.mustAcquire(t, "two", time.Minute).Recover(t.Context())

	if err != nil || len(orphans) != 1 || orphans[0].Lost || len(orphans[0].IDs) != 3 {
		t.Errorf("%+v %v", orphans, err)
	}
}

func TestAnotherServerEndsTheLease(t *testing.T) {
	s := newTestStore(t)
	l := s.mustAcquire(t, "one", time.Minute)
	l.server++

	if _, err := l.Read(t.Context(), outbox.ReadRequest{Limit: 1}); !errors.Is(err, outbox.ErrLeaseLost) {
		t.Errorf("read: %v", err)
	}
	if err := l.Step(t.Context(), outbox.Step{Done: []int64{1}}); !errors.Is(err, outbox.ErrLeaseLost) {
		t.Errorf("step: %v", err)
	}
}
