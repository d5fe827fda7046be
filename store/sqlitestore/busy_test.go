package sqlitestore_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/store/sqlitestore"
)

// impatient opens a handle whose connections report a busy file at once, so that all
// waiting is the store's.
func impatient(t testing.TB, file string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// holdLock takes the write lock of a file and returns what lets go of it.
func holdLock(t *testing.T, file string) (letGo func()) {
	t.Helper()
	conn, err := open(t, file).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	return func() {
		if _, err := conn.ExecContext(context.Background(), "ROLLBACK"); err != nil {
			t.Error(err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
}

func message(key string) outbox.Message {
	return outbox.Message{Topic: "shop.order.placed.v1", Key: key, Payload: []byte(`{"n":1}`)}
}

func acquire(t testing.TB, store outbox.Store, instance string) outbox.Lease {
	t.Helper()
	lease, err := store.Acquire(t.Context(), outbox.LeaseRequest{Instance: instance, TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// F-27.
func TestABusyFileIsWaitedForAndNeverReported(t *testing.T) {
	file := newFile(t)
	db := impatient(t, file)
	store := newStore(t, db)
	migrated(t, db, store)
	lease := acquire(t, store, "one")

	for _, c := range []struct {
		name string
		call func(ctx context.Context) error
	}{
		{"EnqueueAutocommit", func(ctx context.Context) error {
			_, err := store.EnqueueAutocommit(ctx, message("a"))
			return err
		}},
		{"Step", func(ctx context.Context) error {
			return lease.Step(ctx, outbox.Step{Record: []outbox.Batch{{No: 1, IDs: []int64{1}}}})
		}},
		{"Renew", func(ctx context.Context) error {
			_, err := lease.Renew(ctx, outbox.Renewal{})
			return err
		}},
		{"Recover", func(ctx context.Context) error {
			_, err := lease.Recover(ctx)
			return err
		}},
		{"Heartbeat", func(ctx context.Context) error {
			_, err := store.Heartbeat(ctx, outbox.Member{Instance: "one", TTL: time.Minute})
			return err
		}},
		{"Migrate", func(ctx context.Context) error {
			_, err := store.Migrate(ctx)
			return err
		}},
		{"Purge", func(ctx context.Context) error {
			_, err := store.Purge(ctx, outbox.PurgeRequest{Limit: 1})
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			letGo := holdLock(t, file)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			if err := c.call(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("while the lock is held: %v", err)
			}

			var freed sync.WaitGroup
			freed.Add(1)
			time.AfterFunc(10*time.Millisecond, func() { defer freed.Done(); letGo() })
			if err := c.call(t.Context()); err != nil {
				t.Errorf("once the lock is free: %v", err)
			}
			freed.Wait()
		})
	}
}

func TestACancelledCallDoesNotWaitForTheBusyTimeout(t *testing.T) {
	file := newFile(t)
	db := open(t, file) // with a busy timeout of twenty seconds
	store := newStore(t, db)
	migrated(t, db, store)
	db.SetMaxOpenConns(1)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	defer holdLock(t, file)()

	began := time.Now()
	_, err := store.EnqueueAutocommit(ctx, message("a"))

	if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > 5*time.Second {
		t.Errorf("after %s: %v", took, err)
	}
	var timeout int
	if err := db.QueryRowContext(t.Context(), "PRAGMA busy_timeout").Scan(&timeout); err != nil || timeout != 20000 {
		t.Errorf("the caller's busy timeout became %d: %v", timeout, err)
	}
}

func TestReadsDoNotWaitForAWriter(t *testing.T) {
	file := newFile(t)
	db := impatient(t, file)
	store := newStore(t, db)
	migrated(t, db, store)
	lease := acquire(t, store, "one")
	defer holdLock(t, file)()

	if _, err := lease.Read(t.Context(), outbox.ReadRequest{Limit: 10, Due: 10}); err != nil {
		t.Error(err)
	}
	if _, err := store.Stats(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestManyHandlesWriteToOneFileWithoutAnError(t *testing.T) {
	const handles, each = 4, 25
	file := newFile(t)
	db := impatient(t, file)
	first := newStore(t, db)
	migrated(t, db, first)

	var writers sync.WaitGroup
	for range handles {
		store := newStore(t, impatient(t, file))
		writers.Go(func() {
			for range each {
				if _, err := store.EnqueueAutocommit(t.Context(), message("k")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()

	stats, err := first.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if stats.Pending != handles*each {
		t.Errorf("pending: got %d, want %d", stats.Pending, handles*each)
	}
}

func TestACancelledCallLeavesTheConnectionUsable(t *testing.T) {
	store, db := newMigrated(t)
	db.SetMaxOpenConns(1) // a connection left in a transaction would be the next one
	lease := acquire(t, store, "one")
	ctx, cancel := context.WithCancel(t.Context())
	_, err := store.Purge(ctx, outbox.PurgeRequest{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.EnqueueAutocommit(ctx, message("a")); err != nil {
		t.Fatal(err)
	}
	mustExec(t, db, "UPDATE "+table+" SET published_at = 1")
	_, err = store.Purge(ctx, outbox.PurgeRequest{Limit: 10, Archive: func(*outbox.Record) error { cancel(); return nil }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("purge: %v", err)
	}

	if err := lease.Step(t.Context(), outbox.Step{Done: []int64{1}}); err != nil {
		t.Error(err)
	}
}

func TestPreparePutsTheFileIntoWALMode(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "wal.db"))
	if err := sqlitestore.Prepare(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	var mode string
	if err := db.QueryRowContext(t.Context(), "PRAGMA journal_mode").Scan(&mode); err != nil {
		t.Fatal(err)
	}
	if !strings.EqualFold(mode, "wal") {
		t.Errorf("journal mode %s", mode)
	}
}
