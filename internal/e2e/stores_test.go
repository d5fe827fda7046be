package e2e

import (
	"context"
	"database/sql"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	_ "modernc.org/sqlite"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/relay"
	"github.com/go-outbox/outbox/store/memstore"
	"github.com/go-outbox/outbox/store/sqlitestore"
)

// A fullStore is a store with everything that operators need.
type fullStore interface {
	outbox.Store
	outbox.Inspector
	outbox.Operator
	EnqueueAutocommit(ctx context.Context, msg outbox.Message) (int64, error)
}

// databases make an empty store each.
var databases = []struct {
	name string
	open func(t *testing.T) fullStore
}{
	{"SQLite", openSQLite},
	{"PostgreSQL", func(t *testing.T) fullStore { return newStore(t, testenv.Postgres(t).Pool(t)) }},
}

func openMemory(t *testing.T) fullStore {
	t.Helper()
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func openSQLite(t *testing.T) fullStore {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "outbox.db")+"?_pragma=busy_timeout(5000)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := sqlitestore.Prepare(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	store, err := sqlitestore.New(db, sqlitestore.Config{Table: "shop_outbox"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return store
}

// start runs a relay until stop is called.
func start(t *testing.T, store outbox.Store, d outbox.Dispatcher, cfg relay.Config) (stop func()) {
	t.Helper()
	r, err := relay.New(store, d, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// enqueue commits a message and returns its id.
func enqueue(t *testing.T, store fullStore, topic, key string) uuid.UUID {
	t.Helper()
	msg := outbox.Message{EventID: uuid.New(), Topic: topic, Key: key, Payload: []byte(`{"n":1}`)}
	if _, err := store.EnqueueAutocommit(t.Context(), msg); err != nil {
		t.Fatal(err)
	}
	return msg.EventID
}

func apply(t *testing.T, store fullStore, a outbox.Action) outbox.Effect {
	t.Helper()
	a.Actor, a.Reason = "ada", "a test"
	effect, err := store.Apply(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return effect
}

// eventually waits for something that must come true.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for !holds() {
		if !pause(ctx, 10*time.Millisecond) {
			t.Fatalf("it did not happen within 30 s: %s", what)
		}
	}
}
