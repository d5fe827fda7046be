package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/store/pgstore"
)

// Each test here is a hole in an earlier protocol that was shown on a real server.

func acquireAs(t testing.TB, store *pgstore.Store, instance string) outbox.Lease {
	t.Helper()
	lease, err := store.Acquire(t.Context(), outbox.LeaseRequest{Instance: instance, TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func enqueue(t testing.TB, store *pgstore.Store, keys ...string) []int64 {
	t.Helper()
	var ids []int64
	for _, key := range keys {
		id, err := store.EnqueueAutocommit(t.Context(), message(key))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

// blocked waits until n sessions of the database wait for a lock.
func blocked(t testing.TB, pool *pgxpool.Pool, n int) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for count(t, pool, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`) < n {
		if time.Now().After(deadline) {
			t.Fatalf("no %d sessions are waiting for a lock", n)
		}
	}
}

// A fence that only reads the lease sees the snapshot from before it waited.
func TestAStaleOwnerThatWaitedForTheLeaseWritesNothing(t *testing.T) {
	pool := testenv.Postgres(t).Pool(t)
	store := newStore(t, pool, pgstore.Config{})
	ids := enqueue(t, store, "a", "b")
	stale := acquire(t, store)
	takeover, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer takeover.Rollback(context.Background())
	_, err = takeover.Exec(t.Context(), fmt.Sprintf(`UPDATE %s_lease SET owner = gen_random_uuid(), epoch = epoch + 1`, store.Table()))
	if err != nil {
		t.Fatal(err)
	}

	var wg sync.WaitGroup
	var stepErr error
	wg.Go(func() {
		stepErr = stale.Step(t.Context(), outbox.Step{
			Outcomes: []outbox.Outcome{{Sequence: ids[0], Spent: 1}, {Sequence: ids[1], Kind: outbox.Dead, Reason: "x", Spent: 1}},
			Record:   []outbox.Batch{{No: 1, IDs: ids}},
		})
	})
	blocked(t, pool, 1)
	if err := takeover.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	wg.Wait()

	if !errors.Is(stepErr, outbox.ErrLeaseLost) {
		t.Errorf("step: got %v, want ErrLeaseLost", stepErr)
	}
	if n := count(t, pool, fmt.Sprintf(`SELECT (SELECT count(*) FROM %[1]s WHERE num_nonnulls(published_at, dead_at) > 0)
		+ (SELECT count(*) FROM %[1]s_batch) + (SELECT count(*) FROM %[1]s_attempt)`, store.Table())); n != 0 {
		t.Errorf("the stale owner wrote %d rows", n)
	}
}

// An acquisition that also reads may see a snapshot from before the last settle.
func TestATakeoverSeesWhatThePreviousOwnerSettledLast(t *testing.T) {
	pool := testenv.Postgres(t).Pool(t)
	store := newStore(t, pool, pgstore.Config{})
	ids := enqueue(t, store, "a", "b", "c")
	first := acquireAs(t, store, "first")
	if err := first.Step(t.Context(), outbox.Step{Record: []outbox.Batch{{No: 1, IDs: ids}}}); err != nil {
		t.Fatal(err)
	}
	// The row lock of a settle that is not committed yet.
	settle, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer settle.Rollback(context.Background())
	for _, query := range []string{
		`SELECT 1 FROM %s_lease FOR NO KEY UPDATE`,
		`UPDATE %s SET published_at = now() WHERE sequence <= 2`,
	} {
		if _, err := settle.Exec(t.Context(), fmt.Sprintf(query, store.Table())); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.Acquire(t.Context(), outbox.LeaseRequest{Instance: "second", TTL: time.Minute}); !errors.Is(err, outbox.ErrLeaseHeld) {
		t.Fatalf("while a settle runs: got %v, want ErrLeaseHeld", err)
	}
	if err := settle.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	shift(t, pool, store.Table(), time.Hour)

	second := acquireAs(t, store, "second")
	orphans, err := second.Recover(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	if len(orphans) != 1 || len(orphans[0].IDs) != 1 || orphans[0].IDs[0] != ids[2] {
		t.Errorf("got %+v, want only message %d", orphans, ids[2])
	}
}

func TestNothingIsSetOnASessionThatAPoolerShares(t *testing.T) {
	env := testenv.Postgres(t)
	cfg, err := pgxpool.ParseConfig(pooled(t, env))
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = 1 // one client, so that PgBouncer keeps one server connection
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	store := newStore(t, pool, pgstore.Config{})
	ids := enqueue(t, store, "a", "b")
	lease := acquire(t, store)
	steps := []outbox.Step{
		{Record: []outbox.Batch{{No: 1, IDs: ids}}},
		{Outcomes: []outbox.Outcome{{Sequence: ids[0], Spent: 1}, {Sequence: ids[1], Kind: outbox.Retry, Spent: 1, Error: "x"}}, Done: []int64{1}},
	}
	if _, err := lease.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, step := range steps {
		if err := lease.Step(t.Context(), step); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := lease.Renew(t.Context(), outbox.Renewal{}); err != nil {
		t.Fatal(err)
	}

	for setting, want := range map[string]string{
		"synchronous_commit": "on", "lock_timeout": "0", "idle_in_transaction_session_timeout": "0",
	} {
		var got string
		if err := pool.QueryRow(t.Context(), `SELECT current_setting($1)`, pgx.QueryExecModeExec, setting).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s is %s after the relay's statements, want %s", setting, got, want)
		}
	}
	var prepared int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_prepared_statements WHERE name <> ''`, pgx.QueryExecModeExec).Scan(&prepared); err != nil {
		t.Fatal(err)
	}
	if prepared != 0 {
		t.Errorf("%d statements stay prepared", prepared)
	}
}

func TestAReplayDuringASettleIsNotLost(t *testing.T) {
	pool := testenv.Postgres(t).Pool(t)
	store := newStore(t, pool, pgstore.Config{})
	id := enqueue(t, store, "a")[0]
	lease := acquire(t, store)
	// Hold the row, so that the settle takes its snapshot and waits; the replay
	// happens in that transaction.
	operator, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer operator.Rollback(context.Background())
	if _, err := operator.Exec(t.Context(), fmt.Sprintf(`UPDATE %s SET replays = replays + 1 WHERE sequence = $1`, store.Table()), id); err != nil {
		t.Fatal(err)
	}

	var wg sync.WaitGroup
	var stepErr error
	wg.Go(func() {
		stepErr = lease.Step(t.Context(), outbox.Step{Outcomes: []outbox.Outcome{{Sequence: id, Spent: 1}}})
	})
	blocked(t, pool, 1)
	if err := operator.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	wg.Wait()

	if stepErr != nil {
		t.Fatal(stepErr)
	}
	if got := read(t, lease); len(got) != 1 || got[0].Replays != 1 {
		t.Errorf("the replayed message is gone: %v", got)
	}
}

func TestTheCleanerKeepsAMessageThatIsReplayedMeanwhile(t *testing.T) {
	pool := testenv.Postgres(t).Pool(t)
	store := newStore(t, pool, pgstore.Config{})
	id := enqueue(t, store, "a")[0]
	lease := acquire(t, store)
	if err := lease.Step(t.Context(), outbox.Step{Outcomes: []outbox.Outcome{{Sequence: id, Spent: 1}}}); err != nil {
		t.Fatal(err)
	}
	shift(t, pool, store.Table(), time.Hour)
	operator, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer operator.Rollback(context.Background())
	if _, err := operator.Exec(t.Context(), fmt.Sprintf(`UPDATE %s SET replays = replays + 1, published_at = NULL`, store.Table())); err != nil {
		t.Fatal(err)
	}

	var wg sync.WaitGroup
	var result outbox.PurgeResult
	var purgeErr error
	wg.Go(func() {
		result, purgeErr = store.Purge(t.Context(), outbox.PurgeRequest{Published: time.Minute, Limit: 10})
	})
	blocked(t, pool, 1)
	if err := operator.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	wg.Wait()

	if purgeErr != nil || result.Published != 0 {
		t.Errorf("purge: %+v, %v, want nothing deleted", result, purgeErr)
	}
	if n := count(t, pool, `SELECT count(*) FROM `+store.Table()); n != 1 {
		t.Error("the replayed message was deleted")
	}
}

// A server that restarted may have lost asynchronous commits and given their
// sequences to other messages: what a lease remembers must not be written.
func TestALeaseDoesNotOutliveARestartOfTheServer(t *testing.T) {
	server := testenv.PrivatePostgres(t)
	pool, err := pgxpool.New(t.Context(), server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	store := newStore(t, pool, pgstore.Config{})
	ids := enqueue(t, store, "a", "b")
	lease := acquireAs(t, store, "first")
	if err := lease.Step(t.Context(), outbox.Step{Record: []outbox.Batch{{No: 1, IDs: ids}}}); err != nil {
		t.Fatal(err)
	}
	// A synchronous commit makes the step before it durable too.
	exec(t, pool, `CREATE TABLE flush ()`)

	server.Stop(testenv.Immediate)
	server.Start()
	pool.Reset()
	err = lease.Step(t.Context(), outbox.Step{Outcomes: []outbox.Outcome{{Sequence: ids[0], Spent: 1}}})
	if !errors.Is(err, outbox.ErrLeaseLost) || !strings.Contains(err.Error(), "restarted") {
		t.Errorf("step: got %v, want ErrLeaseLost", err)
	}
	second := acquireAs(t, store, "second") // at once: the lease was given back
	orphans, err := second.Recover(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	if len(orphans) != 1 || orphans[0].Lost || orphans[0].Crashes != 0 {
		t.Errorf("got %+v, want one excused batch", orphans)
	}
	if n := count(t, pool, `SELECT count(*) FROM `+store.Table()+` WHERE published_at IS NOT NULL`); n != 0 {
		t.Errorf("%d messages were settled", n)
	}
}

func TestARestoredDatabaseWaitsForAPerson(t *testing.T) {
	pool := testenv.Postgres(t).Pool(t)
	store := newStore(t, pool, pgstore.Config{})
	if err := acquire(t, store).Release(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	exec(t, pool, `UPDATE `+store.Table()+`_lease SET system_id = system_id + 1`)

	_, err := store.Acquire(t.Context(), outbox.LeaseRequest{Instance: "x", TTL: time.Minute})
	if !errors.Is(err, outbox.ErrRestored) {
		t.Fatalf("got %v, want ErrRestored", err)
	}
	if err := store.ConfirmRestore(t.Context(), "me", "restored the backup of Monday"); err != nil {
		t.Fatal(err)
	}

	acquire(t, store)
	if n := count(t, pool, `SELECT count(*) FROM outbox_audit WHERE verb = 'confirm-restore' AND actor = 'me'`); n != 1 {
		t.Errorf("%d audit entries, want 1", n)
	}
}

// A standby is refused; once it is promoted it is another timeline of the same
// system, which is a failover and no restore.
func TestAStandbyIsRefusedUntilItIsPromoted(t *testing.T) {
	server := testenv.PrivatePostgres(t)
	pool, err := pgxpool.New(t.Context(), server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	store := newStore(t, pool, pgstore.Config{})
	if err := acquireAs(t, store, "first").Release(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	var data string
	if err := pool.QueryRow(t.Context(), `SHOW data_directory`, pgx.QueryExecModeExec).Scan(&data); err != nil {
		t.Fatal(err)
	}

	server.Stop(testenv.Fast)
	if err := os.WriteFile(filepath.Join(data, "standby.signal"), nil, 0o644); err != nil {
		t.Skip(err) // the server runs somewhere else
	}
	server.Start()
	pool.Reset()
	_, err = store.Acquire(t.Context(), outbox.LeaseRequest{Instance: "second", TTL: time.Minute})
	if err == nil || !strings.Contains(err.Error(), "connect to the primary") {
		t.Errorf("on a standby: got %v", err)
	}
	exec(t, pool, `SELECT pg_promote()`)

	acquireAs(t, store, "second")
	if n := count(t, pool, `SELECT timeline::int FROM `+store.Table()+`_lease`); n != 2 {
		t.Errorf("timeline %d, want 2", n)
	}
	exec(t, pool, `UPDATE `+store.Table()+`_lease SET timeline = 3, owner = NULL`)
	if _, err := store.Acquire(t.Context(), outbox.LeaseRequest{Instance: "third", TTL: time.Minute}); !errors.Is(err, outbox.ErrRestored) {
		t.Errorf("on an earlier timeline: got %v, want ErrRestored", err)
	}
}

// R-A43.
func TestTwoRelaysNeverReadTheSameMessage(t *testing.T) {
	pool := testenv.Postgres(t).Pool(t)
	store := newStore(t, pool, pgstore.Config{})
	if err := store.Resize(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	keys := make([]string, 200)
	for i := range keys {
		keys[i] = fmt.Sprint(i)
	}
	enqueue(t, store, keys...)
	first, second := acquireAs(t, store, "first"), acquireAs(t, store, "second")

	seen := map[int64]bool{}
	for _, r := range append(read(t, first), read(t, second)...) {
		if seen[r.Sequence] {
			t.Errorf("message %d was read twice", r.Sequence)
		}
		seen[r.Sequence] = true
	}
	if len(seen) != len(keys) {
		t.Errorf("read %d messages, want %d", len(seen), len(keys))
	}
}

// R-A44.
func TestAnExpiredLeaseLetsAnotherRelayReclaim(t *testing.T) {
	pool := testenv.Postgres(t).Pool(t)
	store := newStore(t, pool, pgstore.Config{})
	ids := enqueue(t, store, "a")
	first := acquireAs(t, store, "first")
	if err := first.Step(t.Context(), outbox.Step{Record: []outbox.Batch{{No: 1, IDs: ids}}}); err != nil {
		t.Fatal(err)
	}
	shift(t, pool, store.Table(), time.Hour)

	second := acquireAs(t, store, "second")
	orphans, err := second.Recover(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	if len(orphans) != 1 || orphans[0].IDs[0] != ids[0] || !orphans[0].Lost {
		t.Errorf("got %+v, want the lost message %d", orphans, ids[0])
	}
	if _, err := first.Renew(t.Context(), outbox.Renewal{}); !errors.Is(err, outbox.ErrLeaseLost) {
		t.Errorf("the first relay renews: %v", err)
	}
}

// R-A49.
func TestOnlyOneRelayIsActiveAtATime(t *testing.T) {
	pool := testenv.Postgres(t).Pool(t)
	store := newStore(t, pool, pgstore.Config{})
	var wg sync.WaitGroup
	leases := make([]outbox.Lease, 8)
	for i := range leases {
		wg.Go(func() {
			lease, err := store.Acquire(t.Context(), outbox.LeaseRequest{Instance: fmt.Sprint(i), TTL: time.Minute})
			switch {
			case err == nil:
				leases[i] = lease
			case !errors.Is(err, outbox.ErrLeaseHeld):
				t.Error(err)
			}
		})
	}
	wg.Wait()

	active := 0
	for _, lease := range leases {
		if lease != nil {
			active++
		}
	}
	if active != 1 {
		t.Errorf("%d relays are active, want 1", active)
	}
}

func TestAChangedColumnTypeIsReadWithoutAReconnect(t *testing.T) {
	pool := testenv.Postgres(t).Pool(t)
	store := newStore(t, pool, pgstore.Config{})
	enqueue(t, store, "a")
	lease := acquire(t, store)
	read(t, lease)

	exec(t, pool, `DROP VIEW `+store.Table()+`_status`)
	exec(t, pool, `ALTER TABLE `+store.Table()+` ALTER payload TYPE jsonb, ADD COLUMN added int`)

	if got := read(t, lease); len(got) != 1 || string(got[0].Payload) != `{"n": 1}` {
		t.Errorf("got %v", got)
	}
}

// Torture under the race detector: a statement whose description is known is sent at
// once, so its failure is only found where its first row is expected.
func TestAStatementThatFailsLateIsAnErrorAndNoPanic(t *testing.T) {
	cfg := testenv.Postgres(t).Pool(t).Config().Copy()
	cfg.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	store := newStore(t, pool, pgstore.Config{})
	ids := enqueue(t, store, "a")
	archive := outbox.PurgeRequest{
		Published: time.Hour, Dead: time.Hour, Limit: 10, Archive: func(*outbox.Record) error { return nil },
	}
	list, err := store.List(t.Context(), outbox.Filter{Limit: 1})
	if err != nil || len(list.Records) != 1 {
		t.Fatalf("messages %v: %+v, %v", ids, list, err)
	}
	calls := map[string]func() error{
		"get":   func() error { _, err := store.Get(t.Context(), list.Records[0].EventID); return err },
		"list":  func() error { _, err := store.List(t.Context(), outbox.Filter{Limit: 1}); return err },
		"keys":  func() error { _, err := store.Keys(t.Context(), 0, 10); return err },
		"purge": func() error { _, err := store.Purge(t.Context(), archive); return err },
	}
	for name, call := range calls {
		if err := call(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	exec(t, pool, `ALTER TABLE `+store.Table()+` RENAME TO gone`)

	for name, call := range calls {
		if err := call(); err == nil {
			t.Errorf("%s: no error on a table that is gone", name)
		}
	}
}

func TestListenWakesOnceANotifierHasSent(t *testing.T) {
	pool := testenv.Postgres(t).Pool(t)
	store := newStore(t, pool, pgstore.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	wakes := make(chan struct{}, 100)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		if err := store.Listen(ctx, func() { wakes <- struct{}{} }); !errors.Is(err, context.Canceled) {
			t.Errorf("listen: %v", err)
		}
	})
	notifier := store.Notifier(time.Millisecond)
	wg.Go(func() {
		if err := notifier.Run(ctx); err != nil {
			t.Errorf("notifier: %v", err)
		}
	})

	<-wakes // listening
	for range 1000 {
		notifier.Notify()
	}
	select {
	case <-wakes:
	case <-time.After(10 * time.Second):
		t.Error("no wake-up")
	}
}

func TestTheStatusViewAgreesWithTheProgram(t *testing.T) {
	pool := testenv.Postgres(t).Pool(t)
	store := newStore(t, pool, pgstore.Config{})
	ids := enqueue(t, store, "a", "b", "c", "d", "e")
	late := message("f")
	late.AvailableAt = time.Now().Add(time.Hour)
	if _, err := store.EnqueueAutocommit(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	lease := acquire(t, store)
	err := lease.Step(t.Context(), outbox.Step{
		Outcomes: []outbox.Outcome{
			{Sequence: ids[0], Spent: 1},
			{Sequence: ids[1], Kind: outbox.Retry, Spent: 1, Delay: time.Hour},
			{Sequence: ids[2], Kind: outbox.Dead, Reason: outbox.DeadPermanent, Spent: 1},
		},
		Record: []outbox.Batch{{No: 1, IDs: ids[3:4]}},
	})
	if err != nil {
		t.Fatal(err)
	}

	list, err := store.List(t.Context(), outbox.Filter{OldestFirst: true})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[outbox.Status]bool{}
	for _, r := range list.Records {
		want := r.Status(list.Now)
		seen[want] = true
		if n := count(t, pool, `SELECT count(*) FROM `+store.Table()+`_status WHERE sequence = $1 AND status = $2`, r.Sequence, string(want)); n != 1 {
			t.Errorf("message %d is not %s in the view", r.Sequence, want)
		}
	}
	if len(seen) != 6 {
		t.Errorf("the test covers only %v", seen)
	}
}
